"""How much the partitions hold, and how fast that came: for what Kafka can free, and when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Executor

from retentiond.collect.topics import EnabledTopic
from retentiond.doctor.seen import PartitionLog
from retentiond.errors import RetentiondError
from retentiond.kafka.port import Kafka, LogDirs, OffsetBound
from retentiond.model import Failure, TopicPartition

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

AGES_MS = (DAY_MS, HOUR_MS, MINUTE_MS)
"""How far back a partition's write rate is looked for, the longest first."""

Logs = dict[TopicPartition, PartitionLog | Failure]


def read_logs(
    kafka: Kafka, topics: Sequence[EnabledTopic], now_ms: int, executor: Executor
) -> Logs:
    """Every partition of the topics. Raises `KafkaUnavailable`."""
    asked = [
        TopicPartition(topic.reading.name, partition)
        for topic in topics
        for partition in topic.partitions
    ]
    disks = executor.submit(kafka.log_dirs)
    starts = executor.submit(kafka.offsets, asked, OffsetBound.LOG_START)
    ends = executor.submit(kafka.offsets, asked, OffsetBound.HIGH_WATERMARK)
    ago = [executor.submit(kafka.offsets_at, dict.fromkeys(asked, now_ms - age)) for age in AGES_MS]
    try:
        sizes = _sizes(disks.result(), asked)
    except RetentiondError:
        sizes = {}  # without them a rate is not known, which the check says
    return {
        at: _log(
            starts.result()[at],
            ends.result()[at],
            [each.result()[at] for each in ago],
            sizes.get(at),
        )
        for at in asked
    }


def _log(
    start: int | Failure,
    end: int | Failure,
    ago: Sequence[int | Failure | None],
    size_bytes: int | None,
) -> PartitionLog | Failure:
    if isinstance(start, Failure):
        return start
    if isinstance(end, Failure):
        return end
    offsets: dict[int, int] = {}
    for age, offset in zip(AGES_MS, ago, strict=True):
        if isinstance(offset, Failure):
            return offset
        offsets[age] = end if offset is None else offset
    return PartitionLog(start, end, size_bytes, offsets)


def _sizes(found: LogDirs, asked: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Of the largest replica in use of each; none of a partition that no disk shows."""
    wanted = set(asked)
    sizes: dict[TopicPartition, int] = {}
    for directories in found.brokers.values():
        for directory in () if isinstance(directories, Failure) else directories:
            for replica in directory.replicas:
                at = TopicPartition(replica.topic, replica.partition)
                if at in wanted and not replica.is_future and not replica.is_orphan:
                    sizes[at] = max(sizes.get(at, 0), replica.size_bytes)
    return sizes
