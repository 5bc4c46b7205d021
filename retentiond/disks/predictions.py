"""The plan's deletions with the bytes that they will free on disk.

A broker frees whole segments that lie wholly below the log start offset, and never the active
one; how the segments lie can't be seen from outside. So this is an estimate:

- *Bytes per record*: the replica's size, spread evenly over its offsets.
- *Segments* are as large as ``segment.bytes``, or as what arrives in ``segment.ms`` where that is
  less. The first one begins where the log begins on disk, and the last one is active.
- A log that still begins at offset 0 is cut at those segments: what the cutoff covers only in
  part stays. Elsewhere an earlier deletion has left the log start somewhere within the first
  segment, whose *dead bytes* below it count in the size: half a segment, by expectation. They
  go with the segment, as the covered part of the last one stays, so what is freed is by
  expectation just what the deleted records take.
- What Kafka's own retention removes anyway is not this deletion's doing: what exceeds
  ``retention.bytes`` by whole segments, and everything where ``retention.ms`` is no longer than
  the consumed retention.

An error of up to a segment for each replica remains; over many it evens out.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from retentiond.config import TopicPolicy
from retentiond.disks.log_dirs import DiskReading, ReplicaFolder, ReplicaKey
from retentiond.model import PlanRow, TopicPartition, Verdict
from retentiond.snapshot import PartitionReading, Snapshot, TopicReading, partitions_of

NONE_AWAITED: Mapping[ReplicaKey, int] = {}

Predictions: TypeAlias = Mapping[TopicPartition, Mapping[ReplicaKey, int]]
"""Bytes by replica, of the deletions whose bytes are known."""


def predict(
    rows: Sequence[PlanRow],
    snapshot: Snapshot,
    reading: DiskReading,
    awaited_bytes: Mapping[ReplicaKey, int] = NONE_AWAITED,
) -> Predictions:
    """What each deletion frees of each replica.

    ``awaited_bytes``: what earlier deletions are to free and the brokers have yet to remove: it
    still counts in the sizes, and is not freed twice.
    """
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
    """The same rows, deletions with their ``predicted_bytes`` where they are known."""
    return tuple(
        replace(row, predicted_bytes=sum(found.values()))
        if (found := predictions.get(row.topic_partition)) is not None
        else row
        for row in rows
    )


def tiered_partitions(snapshot: Snapshot) -> Mapping[TopicPartition, PartitionReading]:
    """Those whose logs have a part in remote storage."""
    return {
        at: partition
        for at, partition in zip(partitions_of(snapshot), snapshot.partitions, strict=True)
        if is_tiered(snapshot.topics[partition.topic])
    }


def is_tiered(topic: TopicReading) -> bool:
    return topic.config is not None and topic.config.remote_storage


def record_bytes(snapshot: Snapshot, reading: DiskReading) -> dict[str, float]:
    """What a record takes on average, by the id of each tiered topic of which disks hold any."""
    found: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for at, partition in tiered_partitions(snapshot).items():
        topic_id, end = snapshot.topics[partition.topic].topic_id, partition.high_watermark
        local_start, size_bytes = partition.local_start_offset, _largest(reading.replicas(at) or ())
        if topic_id is None or local_start is None or end is None or not size_bytes:
            continue
        if end > local_start:
            found[topic_id].append((size_bytes, end - local_start))
    return {
        topic_id: sum(size for size, _ in parts) / sum(records for _, records in parts)
        for topic_id, parts in found.items()
    }


def remote_logs(
    snapshot: Snapshot, reading: DiskReading, record_bytes: Mapping[str, float]
) -> dict[TopicPartition, Remote | None]:
    """Of each tiered partition; None where its offsets, its disks or its topic are not known."""
    return {
        at: _remote_log(
            partition, snapshot.topics[partition.topic], reading.replicas(at), record_bytes
        )
        for at, partition in tiered_partitions(snapshot).items()
    }


def _remote_log(
    partition: PartitionReading,
    topic: TopicReading,
    replicas: Sequence[ReplicaFolder] | None,
    record_bytes: Mapping[str, float],
) -> Remote | None:
    rules = segment_rules(topic, partition)
    start, end = partition.log_start_offset, partition.high_watermark
    local_start = partition.local_start_offset
    if rules is None or replicas is None or start is None or end is None or local_start is None:
        return None
    closed = closed_bytes(_largest(replicas), end - local_start, rules)
    return Remote(record_bytes.get(topic.topic_id or ""), start, local_start, closed)


def with_remote(
    rows: Sequence[PlanRow],
    remote: Mapping[TopicPartition, Remote | None],
    predictions: Predictions,
) -> tuple[PlanRow, ...]:
    """The same rows, deletions from tiered logs with ``predicted_remote_bytes``."""

    def with_bytes(row: PlanRow) -> PlanRow:
        at = row.topic_partition
        log, local = remote.get(at), predictions.get(at)
        if log is None or local is None or row.cutoff is None:
            return row
        freed = log.freed_bytes(row.cutoff, max(local.values(), default=0))
        return replace(row, predicted_remote_bytes=freed)

    return tuple(map(with_bytes, rows)) if remote else tuple(rows)


def _largest(replicas: Sequence[ReplicaFolder]) -> int:
    return max((each.size_bytes for each in replicas), default=0)


def sizes(
    at: TopicPartition, replicas: Iterable[ReplicaFolder]
) -> Iterator[tuple[ReplicaKey, int]]:
    for each in replicas:
        yield ReplicaKey(at, each.broker, each.log_dir), each.size_bytes


def _deleted_range(
    row: PlanRow, partition: PartitionReading, topic: TopicReading
) -> DeletedRange | None:
    """None where nothing is deleted, or not all of it is known."""
    local_start = partition.local_start_offset if is_tiered(topic) else row.log_start_offset
    if row.verdict is not Verdict.DELETE:
        return None
    if local_start is None or row.log_start_offset is None:
        return None
    if row.cutoff is None or row.high_watermark is None:
        return None
    return DeletedRange(max(row.log_start_offset, local_start), row.cutoff, row.high_watermark)


def segment_rules(topic: TopicReading, partition: PartitionReading) -> SegmentRules | None:
    """None where the topic's configs or policy are not known."""
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
    """By the records that are younger than the consumed retention; None where none is."""
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
        return None  # all are young: they may have come in a moment
    return (end - retention_offset) / consumed_retention_ms


