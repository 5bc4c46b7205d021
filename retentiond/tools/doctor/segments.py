"""Checks how long deleted records stay on disk in an open segment.

Kafka frees whole segments, and never the open one. A segment is closed once it is full
(``segment.bytes``), or by the first write after ``segment.ms``. How soon it is full follows from
the records written lately and from the size of a record. That size is known within bounds only:
the bytes on disk may include up to one segment of records that are already deleted.
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
    MINUTE_MS,
    say_about,
    say_bytes,
    say_duration,
    say_many,
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
    "remote storage are told apart, by estimate, and ages are looked up a few partitions at a time"
)


class OpenFor(NamedTuple):
    """How long a segment stays open, in milliseconds. ``basis``: on what the figures rest, in
    words."""

    at_least_ms: int
    at_most_ms: int
    basis: str


def open_for(log: PartitionLog, segment_bytes: int, segment_ms: int) -> OpenFor | None:
    """How long the partition's segments stay open; None if it has nothing on disk, as far as is
    known."""
    live = log.high_watermark - log.log_start_offset
    if not live and not log.size_bytes:
        return None
    age_ms = next((age for age in AGES_MS if log.offset_ago[age] > log.log_start_offset), None)
    if not live or age_ms is None:
        return OpenFor(0, segment_ms, "no record is old enough to tell how fast it fills")
    written = log.high_watermark - log.offset_ago[age_ms]
    lately = f"in the last {say_duration(age_ms).removeprefix('1 ')}"
    if not written:
        return OpenFor(segment_ms, segment_ms, f"nothing was written {lately}")
    if not log.size_bytes:
        return OpenFor(0, segment_ms, "what it takes on disk is not known")
    dead_at_most = min(segment_bytes, log.size_bytes) if log.log_start_offset else 0
    segment_at_rate = segment_bytes * live * age_ms / written
    slowest = log.size_bytes - dead_at_most
    return OpenFor(
        min(segment_ms, round(segment_at_rate / log.size_bytes)),
        min(segment_ms, round(segment_at_rate / slowest)) if slowest else segment_ms,
        f"by {say_many(written, 'record')} written {lately} and "
        f"{say_bytes(log.size_bytes)} on disk",
    )


class SlowRoll(NamedTuple):
    """A topic and the partition whose segments stay open longest."""

    topic: str
    open: OpenFor
    segment_bytes: int
    segment_ms: int

    @property
    def settings(self) -> str:
        size, time = say_bytes(self.segment_bytes), say_about(self.segment_ms)
        return f"segment.bytes {size}, segment.ms {time}"


def check_segments(
    topics: Sequence[EnabledTopic],
    logs: Mapping[TopicPartition, PartitionLog | Failure],
    options: str,
) -> Iterator[Finding]:
    """Segments are closed soon enough. Otherwise a topic's disk would not shrink for days, however
    much is deleted. ``options``: `retentiond.tell.reasons.tool_options`."""
    surely: list[SlowRoll] = []
    perhaps: list[SlowRoll] = []
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
        unreadable = next((each for each in partitions if isinstance(each, Failure)), None)
        if unreadable is not None:
            is_all_known = False
            yield unchecked(f"segments of {name}", unreadable)
        times = [
            open_time
            for log in partitions
            if not isinstance(log, Failure)
            and (open_time := open_for(log, config.segment_bytes, config.segment_ms)) is not None
        ]
        if not times:
            continue
        settings = config.segment_bytes, config.segment_ms
        allowed_ms = max(LONG_ROLL_MS, policy.consumed_retention_ms)
        if policy.pressure_retention_ms is not None:
            allowed_ms = max(LONG_ROLL_UNDER_PRESSURE_MS, policy.pressure_retention_ms)
        by_least = max(times, key=lambda open_time: open_time.at_least_ms)
        by_most = max(times, key=lambda open_time: open_time.at_most_ms)
        if by_least.at_least_ms > allowed_ms:
            surely.append(SlowRoll(name, by_least, *settings))
        elif by_most.at_most_ms > allowed_ms:
            perhaps.append(SlowRoll(name, by_most, *settings))
    yield from _slow_roll_finding(
        "stays open", "for about", [(each, each.open.at_least_ms) for each in surely], options
    )
    yield from _slow_roll_finding(
        "may stay open", "for up to", [(each, each.open.at_most_ms) for each in perhaps], options
    )
    if local and is_all_known and not surely and not perhaps:
        yield ok(
            "segments",
            "what is deleted leaves the disk within a day (an hour where a topic has a pressure "
            "retention), or within its retention",
        )


def _slow_roll_finding(
    what: str, how_long: str, slow: Sequence[tuple[SlowRoll, int]], options: str
) -> Iterator[Finding]:
    meaning = "until it is closed, nothing that is deleted from it leaves the disk"
    if len(slow) == 1:
        ((topic, ms),) = slow
        sentence = (
            f"a segment {what} {how_long} {say_about(ms)} "
            f"({topic.open.basis}; {topic.settings}): {meaning}"
        )
        remedy = SEGMENT_REMEDY.format(options=options, topic=topic.topic)
        yield Finding(Level.WARNING, f"topic {topic.topic}", sentence, remedy, (topic.topic,))
    elif slow:
        longest = sorted(slow, key=lambda each: -each[1])
        named = ", ".join(f"{each.topic} {say_about(ms)}" for each, ms in longest[:MOST_NAMED])
        more = f" and {len(slow) - MOST_NAMED} more" if len(slow) > MOST_NAMED else ""
        yield Finding(
            Level.WARNING,
            f"{len(slow)} topics",
            f"a segment {what} too long: {meaning} (by the records written lately, the bytes on "
            f"disk, segment.bytes and segment.ms; {how_long}: {named}{more})",
            SEGMENT_REMEDY.format(options=options, topic="TOPIC"),
            tuple(sorted(each.topic for each, _ in slow)),
        )


AGES_MS = (DAY_MS, HOUR_MS, MINUTE_MS)
"""Over how long a time to measure a partition's write rate; the longest possible one counts."""

Logs = dict[TopicPartition, PartitionLog | Failure]


def read_logs(
    kafka: Kafka, topics: Sequence[EnabledTopic], now_ms: int, executor: Executor
) -> Logs:
    """Reads the logs of all partitions of the topics. The write rate of a tiered topic is not read,
    because that would read remote storage. Raises `KafkaUnavailable`."""
    asked = [
        TopicPartition(topic.reading.name, partition)
        for topic in topics
        for partition in topic.partitions
    ]
    disks = executor.submit(kafka.log_dirs)
    starts = executor.submit(kafka.offsets, asked, OffsetBound.LOG_START)
    ends = executor.submit(kafka.offsets, asked, OffsetBound.HIGH_WATERMARK)
    remote = {topic.reading.name for topic in topics if is_tiered(topic.reading)}
    local = [at for at in asked if at.topic not in remote]
    ago = [executor.submit(kafka.offsets_at, dict.fromkeys(local, now_ms - age)) for age in AGES_MS]
    try:
        on_disk = disk_reading(disks.result(), asked).folders
    except RetentiondError:
        on_disk = {}  # then the size of a record is not known, which the check says
    return {
        at: _log(
            starts.result()[at],
            ends.result()[at],
            [each.result().get(at) for each in ago],
            max(
                (each.size_bytes for each in on_disk.get(at, ()) if not each.is_future),
                default=None,
            ),
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
