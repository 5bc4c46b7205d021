"""Brokers at rest, and what a cycle costs them: the CPU that they take for it beyond that.

A broker that is asked nothing goes on fetching, checking its logs and talking to the controller,
and the more partitions it has, the more. DeleteRecords is answered before the leader epochs of
its partitions are on disk: the broker goes on writing, a file for each partition. A request that
comes right after waits for that, and one that comes minutes later, as a daemon's does, does not.
"""

import time
from collections.abc import Callable
from typing import TypeVar

import psutil

from devkit.embedded import EmbeddedKafka

T = TypeVar("T")

WINDOW_S = 0.2

IDLE_WRITES = 20
"""In a window, at most: the controller writes now and then, whatever is asked."""

TIMEOUT_S = 600.0
"""Ten million commits are cleaned for minutes."""

REST_S = 10.0
"""Long enough for what a broker does every few seconds."""


def await_rest(kafka: EmbeddedKafka) -> None:
    """Returns when no broker writes any more than one that is asked nothing.

    Raises TimeoutError when they go on.
    """
    processes = [psutil.Process(node.pid) for node in kafka.nodes]
    give_up_at = time.monotonic() + TIMEOUT_S
    before = [process.io_counters().write_count for process in processes]
    while time.monotonic() < give_up_at:
        time.sleep(WINDOW_S)
        after = [process.io_counters().write_count for process in processes]
        if all(now - then <= IDLE_WRITES for now, then in zip(after, before, strict=True)):
            return
        before = after
    raise TimeoutError(f"the broker has been writing for longer than {TIMEOUT_S:g} s")


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
