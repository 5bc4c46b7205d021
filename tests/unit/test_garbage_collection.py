"""What is collected, and when."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Iterator

import pytest

from retentiond import garbage_collection

FREES_LARGE_BLOCKS = """
import numpy as np
import psutil
from retentiond import garbage_collection

def resident():
    return psutil.Process().memory_info().rss / 2**20

if {is_asked}:
    garbage_collection.release_large_blocks_at_once()
for _ in range(2):  # after the first round, such blocks are nothing special to glibc
    blocks = [np.ones(2**17) for _ in range(64)]  # a MiB each
    full = resident()
    del blocks[:-1]  # the last one keeps all that lies below it
print(full - resident())
"""


class Cycle:
    """Refers to itself, as Python's handles on Java's objects do."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _nobody_else_collects() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def thrown_away() -> weakref.ref[Cycle]:
    return weakref.ref(Cycle())


def test_what_a_block_has_made_and_uses_no_more_goes_when_it_ends() -> None:
    with garbage_collection.collected_afterwards():
        made = thrown_away()
        kept = Cycle()
        assert made() is not None
    assert made() is None
    assert kept.itself is kept


def test_it_goes_too_when_the_block_fails() -> None:
    made = []

    def plan() -> None:
        with garbage_collection.collected_afterwards():
            made.append(thrown_away())
            raise ValueError("no plan")

    with pytest.raises(ValueError, match="no plan"):
        plan()
    assert made[0]() is None


def test_what_is_older_is_left_alone_until_it_is_given_back() -> None:
    older = thrown_away()
    with garbage_collection.collected_afterwards():
        pass
    assert older() is not None
    assert gc.get_freeze_count() == 0
    garbage_collection.release_memory()
    assert older() is None


@pytest.mark.parametrize("is_asked", [True, False])
def test_large_blocks_go_back_to_the_host_when_they_are_freed(is_asked: bool) -> None:
    script = FREES_LARGE_BLOCKS.format(is_asked=is_asked)
    given_back = subprocess.check_output([sys.executable, "-c", script], text=True)

    assert (float(given_back) > 50) is is_asked
