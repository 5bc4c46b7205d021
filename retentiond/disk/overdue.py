"""Records that Kafka's own retention should have removed, and has not."""

from __future__ import annotations

from collections.abc import Collection

from retentiond.collect.snapshot import PartitionReading, Snapshot, TopicReading, partitions_of
from retentiond.config import PolicyConflict, TopicPolicy
from retentiond.disk.reading import DiskReading, Folders
from retentiond.disk.stuck import Overdue
from retentiond.kafka.port import Kafka
from retentiond.model import Failure, TopicPartition


def look_up(
    kafka: Kafka,
    snapshot: Snapshot,
    reading: DiskReading,
    suspects: Collection[TopicPartition],
    check_interval_ms: int,
) -> dict[TopicPartition, Overdue]:
    """What of the suspects is older than their forced retention and a check interval."""
    timestamps: dict[TopicPartition, int] = {}
    known: dict[TopicPartition, Overdue] = {}
    for at, partition in zip(partitions_of(snapshot), snapshot.partitions, strict=True):
        topic, replicas = snapshot.topics[partition.topic], reading.replicas(at)
        retention_ms = topic.config.retention_ms if topic.config else None
        if at not in suspects or retention_ms is None or replicas is None:
            continue
        everything = _everything(topic, partition, replicas)
        if everything is not None:
            known[at] = everything
            # A negative timestamp would be one of Kafka's special values.
            timestamps[at] = max(0, snapshot.taken_at_ms - retention_ms - check_interval_ms)
    overdue: dict[TopicPartition, Overdue] = {}
    for at, found in kafka.offsets_at(timestamps).items() if timestamps else ():
        if not isinstance(found, Failure):
            overdue[at] = known[at] if found is None else known[at].up_to(found)
    return overdue


def _everything(
    topic: TopicReading, partition: PartitionReading, replicas: Folders
) -> Overdue | None:
    """All of the partition's records; None where none of them can be overdue."""
    config = topic.config
    start, end = partition.log_start_offset, partition.high_watermark
    if config is None or config.segment_bytes is None or "delete" not in config.cleanup_policy:
        return None
    if start is None or end is None or end <= start:
        return None
    if partition.retention_offset == start and _is_shorter(topic.policy, config.retention_ms):
        return None  # all are younger than even the consumed retention
    # The largest replica is the one that is stuck. Up to a segment of it may lie below the start.
    size = max(each.size_bytes for each in replicas) - (config.segment_bytes if start else 0)
    return Overdue(start, end, max(0, size) / (end - start), config.segment_bytes)


def _is_shorter(policy: TopicPolicy | PolicyConflict, retention_ms: int | None) -> bool:
    """Whether the consumed retention is, or as long."""
    if not isinstance(policy, TopicPolicy) or retention_ms is None:
        return False
    return policy.consumed_retention_ms <= retention_ms
