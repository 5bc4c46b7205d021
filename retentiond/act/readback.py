"""Reads log start offsets back, to learn what became of a request that got no clear answer.

Invariant: a log start offset can prove "applied", never "not applied" (a frozen leader applies
a timed-out request minutes later), and it proves nothing about a topic of the same name with
another id. The id is read *after* the offset: ids never come back, so an unchanged one held
when the offset was read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from retentiond.kafka.port import OffsetBound, TopicDescription
from retentiond.model import Failure, TopicPartition


class Kafka(Protocol):
    """The part of `retentiond.kafka.port.Kafka` that is asked here."""

    def topic_names(self) -> frozenset[str]: ...

    def describe_topics(
        self, names: Collection[str]
    ) -> Mapping[str, TopicDescription | Failure]: ...

    def offsets(
        self, partitions: Collection[TopicPartition], bound: OffsetBound
    ) -> Mapping[TopicPartition, int | Failure]: ...


@dataclass(frozen=True, slots=True)
class Proof:
    """``log_start_offset`` is at or above the cutoff, or None: not proven, and ``note`` says why.

    ``topic_is_gone``: the topic of that id is no more, so that asking again is of no use.
    """

    log_start_offset: int | None
    note: str = ""
    topic_is_gone: bool = False


@dataclass(frozen=True, slots=True)
class LogStarts:
    """The log start offsets of some partitions, and their topics as they were right after.

    ``topics`` holds None for a topic that is not in the cluster's metadata.
    """

    offsets: Mapping[TopicPartition, int | Failure]
    topics: Mapping[str, TopicDescription | Failure | None]

    def proof(self, partition: TopicPartition, topic_id: str, cutoff: int) -> Proof:
        """Whether the records below ``cutoff`` of that very topic are gone."""
        described = self.topics.get(partition.topic, _UNREAD)
        if described is None:
            return Proof(None, "the topic no longer exists", topic_is_gone=True)
        if isinstance(described, Failure):
            return Proof(None, f"the topic could not be read back ({described})")
        if described.topic_id != topic_id:
            return Proof(None, "the topic was recreated meanwhile", topic_is_gone=True)
        log_start = self.offsets.get(partition, _UNREAD)
        if isinstance(log_start, Failure):
            return Proof(None, f"the log start offset could not be read back ({log_start})")
        if log_start < cutoff:
            return Proof(None, f"the log start offset was {log_start} when read back")
        return Proof(log_start)


def read_log_starts(kafka: Kafka, partitions: Collection[TopicPartition]) -> LogStarts:
    """Asks for those partitions only. Raises nothing: what can't be read proves nothing."""
    names = {partition.topic for partition in partitions}
    if not names:
        return LogStarts({}, {})
    try:
        offsets = kafka.offsets(partitions, OffsetBound.LOG_START)
        described = kafka.describe_topics(names)
        topics: dict[str, TopicDescription | Failure | None] = dict(described)
        unclear = {name for name, topic in described.items() if isinstance(topic, Failure)}
        if unclear:
            topics |= dict.fromkeys(unclear - kafka.topic_names())
    except Exception as exc:  # noqa: BLE001 - whatever fails here, the answer is "not proven"
        unread = Failure(type(exc).__name__, str(exc))
        return LogStarts({}, dict.fromkeys(names, unread))
    return LogStarts(offsets, topics)


def not_read(partitions: Collection[TopicPartition]) -> LogStarts:
    """In place of a reading when there is no time for one."""
    stopping = Failure("STOPPING", "retentiond is stopping")
    return LogStarts({}, {partition.topic: stopping for partition in partitions})


_UNREAD = Failure("NO_ANSWER", "the reading does not mention it")
