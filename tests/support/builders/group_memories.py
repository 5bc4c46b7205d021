"""A memory that is fed by a cluster in memory."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from retentiond.config import Config
from retentiond.memory.changes import changes
from retentiond.memory.readers import GroupOnTopic, RememberedReader
from retentiond.memory.remembered import NOTHING, Remembered
from retentiond.snapshot import Snapshot
from retentiond.state.groups import GroupMemory
from tests.support.builders.gather_worlds import snapshot
from tests.support.builders.remembered import readers_table
from tests.support.fakes import FakeCluster

BILLING = GroupOnTopic("billing", "orders")


def taken(
    kafka: FakeCluster, remembered: Remembered = NOTHING, policy: Config | None = None
) -> Snapshot:
    return snapshot(kafka, policy, remembered=remembered)


def cycle(memory: GroupMemory, kafka: FakeCluster, policy: Config | None = None) -> Snapshot:
    """What a cycle does with the memory."""
    before = memory.recall()
    read = taken(kafka, before, policy)
    remember(memory, read, before)
    return read


def remember(memory: GroupMemory, read: Snapshot, before: Remembered, interval_ms: int = 0) -> None:
    observed_ms = memory.observed_ms(interval_ms)
    memory.remember(changes(read, before, 1, observed_ms), before)


def add_readers(state_dir: Path, readers: Mapping[GroupOnTopic, RememberedReader]) -> None:
    """As earlier cycles have seen them."""
    with closing(GroupMemory.open(state_dir)) as memory, memory._transaction() as contents:
        contents.readers = contents.readers.with_rows(readers_table(readers))
