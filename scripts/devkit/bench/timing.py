"""Seconds, measured alike everywhere: warm, and as a median."""

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


@contextmanager
def default_garbage_collection() -> Iterator[None]:
    """Python's own threshold in the block, whatever the process has set."""
    threshold = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    try:
        yield
    finally:
        gc.set_threshold(*threshold)


def median(call: Callable[[], object], runs: int = RUNS, warm_up: int = WARM_UP) -> float:
    """The median of ``runs`` calls after some that don't count."""
    for _ in range(warm_up):
        call()
    return statistics.median(seconds(call)[0] for _ in range(runs))
