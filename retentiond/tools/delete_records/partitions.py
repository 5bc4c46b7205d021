"""A partition in ``retentiond delete-records``: how it is looked up and previewed.

An unknown topic fails at once; Kafka's own tool asks for it again and again for a minute. Only
legal topic names reach librdkafka, because it cuts a name off at a NUL and would take another
topic.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from retentiond.fields import (
    BYTES,
    NUMBER,
    OFFSET,
    RECORDS,
    SENTENCE,
    TEXT,
    WORD,
    described,
    figure,
    said,
)
from retentiond.kafka.interface import (
    KAFKAS_HIGH_WATERMARK,
    NO_SUCH_TOPIC,
    Kafka,
    OffsetBound,
    Target,
    TopicConfig,
    TopicDescription,
)
from retentiond.model import LEGAL_TOPIC, Failure, Outcome, TopicPartition


@described
class Item:
    """A partition with its request, with what was read of it, and with its outcome.

    ``target``: the first offset to keep, or the high watermark; None if nothing is requested, and
    ``error`` says why.
    """

    topic: str = said(TEXT, "the topic")
    partition: int = said(NUMBER, "the partition's number")
    target: Target | None
    topic_id: str | None = None

    @figure(OFFSET, "the first offset to keep; -1: the high watermark", name="offset")
    def written_target(self) -> int | None:
        """As in an offsets file."""
        return KAFKAS_HIGH_WATERMARK if self.target is OffsetBound.HIGH_WATERMARK else self.target

    log_start_offset: int | None = said(OFFSET, "known after a preview", default=None)
    high_watermark: int | None = said(OFFSET, "known after a preview", default=None)

    @figure(RECORDS, "how many offsets the deletion spans by the preview; null: there was none")
    def records(self) -> int | None:
        if self.target is None or self.outcome is Outcome.FAILED:
            return 0
        if self.cutoff is None or self.log_start_offset is None:
            return None
        return max(0, self.cutoff - self.log_start_offset)

    predicted_bytes: int | None = said(
        BYTES, "on the disks of all replicas; known after the preview of a dry run", default=None
    )
    outcome: Outcome = said(
        WORD, f"what became of it: {', '.join(Outcome)}", default=Outcome.NOT_ATTEMPTED
    )
    low_watermark: int | None = said(OFFSET, "the log start offset after it", default=None)
    error: str | None = said(SENTENCE, "what went wrong, or why it is left out", default=None)

    @property
    def at(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def is_pending(self) -> bool:
        """Whether the deletion is still to be requested."""
        return self.target is not None and self.outcome is Outcome.NOT_ATTEMPTED

    @property
    def has_failed(self) -> bool:
        """Whether the deletion failed or its outcome is unknown. An item that was left out on
        purpose has not failed."""
        return self.outcome in (Outcome.FAILED, Outcome.UNKNOWN)

    @property
    def cutoff(self) -> int | None:
        """The target as an offset; None if the high watermark is the target and not known."""
        return self.high_watermark if self.target is OffsetBound.HIGH_WATERMARK else self.target

    def failed(self, error: str) -> Item:
        """The item as refused: nothing was deleted."""
        return replace(self, outcome=Outcome.FAILED, error=error)

    def left_out(self, reason: str) -> Item:
        """The item without a target: there is nothing to delete, which is no failure."""
        return replace(self, target=None, error=reason)


ILLEGAL_NAME = Failure(
    "INVALID_TOPIC_EXCEPTION", "no topic can have this name (letters, digits, dot, _ and -)"
)


def describe(kafka: Kafka, names: Collection[str]) -> Mapping[str, TopicDescription | Failure]:
    """Each topic, or why nothing can be deleted from it. Raises `KafkaUnavailable`."""
    legal = sorted(name for name in set(names) if re.fullmatch(LEGAL_TOPIC, name))
    described = kafka.describe_topics(legal)
    return {name: _explained(described.get(name, ILLEGAL_NAME)) for name in names}


def find(kafka: Kafka, items: Sequence[Item]) -> list[Item]:
    """The items with their topic ids. Items whose partition doesn't exist fail. Raises
    `KafkaUnavailable`."""
    described = describe(kafka, {item.topic for item in items})
    return [_found(item, described[item.topic]) for item in items]


def _found(item: Item, topic: TopicDescription | Failure) -> Item:
    if isinstance(topic, Failure):
        return item.failed(str(topic))
    if item.partition not in topic.partitions:
        count = len(topic.partitions)
        has = "only partition 0" if count == 1 else f"{count} partitions, from 0 to {count - 1}"
        return item.failed(str(Failure(NO_SUCH_TOPIC, f"the topic has {has}")))
    return replace(item, topic_id=topic.topic_id)


def _explained(topic: TopicDescription | Failure) -> TopicDescription | Failure:
    if isinstance(topic, TopicDescription):
        if topic.is_internal:
            return Failure("INVALID_TOPIC_EXCEPTION", "Kafka's own topic is never deleted from")
        return topic
    if topic.code == NO_SUCH_TOPIC:
        return Failure(NO_SUCH_TOPIC, "there is no such topic, or you may not describe it")
    return topic


def preview(kafka: Kafka, items: Sequence[Item]) -> list[Item]:
    """The items; pending ones with log start offset and high watermark, if these can be read."""
    pending = [item.at for item in items if item.is_pending]
    if not pending:
        return list(items)
    starts = kafka.offsets(pending, OffsetBound.LOG_START)
    ends = kafka.offsets(pending, OffsetBound.HIGH_WATERMARK)
    return [
        replace(
            item,
            log_start_offset=_known(starts[item.at]),
            high_watermark=_known(ends[item.at]),
        )
        if item.is_pending
        else item
        for item in items
    ]


def refuse_hopeless(kafka: Kafka, items: Sequence[Item]) -> list[Item]:
    """The previewed items. Items fail if a broker would refuse them, or if their offsets can't be
    read."""
    configs = kafka.topic_configs({item.topic for item in items if item.is_pending})
    return [_refused(item, configs[item.topic]) if item.is_pending else item for item in items]


def _refused(item: Item, config: TopicConfig | Failure) -> Item:
    if isinstance(config, TopicConfig) and "delete" not in config.cleanup_policy:
        return item.failed(
            "POLICY_VIOLATION: the topic's cleanup.policy has no delete; nothing would be deleted"
        )
    if item.log_start_offset is None or item.high_watermark is None:
        return item.failed("its offsets can't be read now; check its leader")
    if isinstance(item.target, int) and item.target > item.high_watermark:
        return item.failed(
            f"OFFSET_OUT_OF_RANGE: offset {item.target} is beyond the high watermark "
            f"{item.high_watermark}; nothing would be deleted"
        )
    return item


def _known(answer: int | Failure) -> int | None:
    return None if isinstance(answer, Failure) else answer
