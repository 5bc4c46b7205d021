"""Finds stuck retention (KAFKA-9087 and similar bugs) from outside, and its cause.

A broker pauses the cleaning of a partition while it moves the folder to another log directory. If
the move stalls or fails, cleaning stays paused and the disk fills up in silence: none of Kafka's
own metrics says so. Three signs tell it. A sign must last for several readings and a quarter of an
hour, because a normal move shows it for a while too, and so do brokers that check their segments
at different times.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from retentiond.config import TopicPolicy
from retentiond.disks.log_dirs import DiskReading, Folders, ReplicaKey
from retentiond.fields import NUMBER, TEXT, WORD, described, said
from retentiond.formatting import MINUTE_MS, say_about, say_bytes
from retentiond.kafka.interface import Kafka
from retentiond.model import Failure, TopicPartition
from retentiond.snapshot import PartitionReading, Snapshot, TopicReading, partitions_of


class StuckCause(StrEnum):
    FUTURE_REPLICA = "future_replica"  # a move to another log directory makes no progress
    REPLICA_GROWS = "replica_grows"  # one broker removes nothing while the others do
    RETENTION_OVERDUE = "retention_overdue"  # Kafka's own retention leaves records too old for it


@described
class Stuck:
    """A partition whose retention is stuck on a broker."""

    topic: str = said(TEXT, "the topic")
    partition: int = said(NUMBER, "the partition's number")
    cause: StuckCause = said(WORD, f"which sign tells it: {', '.join(StuckCause)}")
    sentence: str = said(TEXT, "what the readings show, where, and what to do", name="detail")

    @property
    def at(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class Overdue:
    """Records from the log start offset on that Kafka's own retention should have removed."""

    log_start_offset: int
    old_before: int  # the first offset that retention may still keep
    bytes_per_record: float
    segment_bytes: int

    def up_to(self, offset: int) -> Overdue:
        return replace(self, old_before=min(self.old_before, offset))

    @property
    def size_bytes(self) -> int:
        return int((self.old_before - self.log_start_offset) * self.bytes_per_record)


def stuck_moves(history: DiskHistory, patience: Patience) -> Iterator[Stuck]:
    for key, folder in history.future.items():
        if patience.is_over(folder.changed_at, history.now):
            stood_ms = history.now.at_ms - folder.changed_at.at_ms
            yield Stuck(
                *key.at,
                StuckCause.FUTURE_REPLICA,
                f"its move to {key.log_dir} on broker {key.broker} has stood at "
                f"{say_bytes(folder.size_bytes)} for {say_about(stood_ms)}, "
                "and until it ends that broker removes nothing of it (KAFKA-9087): let it go on "
                "(see to replica.alter.log.dirs.io.max.bytes.per.second), or call it off by "
                "moving the replica back to where it is",
            )


def uneven_replicas(history: DiskHistory, patience: Patience) -> Iterator[Stuck]:
    """Replicas that lose nothing while all others of their partition do."""
    by_partition: defaultdict[TopicPartition, dict[ReplicaKey, FolderHistory]] = defaultdict(dict)
    for key, folder in history.current.items():
        by_partition[key.at][key] = folder
    for at, replicas in by_partition.items():
        for key, folder in replicas.items():
            others = [other for other_key, other in replicas.items() if other_key != key]
            if others and _is_left_behind(folder, others, history.now, patience):
                smallest = min(other.size_bytes for other in others)
                yield Stuck(
                    *at,
                    StuckCause.REPLICA_GROWS,
                    f"broker {key.broker} keeps {say_bytes(folder.size_bytes)} of it in "
                    f"{key.log_dir} and removes nothing, while every other replica shrinks (to "
                    f"{say_bytes(smallest)}): "
                    "its log cleaning is stuck (KAFKA-9087), so look for errors of LogCleaner "
                    "and LogManager in that broker's log, and restart it",
                )


def _is_left_behind(
    folder: FolderHistory, others: Sequence[FolderHistory], now: ReadingTime, patience: Patience
) -> bool:
    """Whether every other replica is smaller, and has shrunk long ago and after ``folder`` last
    shrank."""
    last_drop = folder.dropped_at[-1] if folder.dropped_at else folder.since
    return all(
        folder.size_bytes > other.size_bytes
        and any(drop > last_drop and patience.is_over(drop, now) for drop in other.dropped_at)
        for other in others
    )


def unmoved_log_starts(history: DiskHistory, patience: Patience) -> set[TopicPartition]:
    """Partitions whose log start offset has not moved for long. They are only suspects."""
    return {
        at
        for at, log_start in history.log_starts.items()
        if patience.is_over(log_start.since, history.now)
    }


def overdue_retention(overdue: Mapping[TopicPartition, Overdue]) -> Iterator[Stuck]:
    for at, records in overdue.items():
        if records.size_bytes > records.segment_bytes:
            yield Stuck(
                *at,
                StuckCause.RETENTION_OVERDUE,
                f"about {say_bytes(records.size_bytes)} from offset {records.log_start_offset} to "
                f"{records.old_before} are older than the topic's retention.ms, and its log start "
                "does not move: log cleaning is stuck on its leader (KAFKA-9087), so look for "
                "errors of LogCleaner and LogManager in that broker's log, and restart it",
            )


