"""Predicts the bytes that the plan's deletions will free on disk.

A broker frees whole segments that lie below the log start offset, and never the active segment.
Where segments begin can't be seen from outside, so this is an estimate:

- *Bytes per record*: the replica's size, spread evenly over its offsets.
- *Segments* are as large as ``segment.bytes``, or as what arrives in ``segment.ms`` if that is
  less. The first segment begins where the log begins on disk, and the last one is active.
- A log that still begins at offset 0 is cut at these segments: a segment that the cutoff covers
  only in part stays.
- In any other log, an earlier deletion has left the log start offset somewhere within the first
  segment. The *dead bytes* below it still count in the size: half a segment, by expectation.
  They go with their segment, while the covered part of the last segment stays. So by expectation
  a deletion frees just the bytes of its records.
- What Kafka's own retention removes anyway doesn't count for the deletion: whole segments beyond
  ``retention.bytes``, and everything if ``retention.ms`` is no longer than the consumed
  retention.

An error of up to a segment for each replica remains; over many replicas it evens out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from retentiond.config import TopicPolicy
from retentiond.disks.log_dirs import DiskReading, ReplicaFolder, ReplicaKey
from retentiond.model import PlanRow, TopicPartition, Verdict
from retentiond.snapshot import PartitionReading, Snapshot, TopicReading, partitions_of

NONE_AWAITED: Mapping[ReplicaKey, int] = {}

Predictions: TypeAlias = Mapping[TopicPartition, Mapping[ReplicaKey, int]]
"""Bytes by replica, for the deletions that can be predicted."""


def predict(
    rows: Sequence[PlanRow],
    snapshot: Snapshot,
    reading: DiskReading,
    awaited_bytes: Mapping[ReplicaKey, int] = NONE_AWAITED,
) -> Predictions:
    """``awaited_bytes``: bytes of earlier deletions that the brokers have yet to remove. The sizes
    still include them, and they are not freed twice."""
    topics = {topic.name: topic for topic in snapshot.topics}
    partitions = dict(zip(partitions_of(snapshot), snapshot.partitions, strict=True))
    predictions: dict[TopicPartition, Mapping[ReplicaKey, int]] = {}
    for row in rows:
        at = row.topic_partition
        partition, replicas = partitions.get(at), reading.replicas(at)
        if partition is None or replicas is None:
            continue
        cut = _deleted_range(row, partition, topics[row.topic])
        rules = segment_rules(topics[row.topic], partition)
        if cut is not None and rules is not None:
            predictions[at] = {
                key: freed_bytes(size_bytes - awaited_bytes.get(key, 0), cut, rules)
                for key, size_bytes in sizes(at, replicas)
            }
    return predictions


def with_predictions(rows: Sequence[PlanRow], predictions: Predictions) -> tuple[PlanRow, ...]:
    return tuple(
        replace(row, predicted_bytes=sum(by_replica.values()))
        if (by_replica := predictions.get(row.topic_partition)) is not None
        else row
        for row in rows
    )


def tiered_partitions(snapshot: Snapshot) -> set[TopicPartition]:
    """The partitions of topics with remote storage (KIP-405)."""
    return {
        at
        for at, partition in zip(partitions_of(snapshot), snapshot.partitions, strict=True)
        if is_tiered(snapshot.topics[partition.topic])
    }


def is_tiered(topic: TopicReading) -> bool:
    return topic.config is not None and topic.config.remote_storage


def sizes(
    at: TopicPartition, replicas: Iterable[ReplicaFolder]
) -> Iterator[tuple[ReplicaKey, int]]:
    for replica in replicas:
        yield ReplicaKey(at, replica.broker, replica.log_dir), replica.size_bytes


def _deleted_range(
    row: PlanRow, partition: PartitionReading, topic: TopicReading
) -> DeletedRange | None:
    """None if the row deletes nothing, or an offset is not known."""
    local_start = partition.local_start_offset if is_tiered(topic) else row.log_start_offset
    if row.verdict is not Verdict.DELETE:
        return None
    if local_start is None or row.log_start_offset is None:
        return None
    if row.cutoff is None or row.high_watermark is None:
        return None
    return DeletedRange(max(row.log_start_offset, local_start), row.cutoff, row.high_watermark)


def segment_rules(topic: TopicReading, partition: PartitionReading) -> SegmentRules | None:
    """How the topic's segments begin and end; None if its configs or its policy are not known."""
    config, policy = topic.config, topic.policy
    if config is None or config.segment_bytes is None or not isinstance(policy, TopicPolicy):
        return None
    forced = config.retention_ms
    return SegmentRules(
        segment_bytes=config.segment_bytes,
        segment_ms=config.segment_ms,
        retention_bytes=config.retention_bytes,
        records_per_ms=_records_per_ms(partition, partition.retention_ms(policy)),
        kafka_removes_all=forced is not None and forced <= partition.retention_ms(policy),
    )


def _records_per_ms(partition: PartitionReading, consumed_retention_ms: int) -> float | None:
    """How fast records arrive: those younger than the consumed retention, per millisecond. None if
    there are none, or if all records are that young."""
    end, retention_offset = partition.high_watermark, partition.retention_offset
    if (
        end is None
        or retention_offset is None
        or consumed_retention_ms <= 0
        or retention_offset >= end
    ):
        return None
    log_start = partition.log_start_offset
    if log_start is not None and retention_offset <= log_start:
        return None  # all are young: they may have arrived at once
    return (end - retention_offset) / consumed_retention_ms


@dataclass(frozen=True, slots=True)
class DeletedRange:
    """In a tiered log this is the part on the disks: its log start offset is the first local
    one."""

    log_start_offset: int
    cutoff: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class SegmentRules:
    """``records_per_ms``: how fast the partition grows; None if that is not known.
    ``kafka_removes_all``: Kafka's own retention by time goes at least as far as the cutoff."""

    segment_bytes: int
    segment_ms: int | None = None
    retention_bytes: int | None = None
    records_per_ms: float | None = None
    kafka_removes_all: bool = False


def freed_bytes(size_bytes: int, cut: DeletedRange, rules: SegmentRules) -> int:
    """The bytes that a replica of that size loses: never negative, and less than its size."""
    end = max(cut.end_offset, cut.log_start_offset)
    cutoff = min(cut.cutoff, end)
    if cutoff <= cut.log_start_offset or size_bytes <= 0 or rules.kafka_removes_all:
        return 0
    segment = _segment_bytes(size_bytes / (end - cut.log_start_offset), rules)
    closed = _closed_bytes(size_bytes, segment)
    if cut.log_start_offset == 0:
        freed = math.floor(size_bytes * cutoff / end / segment) * segment
    else:
        dead = min(segment, size_bytes) / 2
        share = (cutoff - cut.log_start_offset) / (end - cut.log_start_offset)
        freed = (size_bytes - dead) * share
    excess = size_bytes - (size_bytes if rules.retention_bytes is None else rules.retention_bytes)
    freed_by_kafka = math.floor(max(0, excess) / segment) * segment
    return max(0, int(min(freed, closed) - freed_by_kafka))


def _closed_bytes(size_bytes: int, segment_bytes: float) -> float:
    return max(0, math.ceil(size_bytes / segment_bytes) - 1) * segment_bytes


def _segment_bytes(bytes_per_record: float, rules: SegmentRules) -> float:
    """How large a segment becomes: at least as large as a record."""
    segment = float(rules.segment_bytes)
    if rules.segment_ms is not None and rules.records_per_ms is not None:
        segment = min(segment, rules.records_per_ms * rules.segment_ms * bytes_per_record)
    return max(segment, bytes_per_record, 1.0)
