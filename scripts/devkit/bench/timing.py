"""Seconds, measured alike everywhere: warm, and as a median."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

WARM_UP = 30
"""A JVM compiles for as long as this before a plan takes as long as it will for weeks."""

RUNS = 7


def seconds(call: Callable[[], T]) -> tuple[float, T]:
    """How long one call takes, and what it returns."""
    started = time.perf_counter()
    answer = call()
    return time.perf_counter() - started, answer
