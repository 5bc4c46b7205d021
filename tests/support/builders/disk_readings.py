"""Readings of disks, in a few words, and deletions from a tiered topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from retentiond.disks.log_dirs import DiskReading, ReplicaFolder, ReplicaKey
from retentiond.model import PlanRow, TopicPartition
from retentiond.snapshot import Snapshot
from tests.support.builders.gather_worlds import config as policy
from tests.support.builders.gather_worlds import entry, healthy, snapshot
from tests.support.builders.reports import row

AT = TopicPartition("orders", 0)
SEGMENT = 1000


def reading(sizes: Mapping[int, int], *, future: Mapping[int, int] | None = None) -> DiskReading:
    """Of `AT`: sizes by broker, in the directory /a of each; ``future`` ones lie in /b."""
    folders = [ReplicaFolder(broker, "/a", size, False) for broker, size in sizes.items()]
    folders += [ReplicaFolder(broker, "/b", size, True) for broker, size in (future or {}).items()]
    return DiskReading({AT: tuple(folders)})


def replica(broker: int = 1, log_dir: str = "/a") -> ReplicaKey:
    return ReplicaKey(AT, broker, log_dir)


def tiered(
    *, log_start: int = 0, local_start: int | None = 800, end: int = 1000, segment: int = 1000
) -> Snapshot:
    """Of ``orders`` alone."""
    taken = snapshot(healthy(), policy(entry("orders")))
    (topic,) = taken.topics
    assert topic.config is not None
    config = replace(topic.config, remote_storage=True, segment_bytes=segment, segment_ms=None)
    changed = replace(topic, config=config)
    partition = replace(
        taken.partitions[0],
        log_start_offset=log_start,
        local_start_offset=local_start,
        high_watermark=end,
        last_stable_offset=end,
        retention_offset=end,
    )
    return replace(taken, topics=(changed,), partitions=(partition,))


def deletion(cutoff: int, log_start: int = 0, end: int = 1000) -> PlanRow:
    return replace(
        row("orders"),
        log_start_offset=log_start,
        cutoff=cutoff,
        high_watermark=end,
        records=cutoff - log_start,
    )
