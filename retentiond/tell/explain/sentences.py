"""Sentences of an explanation: about the brokers' disks, and about records dated in the future."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from retentiond.disks.broker_disks import DiskReport
from retentiond.formatting import MINUTE_MS, say_about, say_bytes
from retentiond.kafka.interface import TopicConfig
from retentiond.model import Failure, Verdict
from retentiond.tell.figures.answers import PartitionAnswer

CHECK_INTERVAL = "log.retention.check.interval.ms"

DELETE_DELAY = "log.segment.delete.delay.ms"
"""The brokers' default for a topic's file.delete.delay.ms."""

KAFKA_DEFAULTS_MS = {CHECK_INTERVAL: 5 * MINUTE_MS, DELETE_DELAY: MINUTE_MS}

BrokerConfigs = Mapping[int, Mapping[str, str] | Failure]


@dataclass(frozen=True, slots=True)
class CleanerIntervals:
    """How long it takes until brokers check their logs, and until they remove files after that.

    These are the slowest broker's settings. ``is_known`` is False if a broker did not tell its
    settings; if none did, these are Kafka's defaults.
    """

    check_interval_ms: int
    delete_delay_ms: int
    is_known: bool


def cleaner_intervals(brokers: BrokerConfigs, config: TopicConfig | None) -> CleanerIntervals:
    """The intervals from the brokers' settings. A delay in the topic's ``config`` comes first."""
    known = [settings for settings in brokers.values() if not isinstance(settings, Failure)]

    def slowest(name: str) -> int:
        values = [int(settings[name]) for settings in known if name in settings]
        return max(values) if values else KAFKA_DEFAULTS_MS[name]

    topic_delay_ms = config.file_delete_delay_ms if config else None
    return CleanerIntervals(
        check_interval_ms=slowest(CHECK_INTERVAL),
        delete_delay_ms=slowest(DELETE_DELAY) if topic_delay_ms is None else topic_delay_ms,
        is_known=bool(known) and len(known) == len(brokers),
    )


def on_disk(
    answer: PartitionAnswer, config: TopicConfig | None, clearing: CleanerIntervals
) -> Iterator[str]:
    """Sentences about the partition's size, what its deletion frees and when, and what is stuck."""
    size, frees = answer.size, answer.frees
    if size.local is None:
        yield f"How much it takes on disk is not known{_why_unknown(answer.disk)}."
    else:
        yield f"It takes {say_bytes(size.local)} on the disks of all replicas."
    if size.remote is None:
        yield "How much it takes in remote storage is not known: no record of it is on the disks."
    elif size.remote:
        yield f"In remote storage it takes about {say_bytes(size.remote)}."
    if answer.row.verdict is Verdict.DELETE:
        yield _freed_by_deletion(frees.local, config)
        if frees.remote:
            yield (
                f"In remote storage it frees about {say_bytes(frees.remote)}, if "
                "records take as much there as on the disks."
            )
        yield _when_it_is_freed(clearing)
    else:
        yield "As it stands, nothing is deleted, and nothing is freed."
    for stuck in answer.stuck:
        yield stuck.sentence


def _why_unknown(disk: DiskReport) -> str:
    return f": {'; '.join(disk.problems)}" if disk.problems else ""


def _freed_by_deletion(frees_bytes: int | None, config: TopicConfig | None) -> str:
    if frees_bytes is None:
        return "What deleting up to the cutoff would free is not known."
    rule = (
        "a broker frees whole segments that are deleted to their last record, and never the one "
        f"that it writes to{_segment_settings(config)}"
    )
    if not frees_bytes:
        return f"Deleting up to the cutoff frees no disk space yet: {rule}."
    return f"Deleting up to the cutoff frees about {say_bytes(frees_bytes)}: {rule}."


def _segment_settings(config: TopicConfig | None) -> str:
    if config is None or config.segment_bytes is None or config.segment_ms is None:
        return ""
    return (
        f"; a segment holds up to {say_bytes(config.segment_bytes)}, or what arrives in "
        f"{say_about(config.segment_ms)} (segment.bytes, segment.ms)"
    )


def _when_it_is_freed(clearing: CleanerIntervals) -> str:
    interval = f"every {say_about(clearing.check_interval_ms)} ({CHECK_INTERVAL})"
    delay = f"{say_about(clearing.delete_delay_ms)} later (file.delete.delay.ms)"
    doubt = "" if clearing.is_known else ", as far as they tell"
    return f"The brokers look at their logs {interval}, and remove the files {delay}{doubt}."


@dataclass(frozen=True, slots=True)
class Ahead:
    """The first record that is dated in the future, and at least how far, in milliseconds."""

    offset: int
    by_ms: int


def stalled_by(ahead: Ahead, consumed_retention_ms: int) -> str:
    """A sentence that says what a record dated in the future means for its partition."""
    return (
        f"The record at offset {ahead.offset} is dated more than {say_about(ahead.by_ms)} in the "
        f"future: no cutoff passes it until its timestamp is {say_about(consumed_retention_ms)} "
        "old. Correct the producer's clock, or have brokers stamp the topic's records "
        "(message.timestamp.type=LogAppendTime); once it is consumed, "
        "retentiond delete-records --to-committed deletes past it."
    )
