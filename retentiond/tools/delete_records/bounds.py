"""What the command line asks to delete, and the targets that follow from it.

The time only ever lowers the target. The target starts at the end (the last stable offset, at most
the high watermark). The end is read *before* the look-ups by time, so "no
record is younger" (Kafka's -1) means that end, and never records that were written later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from retentiond.clock import now_ms
from retentiond.errors import UsageError
from retentiond.formatting import parse_duration, parse_time
from retentiond.kafka.interface import (
    AGE_NOT_YET_KNOWN,
    Kafka,
    LogRange,
    OffsetBound,
    TopicDescription,
)
from retentiond.model import Failure, TopicPartition
from retentiond.tools.delete_records.offsets_file import read_offsets_file
from retentiond.tools.delete_records.partitions import Item, describe, find


def work_out(kafka: Kafka, items: Sequence[Item], before_ms: int) -> list[Item]:
    """The items of `every_partition`, with their targets: the first records that are not older than
    ``before_ms`` (epoch). Raises `KafkaUnavailable`."""
    partitions = [item.at for item in items]
    starts = kafka.offsets(partitions, OffsetBound.LOG_START)
    high = kafka.offsets(partitions, OffsetBound.HIGH_WATERMARK)
    stable = kafka.offsets(partitions, OffsetBound.LAST_STABLE)
    logs = {
        at: LogRange(start, min(end, stable_end))
        for at in partitions
        if isinstance(start := starts[at], int)
        and isinstance(end := high[at], int)
        and isinstance(stable_end := stable[at], int)
    }
    times = _offsets_at(kafka, dict.fromkeys(partitions, before_ms), logs)
    return [
        _bounded(
            item,
            start=starts[item.at],
            high=high[item.at],
            stable=stable[item.at],
            by_time=times[item.at],
        )
        for item in items
    ]


def _offsets_at(
    kafka: Kafka,
    times_ms: Mapping[TopicPartition, int],
    logs: Mapping[TopicPartition, LogRange],
) -> dict[TopicPartition, int | Failure | None]:
    """As `Kafka.offsets_at`. A topic whose configs can't be read fails: it may be in remote
    storage, where an answer proves something only if the client knows of it."""
    configs = kafka.topic_configs({at.topic for at in times_ms})
    answers: dict[TopicPartition, int | Failure | None] = {
        at: config for at in times_ms if isinstance(config := configs[at.topic], Failure)
    }
    left = [at for at in times_ms if at not in answers]
    while left:
        answers |= kafka.offsets_at(
            {at: times_ms[at] for at in left}, {at: logs[at] for at in left if at in logs}
        )
        waiting = [  # in remote storage, only a few look-ups are made at a time
            at
            for at in left
            if isinstance(answer := answers[at], Failure) and answer.code == AGE_NOT_YET_KNOWN
        ]
        if len(waiting) == len(left):
            break
        left = waiting
    return answers


def every_partition(kafka: Kafka, topics: Sequence[str]) -> list[Item]:
    """An item for each partition of the topics, without a target. Raises `UsageError`, and
    `KafkaUnavailable`."""
    items = []
    for name, topic in describe(kafka, list(dict.fromkeys(topics))).items():
        if not isinstance(topic, TopicDescription):
            raise UsageError(f"topic {name!a}: {topic}; nothing was deleted")
        items += [
            Item(name, partition, None, topic_id=topic.topic_id) for partition in topic.partitions
        ]
    return items


def _bounded(
    item: Item,
    *,
    start: int | Failure,
    high: int | Failure,
    stable: int | Failure,
    by_time: int | Failure | None,
) -> Item:
    if isinstance(start, Failure):
        return item.failed(f"its log start offset can't be read ({start})")
    if isinstance(high, Failure):
        return item.failed(f"its high watermark can't be read ({high})")
    if isinstance(stable, Failure):
        return item.failed(f"its last stable offset can't be read ({stable})")
    if isinstance(by_time, Failure):
        return item.failed(f"its offset by time can't be read ({by_time})")
    previewed = replace(item, log_start_offset=start, high_watermark=high)
    end = min(stable, high)
    target = end if by_time is None else min(end, by_time)
    if target <= start:
        return previewed.left_out(
            f"nothing to delete: it begins at {start}, and {target} is the bound"
        )
    return replace(previewed, target=target)


@dataclass(frozen=True, slots=True)
class Targets:
    """What the command line asks to delete.

    ``items``: reads an item for each partition, and raises `RetentiondError` if it can't.
    ``is_worked_out``: whether the targets follow from bounds; else a file names them.
    ``warnings``: sentences about the file, or about the time.
    """

    items: Callable[[Kafka], list[Item]]
    is_worked_out: bool
    warnings: tuple[str, ...]


def read_targets(
    *,
    file: Path | None,
    topics: Sequence[str],
    older_than: str | None,
    to_datetime: str | None,
) -> Targets:
    """Checks the options and reads the file, without asking the cluster. Raises `UsageError`, and
    `ConfigError` for the file."""
    by_time = [text for text in (older_than, to_datetime) if text is not None]
    if file is not None:
        if topics or by_time:
            raise UsageError("--offset-json-file names every offset: leave the other bounds out")
        items, unknown = read_offsets_file(file)
        warnings = [f"{file}: {warning}" for warning in unknown]
        return Targets(
            lambda kafka: find(kafka, items), is_worked_out=False, warnings=tuple(warnings)
        )
    if len(by_time) > 1:
        raise UsageError("choose --older-than or --to-datetime")
    if by_time and not topics:
        raise UsageError("--older-than and --to-datetime need --topic")
    if "" in topics:
        raise UsageError("the name of a topic is empty")
    before_ms = _before_ms(older_than, to_datetime)
    if before_ms is None:
        raise UsageError(
            "nothing says what to delete: --offset-json-file, or --topic with --older-than or "
            "--to-datetime"
        )
    warnings = []
    if before_ms > now_ms():
        warnings = [f"--to-datetime {to_datetime} is in the future: every record is older"]
    return Targets(
        lambda kafka: work_out(kafka, every_partition(kafka, topics), before_ms),
        is_worked_out=True,
        warnings=tuple(warnings),
    )


def _before_ms(older_than: str | None, to_datetime: str | None) -> int | None:
    """In epoch milliseconds; a time without a zone is UTC. Raises `UsageError`, also for a negative
    time, which has a special meaning in Kafka."""
    if older_than is not None:
        age_ms = parse_duration(older_than)
        now = now_ms()
        if age_ms is None or age_ms > now:
            raise UsageError(f"--older-than {older_than!a}: expected a time as in 7d, 12h or 90m")
        return now - age_ms
    if to_datetime is None:
        return None
    try:
        at_ms = parse_time(to_datetime)
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"--to-datetime {to_datetime!a}: expected a time as in 2026-02-01T12:00:00+01:00"
        ) from error
    if at_ms < 0:
        raise UsageError(f"--to-datetime {to_datetime!a}: expected a time from 1970 on")
    return at_ms
