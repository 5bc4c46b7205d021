"""Each partition's offsets, in the order that makes them comparable.

The ends are read *before* the look-ups by time: where no record is young enough, Kafka
answers -1, and the end read earlier is then a bound that no later record can have passed.
They are read *after* the commits: a group that keeps up may commit past an older end, and
would look like one that committed beyond it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from retentiond.config import TopicPolicy
from retentiond.gather.topics import EnabledTopic
from retentiond.kafka.interface import Kafka, OffsetBound
from retentiond.model import Failure, TopicPartition
from retentiond.snapshot import PartitionReading

NOT_ASKED = Failure("NOT_ASKED", "this reading is about other partitions")

NOT_ANSWERED = Failure("NOT_ANSWERED", "the broker left the partition out of its answer")

NO_RETENTION = Failure("NO_RETENTION", "no single consumed retention applies to the topic")

Read = Mapping[TopicPartition, int | Failure]
ReadByTime = Mapping[TopicPartition, int | Failure | None]


def ends(
    kafka: Kafka, partitions: Collection[TopicPartition], executor: Executor
) -> tuple[Read, Read]:
    """High watermarks and last stable offsets."""
    high_watermarks = executor.submit(kafka.offsets, partitions, OffsetBound.HIGH_WATERMARK)
    last_stable = kafka.offsets(partitions, OffsetBound.LAST_STABLE)
    return high_watermarks.result(), last_stable


def young_since(
    kafka: Kafka,
    topics: Sequence[EnabledTopic],
    partitions: Collection[TopicPartition],
    now_ms: int,
) -> ReadByTime:
    """First offsets younger than the consumed retention; None: none is.

    A consumed retention of 0 asks nothing: a record may go as soon as it is consumed.
    """
    timestamps: dict[TopicPartition, int] = {}
    for topic in topics:
        policy = topic.reading.policy
        if isinstance(policy, TopicPolicy) and policy.consumed_retention_ms > 0:
            # A negative timestamp would be one of Kafka's special values (-2 is "earliest").
            since = max(0, now_ms - policy.consumed_retention_ms)
            for partition in topic.partitions:
                timestamps[TopicPartition(topic.reading.name, partition)] = since
    asked = set(partitions)
    return kafka.offsets_at({key: at for key, at in timestamps.items() if key in asked})


def tiered_among(
    topics: Sequence[EnabledTopic], partitions: Collection[TopicPartition]
) -> list[TopicPartition]:
    """Those whose logs have a part in remote storage."""
    tiered = {
        topic.reading.name
        for topic in topics
        if topic.reading.config and topic.reading.config.remote_storage
    }
    return [at for at in partitions if at.topic in tiered] if tiered else []


@dataclass(frozen=True, slots=True)
class OffsetReads:
    """The answers of all look-ups, by partition."""

    log_starts: Read
    high_watermarks: Read
    last_stable: Read
    by_time: ReadByTime
    local_starts: Read

    def readings(
        self, topics: Sequence[EnabledTopic], asked: Collection[TopicPartition]
    ) -> tuple[PartitionReading, ...]:
        """One reading for each partition of the topics, sorted by topic and partition."""
        wanted = set(asked)
        return tuple(
            self._reading(position, topic, partition)
            if (topic.reading.name, partition) in wanted
            else PartitionReading(position, partition, None, None, None, None, NOT_ASKED)
            for position, topic in enumerate(topics)
            for partition in topic.partitions
        )

    def _reading(self, position: int, topic: EnabledTopic, partition: int) -> PartitionReading:
        key = TopicPartition(topic.reading.name, partition)
        found: list[int | Failure] = [
            read.get(key, NOT_ANSWERED)
            for read in (self.log_starts, self.high_watermarks, self.last_stable)
        ]
        found.append(self._retention_offset(topic, key))
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
        )

    def _retention_offset(self, topic: EnabledTopic, key: TopicPartition) -> int | Failure:
        """The first young offset; the end, read before, where no record is young."""
        policy = topic.reading.policy
        if not isinstance(policy, TopicPolicy):
            return NO_RETENTION
        if policy.consumed_retention_ms > 0:
            found = self.by_time.get(key, NOT_ANSWERED)
            if found is not None:
                return found
        high_watermark = self.high_watermarks.get(key, NOT_ANSWERED)
        last_stable = self.last_stable.get(key, NOT_ANSWERED)
        if isinstance(high_watermark, Failure):
            return high_watermark
        if isinstance(last_stable, Failure):
            return last_stable
        return min(high_watermark, last_stable)
