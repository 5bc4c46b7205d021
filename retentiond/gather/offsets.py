"""What the leaders say of each partition: its offsets, and whether commits belong to its log.

The order of the questions makes the answers comparable. The ends are read *before* the look-ups by
time: where no record is young enough, Kafka answers -1, and the end read earlier is then a bound
that no later record can have passed. They are read *after* the commits: a group that keeps up may
commit past an older end, and would look like one that committed beyond it.

An unclean election cuts a log off below what groups have read, and other records take the place of
theirs. As soon as the new log has grown past an old commit, only the leader epoch that was
committed with it tells (KIP-320). Epochs are asked about after the ends were read, so the leaders
that answer are those whose ends they are. A topic that is recreated begins again at the same epoch.
What tells there is the memory of earlier readings (`retentiond.memory.recall`), and it tells of
clients that commit no epoch, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from retentiond.config import TopicPolicy
from retentiond.gather.topics import EnabledTopic
from retentiond.kafka.interface import (
    NOT_ANSWERED,
    EpochEnd,
    Kafka,
    LogRange,
    OffsetBound,
    PartitionEpoch,
)
from retentiond.model import Failure, GroupKind, TopicPartition
from retentiond.snapshot import (
    NOWHERE,
    Flags,
    Integers,
    PartitionReading,
    Snapshot,
    partitions_of,
    with_columns,
)

NOT_ASKED = Failure("NOT_ASKED", "this reading is about other partitions")

NO_EPOCH = Failure("NOT_ANSWERED", "the leader left a leader epoch out of its answer")

NO_RETENTION = Failure("NO_RETENTION", "no single consumed retention applies to the topic")

OffsetsRead = Mapping[TopicPartition, int | Failure]
ReadByTime = Mapping[TopicPartition, int | Failure | None]


def retentions(
    topics: Sequence[EnabledTopic], first: Snapshot | None = None
) -> dict[TopicPartition, int]:
    """The consumed retention in force, in milliseconds, of each partition whose topic has one.

    ``first``: the cycle's first reading. Where pressure has shortened a retention by that reading,
    it is as short here. None: nothing is under pressure.
    """
    in_force = {
        TopicPartition(topic.reading.name, partition): topic.reading.policy.consumed_retention_ms
        for topic in topics
        if isinstance(topic.reading.policy, TopicPolicy)
        for partition in topic.partitions
    }
    return in_force if first is None else in_force | _under_pressure(first, in_force)


def _under_pressure(
    snapshot: Snapshot, among: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    return {
        at: partition.pressure_retention_ms
        for at, partition in zip(partitions_of(snapshot), snapshot.partitions, strict=True)
        if partition.pressure_retention_ms is not None and at in among
    }


def retention_offsets(
    kafka: Kafka,
    retentions_ms: Mapping[TopicPartition, int],
    now_ms: int,
    logs: Mapping[TopicPartition, LogRange],
) -> ReadByTime:
    """First offsets younger than the retentions; None: none is. A retention of 0 asks nothing: a
    record can be deleted as soon as it is consumed."""
    return kafka.offsets_at(
        {
            # A negative timestamp would be one of Kafka's special values (-2 is "earliest").
            at: max(0, now_ms - retention_ms)
            for at, retention_ms in retentions_ms.items()
            if retention_ms > 0
        },
        logs,
        now_ms,
    )


def under_pressure(snapshot: Snapshot, kafka: Kafka, positions: Collection[int]) -> Snapshot:
    """The snapshot with the pressure retention in force on the partitions at those positions whose
    policy has one.

    The time is looked up after the ends were read, as ever. Where the answer fails, the consumed
    retention stays in force.
    """
    names = partitions_of(snapshot)
    wanted = {
        at: policy.pressure_retention_ms
        for at in positions
        if isinstance(policy := snapshot.topics[snapshot.partitions[at].topic].policy, TopicPolicy)
        and policy.pressure_retention_ms is not None
    }
    asked = {names[at]: retention_ms for at, retention_ms in wanted.items()}
    logs = {
        names[at]: LogRange(reading.log_start_offset or 0, _end_of(reading))
        for at in wanted
        if (reading := snapshot.partitions[at]).failure is None
    }
    offsets = retention_offsets(kafka, asked, snapshot.taken_at_ms, logs)
    partitions = list(snapshot.partitions)
    for at, retention_ms in wanted.items():
        reading = partitions[at]
        offset = offsets.get(names[at], NOT_ANSWERED) if retention_ms else None
        if isinstance(offset, Failure) or reading.failure is not None:
            continue
        young = _end_of(reading) if offset is None else offset
        partitions[at] = replace(
            reading,
            retention_offset=max(reading.retention_offset or 0, young),
            pressure_retention_ms=retention_ms,
        )
    return replace(snapshot, partitions=tuple(partitions))


def _end_of(reading: PartitionReading) -> int:
    return min(reading.high_watermark or 0, reading.last_stable_offset or 0)


@dataclass(frozen=True, slots=True)
class OffsetReads:
    """The answers of all look-ups, by partition, about those ``asked``. ``retentions_ms``: see
    `retentions`."""

    asked: frozenset[TopicPartition]
    log_starts: OffsetsRead
    high_watermarks: OffsetsRead
    last_stable: OffsetsRead
    by_time: ReadByTime
    local_starts: OffsetsRead
    retentions_ms: Mapping[TopicPartition, int]

    def readings(
        self, topics: Sequence[EnabledTopic], first: Snapshot | None = None
    ) -> tuple[PartitionReading, ...]:
        """Sorted by topic and partition. ``first``: as for `retentions`."""
        pressure_ms = {} if first is None else _under_pressure(first, self.asked)
        return tuple(
            self._reading(position, topic, partition, pressure_ms)
            if (topic.reading.name, partition) in self.asked
            else PartitionReading(position, partition, None, None, None, None, NOT_ASKED)
            for position, topic in enumerate(topics)
            for partition in topic.partitions
        )

    def _reading(
        self,
        position: int,
        topic: EnabledTopic,
        partition: int,
        pressure_ms: Mapping[TopicPartition, int],
    ) -> PartitionReading:
        key = TopicPartition(topic.reading.name, partition)
        found: list[int | Failure] = [
            read.get(key, NOT_ANSWERED)
            for read in (self.log_starts, self.high_watermarks, self.last_stable)
        ]
        found.append(self._retention_offset(key))
        local_start = self.local_starts.get(key)
        log_start, high_watermark, last_stable, retention = (
            None if isinstance(value, Failure) else value for value in found
        )
        return PartitionReading(
            topic=position,
            partition=partition,
            log_start_offset=log_start,
            high_watermark=high_watermark,
            last_stable_offset=last_stable,
            retention_offset=retention,
            failure=next((value for value in found if isinstance(value, Failure)), None),
            local_start_offset=None if isinstance(local_start, Failure) else local_start,
            pressure_retention_ms=pressure_ms.get(key),
        )

    def _retention_offset(self, key: TopicPartition) -> int | Failure:
        """The first young offset; the end, read before, where no record is young.

        A partition without records before that end has no young one, even where the look-up by
        time fails. It fails there for long: the deleted records stay in the active segment.
        """
        retention_ms = self.retentions_ms.get(key)
        if retention_ms is None:
            return NO_RETENTION
        log_start = self.log_starts.get(key, NOT_ANSWERED)
        high_watermark = self.high_watermarks.get(key, NOT_ANSWERED)
        if retention_ms > 0:
            offset = self.by_time.get(key, NOT_ANSWERED)
            if isinstance(offset, Failure) and (
                isinstance(log_start, int)
                and isinstance(high_watermark, int)
                and log_start >= high_watermark
            ):
                offset = None
            if offset is not None:
                return offset
        last_stable = self.last_stable.get(key, NOT_ANSWERED)
        if isinstance(high_watermark, Failure):
            return high_watermark
        if isinstance(last_stable, Failure):
            return last_stable
        return min(high_watermark, last_stable)


def read_offsets(
    kafka: Kafka,
    topics: Sequence[EnabledTopic],
    asked: Collection[TopicPartition],
    executor: Executor,
    *,
    retentions_ms: Mapping[TopicPartition, int],
    now_ms: int,
) -> OffsetReads:
    """What the leaders say of the asked partitions of the topics, the look-ups by time last."""
    log_starts = executor.submit(kafka.offsets, asked, OffsetBound.LOG_START)
    with_remote_storage = {
        topic.reading.name
        for topic in topics
        if topic.reading.config and topic.reading.config.remote_storage
    }
    tiered = [at for at in asked if at.topic in with_remote_storage]
    local_starts = (
        executor.submit(kafka.offsets, tiered, OffsetBound.LOCAL_START) if tiered else None
    )
    high_watermarks = executor.submit(kafka.offsets, asked, OffsetBound.HIGH_WATERMARK)
    last_stable = kafka.offsets(asked, OffsetBound.LAST_STABLE)
    ends = high_watermarks.result()
    in_force = {at: retentions_ms[at] for at in asked if at in retentions_ms}
    starts = log_starts.result()
    by_time = retention_offsets(kafka, in_force, now_ms, _logs(starts, ends, last_stable))
    return OffsetReads(
        frozenset(asked),
        starts,
        ends,
        last_stable,
        by_time,
        local_starts.result() if local_starts else {},
        retentions_ms,
    )


def _logs(
    starts: OffsetsRead, high_watermarks: OffsetsRead, last_stable: OffsetsRead
) -> dict[TopicPartition, LogRange]:
    """Only where all three are known."""
    return {
        at: LogRange(start, min(high, stable))
        for at, start in starts.items()
        if isinstance(start, int)
        and isinstance(high := high_watermarks.get(at), int)
        and isinstance(stable := last_stable.get(at), int)
    }


def with_epochs(snapshot: Snapshot, kafka: Kafka) -> Snapshot:
    """The snapshot with what leaders say of the epochs of commits, for the plan. A partition whose
    leader does not tell is unreadable.

    `retentiond.act.evidence` judges `Snapshot.epoch_ends` again, in its own words.
    """
    commits = snapshot.commits
    is_asked = _could_be_reached(snapshot)
    if not is_asked.any():
        return snapshot
    rows = commits.filter(pa.array(is_asked))
    groups, partitions, offsets, epochs = (
        rows[name].to_numpy() for name in ("group_id", "partition_id", "offset", "leader_epoch")
    )
    keys, which = np.unique(partitions.astype(np.int64) << 32 | epochs, return_inverse=True)
    positions, epochs_asked = (keys >> 32).tolist(), (keys & 0xFFFFFFFF).tolist()
    names = partitions_of(snapshot)
    asked = [
        PartitionEpoch(names[at], epoch) for at, epoch in zip(positions, epochs_asked, strict=True)
    ]
    told = kafka.epoch_ends(asked)
    answers = {
        (at, position.leader_epoch): told.get(position, NO_EPOCH)
        for at, position in zip(positions, asked, strict=True)
    }
    unreadable = {at: answer for (at, _), answer in answers.items() if isinstance(answer, Failure)}
    past = {pair: answer for pair, answer in answers.items() if isinstance(answer, EpochEnd)}
    if not past and not unreadable:
        return snapshot
    is_past = np.array([pair in past for pair in answers])[which]
    known, ends = (
        np.array([NOWHERE if end is None else end for end in told])[which]
        for told in zip(*(past.get(pair, EpochEnd(None, None)) for pair in answers), strict=True)
    )
    is_share = np.array([group.kind is GroupKind.SHARE for group in snapshot.groups])[groups]
    is_replaced = np.zeros(len(commits), np.bool_)
    is_replaced[is_asked] = is_past & ~are_kept(offsets, epochs, known, ends, is_share)
    return replace(
        snapshot,
        commits=with_columns(commits, is_replaced=pa.array(is_replaced)),
        epoch_ends=past,
        partitions=tuple(
            replace(partition, failure=partition.failure or unreadable[at])
            if at in unreadable
            else partition
            for at, partition in enumerate(snapshot.partitions)
        ),
    )


def are_kept(
    offsets: Integers, epochs: Integers, known: Integers, ends: Integers, is_share: Flags
) -> Flags:
    """Whether the leader proves that its log still has the records that were read, for commits of
    other epochs than its own. ``known``, ``ends``: its answers (`EpochEnd`).

    An unclean election may have put other records where a group has read. A log has what was read
    in an epoch if it knows that epoch and its end is not below the commit. If it knows only an
    earlier one, that must end where the commit stands: no record of the later one was read then. A
    share group's epoch is the one in which it was written, whose records it need not have read: all
    that counts is that nothing older ends below.
    """
    is_known = is_share | (known == epochs)
    kept: Flags = (ends == offsets) | ((ends > offsets) & is_known)
    return kept


def _could_be_reached(snapshot: Snapshot) -> Flags:
    """Which commits have an epoch, and lie between the log start and the high watermark: one at or
    below the log start frees nothing, and one beyond the end holds as it is."""
    commits = snapshot.commits
    partitions = commits["partition_id"].to_numpy()
    offsets = commits["offset"].fill_null(NOWHERE).to_numpy()
    starts, ends = _bounds(snapshot.partitions)
    is_told: Flags = commits["leader_epoch"].is_valid().to_numpy()
    is_told &= (starts[partitions] < offsets) & (offsets <= ends[partitions])
    return is_told


def _bounds(partitions: Sequence[PartitionReading]) -> tuple[Integers, Integers]:
    """Log starts and high watermarks; where one is unreadable, no offset lies between them."""
    none = np.iinfo(np.int64)
    starts = [
        none.max if partition.log_start_offset is None else partition.log_start_offset
        for partition in partitions
    ]
    ends = [
        none.min if partition.high_watermark is None else partition.high_watermark
        for partition in partitions
    ]
    return np.array(starts, np.int64), np.array(ends, np.int64)
