"""A memory that is fed by a cluster in memory."""

from __future__ import annotations

from retentiond.collect.gather import gather
from retentiond.collect.remembered import NOTHING, GroupOnTopic, Remembered
from retentiond.collect.snapshot import Snapshot
from retentiond.config import Config
from retentiond.state.memory import Memory
from tests.fakes import FakeCluster
from tests.unit.collect.worlds import Waits, config

BILLING = GroupOnTopic("billing", "orders")


def taken(
    kafka: FakeCluster, remembered: Remembered = NOTHING, policy: Config | None = None
) -> Snapshot:
    return gather(
        kafka, policy or config(), kafka.now_ms, remembered=remembered, wait_until=Waits()
    )


def cycle(memory: Memory, kafka: FakeCluster, policy: Config | None = None) -> Snapshot:
    """What a cycle does with the memory."""
    before = memory.recall()
    snapshot = taken(kafka, before, policy)
    memory.remember(snapshot, before, settle_cycles=1)
    return snapshot
