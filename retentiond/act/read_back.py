"""Reads log start offsets back, to learn what became of a request that got no clear answer.

Invariant: a log start offset can prove that records are gone, never that they stay (a frozen
leader applies a timed-out request minutes later), and not who deleted them: Kafka's own retention
moves it, too. It proves nothing about a topic of the same name with another id. The id is read
*after* the offset: ids never come back, so an unchanged one held when the offset was read.

Invariant: an offset that was requested counts as spent. It becomes `deleted` once the log start
offset of the same topic has reached it, with a word that nobody knows who moved it, and stays
`unknown` until then; it never becomes `failed`, because a request without an answer may come true
later.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from retentiond.act.approved import Journal, Unsettled
from retentiond.kafka.interface import Kafka, OffsetBound, TopicDescription
from retentiond.model import DeletionOutcome, Failure, Outcome, TopicPartition

GONE = "the records were gone {when}; whether this request deleted them is not known"


class LogStartSource(Protocol):
    """The part of `retentiond.kafka.interface.Kafka` that is asked here."""

    def topic_names(self) -> frozenset[str]: ...

    def describe_topics(
        self, names: Collection[str]
    ) -> Mapping[str, TopicDescription | Failure]: ...

    def offsets(
        self, partitions: Collection[TopicPartition], bound: OffsetBound
    ) -> Mapping[TopicPartition, int | Failure]: ...


@dataclass(frozen=True, slots=True)
class Proof:
    """``log_start_offset`` is at or above the cutoff, or None: that is not proven. ``note`` says
    what is known, in words.

    ``topic_is_gone``: the topic of that id is no more, so that asking again is of no use.
    """

    log_start_offset: int | None
    note: str
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
        if described.topic_id is None:
            return Proof(None, "the topic's id could not be read back")
        if described.topic_id != topic_id:
            return Proof(None, "the topic was recreated meanwhile", topic_is_gone=True)
        log_start = self.offsets.get(partition, _UNREAD)
        if isinstance(log_start, Failure):
            return Proof(None, f"the log start offset could not be read back ({log_start})")
        if log_start < cutoff:
            return Proof(None, f"the log start offset was {log_start} when read back")
        return Proof(log_start, GONE.format(when="by the time it was read back"))


def read_log_starts(kafka: LogStartSource, partitions: Collection[TopicPartition]) -> LogStarts:
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


def reconcile(journal: Journal, kafka: Kafka, now_ms: int) -> tuple[DeletionOutcome, ...]:
    """The outcomes that are new: proven, given up, or of an intent that had none.

    Asks the cluster for the partitions in question only, and for nothing when there are none.
    Raises `KafkaUnavailable` when the cluster doesn't say who it is, `StateError`.
    """
    unsettled = journal.unsettled(kafka.cluster_id())
    log_starts = read_log_starts(kafka, {each.topic_partition for each in unsettled})
    proofs = [
        (each, log_starts.proof(each.topic_partition, each.topic_id, each.cutoff))
        for each in unsettled
    ]
    gone = [(each, proof) for each, proof in proofs if proof.topic_is_gone]
    news = [
        (each, proof)
        for each, proof in proofs
        if not proof.topic_is_gone and (proof.log_start_offset is not None or each.outcome is None)
    ]
    return (
        *_settle(journal, gone, now_ms, give_up=True),
        *_settle(journal, news, now_ms, give_up=False),
    )


def _settle(
    journal: Journal, proofs: Iterable[tuple[Unsettled, Proof]], now_ms: int, *, give_up: bool
) -> list[DeletionOutcome]:
    by_cycle: defaultdict[str, list[DeletionOutcome]] = defaultdict(list)
    for each, proof in proofs:
        by_cycle[each.cycle_id].append(_outcome(each, proof))
    for cycle_id, outcomes in by_cycle.items():
        journal.settle(cycle_id, outcomes, now_ms, give_up=give_up)
    return [outcome for outcomes in by_cycle.values() for outcome in outcomes]


def _outcome(unsettled: Unsettled, proof: Proof) -> DeletionOutcome:
    topic, partition = unsettled.topic_partition
    if proof.log_start_offset is not None:
        return DeletionOutcome(
            topic, partition, Outcome.DELETED, proof.log_start_offset, proof.note
        )
    what = (
        "the daemon stopped before the outcome was recorded"
        if unsettled.outcome is None
        else "the outcome was never proven"
    )
    return DeletionOutcome(topic, partition, Outcome.UNKNOWN, error=f"{what}; {proof.note}")
