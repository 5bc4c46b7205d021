"""What a cycle costs the brokers: the CPU that they take for it beyond what they take at rest.

A broker that is asked nothing goes on fetching, checking its logs and talking to the controller,
and the more partitions it has, the more.
"""

import time
from collections.abc import Callable
from typing import TypeVar

import psutil

from devkit.bench.rest import await_rest
from devkit.embedded import EmbeddedKafka

T = TypeVar("T")

REST_S = 10.0
"""Long enough for what a broker does every few seconds."""


def at_rest(kafka: EmbeddedKafka) -> float:
    """Seconds of CPU that all brokers together take in a second while nobody asks anything."""
    await_rest(kafka)
    before_s = _cpu_s(kafka)
    time.sleep(REST_S)
    return (_cpu_s(kafka) - before_s) / REST_S


def cost(kafka: EmbeddedKafka, rest: float, call: Callable[[], T]) -> tuple[T, float]:
    """What the call returns, and the seconds of CPU that it costs all brokers together; ``rest``
    is of `at_rest`."""
    before_s, began_at = _cpu_s(kafka), time.monotonic()
    result = call()
    took_s = time.monotonic() - began_at
    return result, _cpu_s(kafka) - before_s - rest * took_s


def _cpu_s(kafka: EmbeddedKafka) -> float:
    times = [psutil.Process(node.pid).cpu_times() for node in kafka.nodes]
    return sum(each.user + each.system for each in times)
