"""Sentences of an explanation: about the brokers' disks, and about records dated in the future."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from retentiond.disks.broker_disks import DiskReport
from retentiond.formatting import say_about, say_bytes
from retentiond.kafka.interface import TopicConfig
from retentiond.model import Verdict
from retentiond.tell.figures.answers import PartitionAnswer

WHEN_IT_IS_FREED = (
    "The brokers free it when they have next looked at their logs "
    "(log.retention.check.interval.ms) and waited (file.delete.delay.ms)."
)


def on_disk(answer: PartitionAnswer, config: TopicConfig | None) -> Iterator[str]:
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
        yield WHEN_IT_IS_FREED
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
