"""Checks how long deleted records stay on disk in an open segment.

Kafka frees whole segments, and never the open one. A segment is closed once it is full
(``segment.bytes``), or by the first write after ``segment.ms``. A log that is smaller than a
segment may have only the open one: then nothing is freed there before ``segment.ms`` has passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from typing import NamedTuple

from retentiond.config import TopicPolicy
from retentiond.disks.log_dirs import disk_reading
from retentiond.disks.predictions import is_tiered
from retentiond.errors import RetentiondError
from retentiond.formatting import (
    DAY_MS,
    HOUR_MS,
    say_about,
    say_bytes,
)
from retentiond.gather.topics import EnabledTopic
from retentiond.kafka.interface import Kafka, OffsetBound
from retentiond.model import Failure, TopicPartition
from retentiond.tools.doctor.finding import (
    MOST_NAMED,
    Finding,
    Level,
    PartitionLog,
    about,
    ok,
    unchecked,
    warning,
)

LONG_ROLL_MS = DAY_MS
"""A segment may stay open this long, or as long as the consumed retention."""

LONG_ROLL_UNDER_PRESSURE_MS = HOUR_MS
"""The same for a topic with a pressure retention: its bytes are needed soon when a disk is
nearly full."""

SEGMENT_REMEDY = (
    "`kafka-configs {options} --alter --entity-type topics --entity-name {topic} "
    "--add-config segment.ms=3600000` (an hour), or a smaller segment.bytes"
)

TIERED = (
    "in tiered storage (remote.storage.enable): what is deleted goes from the remote storage and "
    "from the brokers' disks, where local.retention.* alone rules how much is kept; bytes in "
    "remote storage are not counted, and ages are looked up a few partitions at a time"
)


class SlowRoll(NamedTuple):
    """A topic whose segments are closed by time. ``largest_bytes``: its largest log; None: it is
    not known."""

    topic: str
    largest_bytes: int | None
    segment_bytes: int
    segment_ms: int


def check_segments(
    topics: Sequence[EnabledTopic],
    logs: Mapping[TopicPartition, PartitionLog | Failure],
    options: str,
) -> Iterator[Finding]:
    """Segments are closed soon enough. Otherwise a topic's disk would not shrink for days, however
    much is deleted. ``options``: `retentiond.tell.reasons.tool_options`."""
    slow: list[SlowRoll] = []
    is_all_known = True
    tiered = [topic.reading.name for topic in topics if is_tiered(topic.reading)]
    yield from about(Level.OK, "topic", tiered, TIERED)
    local = [topic for topic in topics if not is_tiered(topic.reading)]
    for topic in local:
        config, policy = topic.reading.config, topic.reading.policy
        if config is None or config.segment_bytes is None or config.segment_ms is None:
            is_all_known = False
            continue  # another check reports an unreadable configuration
        if not isinstance(policy, TopicPolicy):
            continue
        name = topic.reading.name
        partitions = [logs[TopicPartition(name, number)] for number in topic.partitions]
        if unreadable := [log for log in partitions if isinstance(log, Failure)]:
            is_all_known = False
            yield unchecked(f"segments of {name}", unreadable[0])
        with_bytes = [
            log
            for log in partitions
            if not isinstance(log, Failure)
            and (log.size_bytes or log.high_watermark > log.log_start_offset)
        ]
        if not with_bytes:
            continue
        sizes = [log.size_bytes for log in with_bytes if log.size_bytes is not None]
        largest = max(sizes, default=None)
        allowed_ms = max(LONG_ROLL_MS, policy.consumed_retention_ms)
        if policy.pressure_retention_ms is not None:
            allowed_ms = max(LONG_ROLL_UNDER_PRESSURE_MS, policy.pressure_retention_ms)
        if config.segment_ms > allowed_ms and (largest is None or largest < config.segment_bytes):
            slow.append(SlowRoll(name, largest, config.segment_bytes, config.segment_ms))
    yield from _slow_roll_finding(slow, options)
    if local and is_all_known and not slow:
        yield ok(
            "segments",
            "segments are full, or closed within a day (an hour where a topic has a pressure "
            "retention) or the topic's retention",
        )


def _slow_roll_finding(slow: Sequence[SlowRoll], options: str) -> Iterator[Finding]:
    meaning = "until it is closed, nothing that is deleted from it leaves the disk"
    if len(slow) == 1:
        (topic,) = slow
        takes = (
            "how much it takes on disk is not known"
            if topic.largest_bytes is None
            else f"its largest log takes {say_bytes(topic.largest_bytes)}"
        )
        sentence = (
            f"a segment may stay open for up to {say_about(topic.segment_ms)} ({takes}; "
            f"segment.bytes {say_bytes(topic.segment_bytes)}, segment.ms "
            f"{say_about(topic.segment_ms)}): {meaning}"
        )
        remedy = SEGMENT_REMEDY.format(options=options, topic=topic.topic)
        yield warning(f"topic {topic.topic}", sentence, remedy, (topic.topic,))
    elif slow:
        longest = sorted(slow, key=lambda slow_topic: -slow_topic.segment_ms)
        named = ", ".join(
            f"{slow_topic.topic} {say_about(slow_topic.segment_ms)}"
            for slow_topic in longest[:MOST_NAMED]
        )
        more = f" and {len(slow) - MOST_NAMED} more" if len(slow) > MOST_NAMED else ""
        yield warning(
            f"{len(slow)} topics",
            f"a segment may stay open too long: {meaning} (no log is as large as segment.bytes; "
            f"segment.ms: {named}{more})",
            SEGMENT_REMEDY.format(options=options, topic="TOPIC"),
            tuple(sorted(slow_topic.topic for slow_topic in slow)),
        )


Logs = dict[TopicPartition, PartitionLog | Failure]


def read_logs(kafka: Kafka, topics: Sequence[EnabledTopic], executor: Executor) -> Logs:
    """Reads the logs of all partitions of the topics. Raises `KafkaUnavailable`."""
    asked = [
        TopicPartition(topic.reading.name, partition)
        for topic in topics
        for partition in topic.partitions
    ]
    disks = executor.submit(kafka.log_dirs)
    starts = executor.submit(kafka.offsets, asked, OffsetBound.LOG_START)
    ends = executor.submit(kafka.offsets, asked, OffsetBound.HIGH_WATERMARK)
    try:
        on_disk = disk_reading(disks.result(), asked).folders
    except RetentiondError:
        on_disk = {}  # then the size is not known, which the check says
    logs: Logs = {}
    for at in asked:
        start, end = starts.result()[at], ends.result()[at]
        sizes = [replica.size_bytes for replica in on_disk.get(at, ()) if not replica.is_future]
        if isinstance(start, Failure):
            logs[at] = start
        elif isinstance(end, Failure):
            logs[at] = end
        else:
            logs[at] = PartitionLog(start, end, max(sizes, default=None))
    return logs
