"""The plan's deletions with what they free on disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from retentiond.collect.snapshot import PartitionReading, Snapshot, TopicReading, partitions_of
from retentiond.config import TopicPolicy
from retentiond.disk.predict import Cut, SegmentRules, freed_bytes
from retentiond.disk.reading import DiskReading, Folder
from retentiond.disk.replica import ReplicaKey
from retentiond.model import PlanRow, TopicPartition, Verdict

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
        at = TopicPartition(row.topic, row.partition)
        partition, replicas, cut = partitions.get(at), reading.replicas(at), _cut(row)
        if partition is None or replicas is None or cut is None:
            continue
        rules = segment_rules(topics[row.topic], partition)
        if rules is not None:
            predictions[at] = {
                key: freed_bytes(size_bytes - awaited_bytes.get(key, 0), cut, rules)
                for key, size_bytes in sizes(at, replicas)
            }
    return predictions


def with_predictions(rows: Sequence[PlanRow], predictions: Predictions) -> tuple[PlanRow, ...]:
    """The same rows, deletions with their ``predicted_bytes`` where they are known."""
    return tuple(
        replace(row, predicted_bytes=sum(found.values()))
        if (found := predictions.get(TopicPartition(row.topic, row.partition))) is not None
        else row
        for row in rows
    )


def sizes(at: TopicPartition, replicas: Iterable[Folder]) -> Iterator[tuple[ReplicaKey, int]]:
    for each in replicas:
        yield ReplicaKey(at, each.broker, each.log_dir), each.size_bytes


def _cut(row: PlanRow) -> Cut | None:
    """None where nothing is deleted, or not all of it is known."""
    if row.verdict is not Verdict.DELETE:
        return None
    if row.log_start_offset is None or row.cutoff is None or row.high_watermark is None:
        return None
    return Cut(row.log_start_offset, row.cutoff, row.high_watermark)


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
        records_per_ms=_records_per_ms(partition, policy.consumed_retention_ms),
        kafka_removes_all=forced is not None and forced <= policy.consumed_retention_ms,
    )


def _records_per_ms(partition: PartitionReading, consumed_retention_ms: int) -> float | None:
    """By the records that are younger than the consumed retention; None where none is."""
    end, young_since = partition.high_watermark, partition.retention_offset
    if end is None or young_since is None or consumed_retention_ms <= 0 or young_since >= end:
        return None
    log_start = partition.log_start_offset
    if log_start is not None and young_since <= log_start:
        return None  # all are young: they may have come in a moment
    return (end - young_since) / consumed_retention_ms