@dataclass(frozen=True, slots=True)
class DeletedRange:
    """A deletion: the records from the log start offset to the cutoff, of those up to the end.

    Of a tiered log it is about what is on the disks: the log starts where that begins.
    """

    log_start_offset: int
    cutoff: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class SegmentRules:
    """What is known of how a topic's segments begin and end.

    ``records_per_ms``: how fast a partition grows, None where that can't be told.
    ``kafka_removes_all``: its own retention by time goes at least as far as the cutoff.
    """

    segment_bytes: int
    segment_ms: int | None = None
    retention_bytes: int | None = None
    records_per_ms: float | None = None
    kafka_removes_all: bool = False


def freed_bytes(size_bytes: int, cut: DeletedRange, rules: SegmentRules) -> int:
    """What a replica of that size loses by the cut; never negative, and less than its size."""
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
    kafkas = math.floor(max(0, excess) / segment) * segment
    return max(0, int(min(freed, closed) - kafkas))


def closed_bytes(size_bytes: int, records: int, rules: SegmentRules) -> int:
    """About what all segments but the active one take of a log of that size."""
    return int(_closed_bytes(size_bytes, _segment_bytes(size_bytes / max(1, records), rules)))


@dataclass(frozen=True, slots=True)
class Remote:
    """About what a tiered log takes in remote storage, where each record lies once: what is there
    alone, and the copies of the closed segments that are on the disks as well.

    ``record_bytes``: a record's average; None where it was never seen on a disk.
    """

    record_bytes: float | None
    log_start_offset: int
    local_start_offset: int
    closed_bytes: int

    @property
    def size_bytes(self) -> int | None:
        return self._with_records(self.local_start_offset, self.closed_bytes)

    def freed_bytes(self, cutoff: int, local_bytes: int) -> int | None:
        """By a deletion that frees that much of one replica."""
        return self._with_records(min(cutoff, self.local_start_offset), local_bytes)

    def _with_records(self, end: int, local_bytes: int) -> int | None:
        records = max(0, end - self.log_start_offset)
        if not records:
            return local_bytes
        return None if self.record_bytes is None else int(records * self.record_bytes) + local_bytes


def _closed_bytes(size_bytes: int, segment_bytes: float) -> float:
    return max(0, math.ceil(size_bytes / segment_bytes) - 1) * segment_bytes


def _segment_bytes(bytes_per_record: float, rules: SegmentRules) -> float:
    """As large as a segment becomes, and at least as large as a record."""
    segment = float(rules.segment_bytes)
    if rules.segment_ms is not None and rules.records_per_ms is not None:
        segment = min(segment, rules.records_per_ms * rules.segment_ms * bytes_per_record)
    return max(segment, bytes_per_record, 1.0)
