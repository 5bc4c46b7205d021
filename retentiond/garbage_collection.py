"""Collects Python's unreachable objects rarely, and gives memory back where it matters."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa

OBJECTS_BETWEEN_COLLECTIONS = 100_000  # by default 700

M_MMAP_THRESHOLD = -3  # glibc's name for the size from which on a block is a mapping of its own

LARGE_BLOCK_BYTES = 128 * 1024
"""glibc begins with that size too, and takes a larger one whenever such a block is freed."""


def collect_rarely() -> None:
    """For the whole process. A reading is made of a hundred thousand objects at once, none of
    them in a cycle: looking for cycles takes longer than reading."""
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)


def release_large_blocks_at_once() -> None:
    """For the whole process: a large block goes back as soon as it is freed. A cycle's columns are
    such, and each is used for a moment."""
    with suppress(OSError, AttributeError):  # a C library that has no such thing
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)


@contextmanager
def collected_afterwards() -> Iterator[None]:
    """Collects what was made in the block, and is unreachable, when the block ends. Python's
    handles on the JVM's objects are cycles: until they are collected, the JVM keeps all that a plan
    was made of.

    Older objects are left alone: most are a reading.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.collect()
        gc.unfreeze()


def release_memory() -> None:
    """Between cycles: what a cycle has taken, and the next one will ask for again."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):  # a C library that has no such thing
        ctypes.CDLL(None).malloc_trim(0)