def overdue_records(
    kafka: Kafka,
    snapshot: Snapshot,
    reading: DiskReading,
    suspects: Collection[TopicPartition],
    check_interval_ms: int,
) -> dict[TopicPartition, Overdue]:
    """The suspects' records that are older than their forced retention and a check interval. Kafka
    looks the first younger record up by time."""
    timestamps: dict[TopicPartition, int] = {}
    all_records: dict[TopicPartition, Overdue] = {}
    for at, partition in zip(partitions_of(snapshot), snapshot.partitions, strict=True):
        topic, replicas = snapshot.topics[partition.topic], reading.replicas(at)
        retention_ms = topic.config.retention_ms if topic.config else None
        if at not in suspects or retention_ms is None or replicas is None:
            continue
        records = _all_records(topic, partition, replicas)
        if records is not None:
            all_records[at] = records
            # A negative timestamp would be one of Kafka's special values.
            timestamps[at] = max(0, snapshot.taken_at_ms - retention_ms - check_interval_ms)
    overdue: dict[TopicPartition, Overdue] = {}
    for at, offset in kafka.offsets_at(timestamps).items() if timestamps else ():
        if not isinstance(offset, Failure):
            overdue[at] = all_records[at] if offset is None else all_records[at].up_to(offset)
    return overdue


def _all_records(
    topic: TopicReading, partition: PartitionReading, replicas: Folders
) -> Overdue | None:
    """All of the partition's records; None if none of them can be overdue."""
    config = topic.config
    start, end = partition.log_start_offset, partition.high_watermark
    if config is None or config.segment_bytes is None or "delete" not in config.cleanup_policy:
        return None
    if config.remote_storage:
        return None  # local.retention.* decides what the disks hold
    if start is None or end is None or end <= start:
        return None
    if partition.retention_offset == start and isinstance(topic.policy, TopicPolicy):
        forced_ms = config.retention_ms
        if forced_ms is not None and topic.policy.consumed_retention_ms <= forced_ms:
            return None  # all records are younger than the consumed retention, and that is shorter
    # The largest replica is the stuck one. Up to a segment of it may lie below the log start.
    size = max(replica.size_bytes for replica in replicas) - (config.segment_bytes if start else 0)
    return Overdue(start, end, max(0, size) / (end - start), config.segment_bytes)


MOST_DROPS = 8  # the oldest are forgotten first


class ReadingTime(NamedTuple):
    """``number``: counted from the first reading. ``at_ms``: epoch milliseconds."""

    number: int
    at_ms: int


BEFORE_THE_FIRST = ReadingTime(0, 0)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a sign must last before it counts: for this many readings and for this long."""

    readings: int = 3
    ms: int = 15 * MINUTE_MS

    def is_over(self, since: ReadingTime, now: ReadingTime) -> bool:
        return now.number - since.number >= self.readings and now.at_ms - since.at_ms >= self.ms


@dataclass(frozen=True, slots=True)
class FolderHistory:
    """``since``: when it was first seen. ``changed_at``: when its size last changed.
    ``dropped_at``: when its size last dropped, up to `MOST_DROPS` times."""

    size_bytes: int
    since: ReadingTime
    changed_at: ReadingTime
    dropped_at: tuple[ReadingTime, ...] = ()


class LogStart(NamedTuple):
    """``since``: since when it has not moved."""

    offset: int
    since: ReadingTime


@dataclass(frozen=True, slots=True)
class DiskHistory:
    """``now``: the last reading. ``future``: folders that a move is filling."""

    now: ReadingTime = BEFORE_THE_FIRST
    current: Mapping[ReplicaKey, FolderHistory] = field(default_factory=dict)
    future: Mapping[ReplicaKey, FolderHistory] = field(default_factory=dict)
    log_starts: Mapping[TopicPartition, LogStart] = field(default_factory=dict)

    def with_reading(
        self, reading: DiskReading, log_starts: Mapping[TopicPartition, int], now_ms: int
    ) -> DiskHistory:
        """The history with one more reading. Partitions that could not be read stay as they were,
        and folders that are gone are forgotten."""
        now = ReadingTime(self.now.number + 1, now_ms)
        unreadable = reading.unreadable
        current = {key: folder for key, folder in self.current.items() if key.at in unreadable}
        future = {key: folder for key, folder in self.future.items() if key.at in unreadable}
        for at, folders in reading.folders.items():
            for folder in folders:
                key = ReplicaKey(at, folder.broker, folder.log_dir)
                before, after = (
                    (self.future, future) if folder.is_future else (self.current, current)
                )
                after[key] = _after_reading(before.get(key), folder.size_bytes, now)
        earlier = self.log_starts
        return DiskHistory(
            now,
            current,
            future,
            {
                at: earlier[at]
                if at in earlier and earlier[at].offset == offset
                else LogStart(offset, now)
                for at, offset in log_starts.items()
            },
        )


def _after_reading(
    before: FolderHistory | None, size_bytes: int, now: ReadingTime
) -> FolderHistory:
    if before is None:
        return FolderHistory(size_bytes, now, now)
    if size_bytes == before.size_bytes:
        return before
    drops = (*before.dropped_at, now) if size_bytes < before.size_bytes else before.dropped_at
    return FolderHistory(size_bytes, before.since, now, drops[-MOST_DROPS:])
