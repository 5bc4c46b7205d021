"""When Python looks for cycles among its objects, and what it gives back: rarely, and where it
matters."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa

THRESHOLD = 100_000
"""So many new objects make Python look for cycles among them; 700 do by default."""


def look_rarely() -> None:
    """For the whole process. A reading is made of a hundred thousand objects at once, none of
    them in a cycle: looking for cycles takes longer than reading."""
    gc.set_threshold(THRESHOLD)


@contextmanager
def dropped() -> Iterator[None]:
    """What is made in the block and not used after it. Python's handles on the JVM's objects are
    cycles: until they are collected, the JVM keeps all that a plan was made of.

    What is older is left alone: it is a reading, mostly.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.collect()
        gc.unfreeze()


def give_back() -> None:
    """Between cycles: what a cycle has taken, and the next one will ask for again."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):  # a C library that has no such thing
        ctypes.CDLL(None).malloc_trim(0)
