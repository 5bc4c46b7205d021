"""A DeleteRecords request: the check right before it, its retries, and what its answers prove.

The daemon (`retentiond.act.delete`) and `retentiond delete-records` both delete with it.

Right before each request, a retry included, the client that deletes checks the cluster and the
topics' ids, because DeleteRecords names topics and no ids. The caller's own objection comes last.

An answer is taken for what it proves and no more. Only the broker's answer or the log start offset
itself makes an outcome `deleted`. Only a refusal of the one request that went out makes it
`failed`. Everything else is `unknown`: a request that timed out may still be applied, and a former
leader may have moved its log start offset before it lost the leadership (KIP-107: it waits for its
followers in between).

If an answer is unclear, the log start offset is read back. Invariant: it can prove that records are
gone. It never proves that they stay (a frozen leader applies a timed-out request minutes later),
nor who deleted them (Kafka's own retention moves it, too). It proves nothing about a topic of the
same name with another id. The id is read *after* the offset: ids never return, so an unchanged id
was valid when the offset was read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, Protocol, TypeVar

from retentiond.clock import Stop
from retentiond.errors import OtherCluster
from retentiond.kafka.interface import (
    NOT_ANSWERED,
    DeleteAnswer,
    DeleteFailure,
    OffsetBound,
    RequestResult,
    Target,
    TopicDescription,
)
from retentiond.model import DeletionOutcome, Failure, Outcome, TopicPartition

ATTEMPTS = 3
"""Only partitions whose leader has moved get a second attempt, at the new leader."""

BACKOFF_S = 0.5
"""Before the second attempt; before the third one it is twice as long."""

NO_EFFECT = (RequestResult.REFUSED, RequestResult.NOT_SENT)

ALREADY_GONE = "the records were gone {when}; whether this request deleted them is not known"

T = TypeVar("T", bound=Target)


class WantedDeletion(NamedTuple, Generic[T]):
    """``topic_id`` is None if the cluster has no topic ids. Then a recreated topic can't be
    recognised."""

    at: TopicPartition
    topic_id: str | None
    target: T


def no_objection() -> None:
    """Every request may go out."""


@dataclass(frozen=True, slots=True)
class Requester(Generic[T]):
    """Sends requests and judges their answers. ``look`` is the client's `look_before_deleting`, and
    ``send`` is its DeleteRecords. ``read_back`` reads log start offsets. ``objection`` returns why
    no request may go out now, or None."""

    look: Callable[[Collection[TopicPartition]], Mapping[str, str | Failure]]
    send: Callable[[Mapping[TopicPartition, T]], Mapping[TopicPartition, DeleteAnswer]]
    read_back: Callable[[Collection[TopicPartition]], LogStarts]
    stop: Stop
    objection: Callable[[], str | None] = no_objection

    def request(self, wanted: Sequence[WantedDeletion[T]]) -> list[DeletionOutcome]:
        """One outcome for each deletion, in order. Raises `OtherCluster` if no request went out.

        Once ``stop`` is set, the answer to a request is still awaited, but nothing is read back: a
        broker that doesn't answer would hold up the end.
        """
        objections = self._last_look(wanted)
        unobjected = [deletion for deletion in wanted if deletion.at not in objections]
        answers = self._ask(unobjected)
        unclear = [
            deletion.at
            for deletion in unobjected
            if _proves_nothing(answers[deletion.at], deletion.target)
        ]
        can_read_back = bool(unclear) and not self.stop.is_set()
        log_starts = self.read_back(unclear) if can_read_back else not_read(unclear)
        return [
            not_attempted(deletion.at, objections[deletion.at])
            if deletion.at in objections
            else _outcome(deletion, answers[deletion.at], log_starts)
            for deletion in wanted
        ]

    def _last_look(self, wanted: Sequence[WantedDeletion[T]]) -> dict[TopicPartition, str]:
        """Which deletions may not be requested, and why. Nothing may come between this check and
        the request. Raises `OtherCluster`."""
        if not wanted:
            return {}
        try:
            ids = self.look([deletion.at for deletion in wanted])
        except OtherCluster:
            raise
        except Exception as error:  # noqa: BLE001 - any error means that the ids are not known
            why = f"the topics could not be looked at right before the request ({error})"
            return {deletion.at: why for deletion in wanted}
        if (objection := self.objection()) is not None:
            return {deletion.at: objection for deletion in wanted}
        return {
            deletion.at: f"the topic's id was {deletion.topic_id}, and right before the request "
            f"it is {ids.get(deletion.at.topic)}"
            for deletion in wanted
            if deletion.topic_id is not None and ids.get(deletion.at.topic) != deletion.topic_id
        }

    def _ask(self, wanted: Sequence[WantedDeletion[T]]) -> dict[TopicPartition, DeleteAnswer]:
        """Sends the request, with retries, and returns each partition's last answer. Comes right
        after `_last_look`."""
        answers = self._send(wanted)
        sent = wanted
        for attempt in range(1, ATTEMPTS):
            moved = [
                deletion
                for deletion in sent
                if isinstance(answer := answers[deletion.at], DeleteFailure)
                and answer.result is RequestResult.MOVED
            ]
            if not moved or self.stop.wait(BACKOFF_S * attempt):
                break
            try:
                objections = self._last_look(moved)
            except OtherCluster:  # the next deletion will raise it; this request went out
                break
            sent = [deletion for deletion in moved if deletion.at not in objections]
            retried = self._send(sent)
            answers |= {at: _answer_to_retry(answer) for at, answer in retried.items()}
        return answers

    def _send(self, deletions: Sequence[WantedDeletion[T]]) -> dict[TopicPartition, DeleteAnswer]:
        if not deletions:
            return {}
        no_answer = Failure("NO_ANSWER", "nothing came back")
        answers: Mapping[TopicPartition, DeleteAnswer] = {}
        try:
            answers = self.send({deletion.at: deletion.target for deletion in deletions})
        except Exception as error:  # noqa: BLE001 - after any error the request may have gone out
            no_answer = Failure(type(error).__name__, str(error))
        unknown = DeleteFailure(RequestResult.UNKNOWN, no_answer)
        return {deletion.at: answers.get(deletion.at, unknown) for deletion in deletions}


def _answer_to_retry(answer: DeleteAnswer) -> DeleteAnswer:
    """The answer to a retry. A refusal becomes unknown: it says nothing about the first request."""
    if isinstance(answer, DeleteFailure) and answer.result in NO_EFFECT:
        return replace(answer, result=RequestResult.UNKNOWN)
    return answer


def _proves_nothing(answer: DeleteAnswer, target: Target) -> bool:
    if isinstance(answer, DeleteFailure):
        return answer.result not in NO_EFFECT
    return isinstance(target, int) and answer < target


def _outcome(
    wanted: WantedDeletion[T], answer: DeleteAnswer, log_starts: LogStarts
) -> DeletionOutcome:
    if _proves_nothing(answer, wanted.target):
        return _read_back(wanted, answer, log_starts)
    if not isinstance(answer, DeleteFailure):
        # This request moves the log start offset to the cutoff. If it lies beyond, something else
        # deleted records, and the broker doesn't say whether before this request or after it.
        is_ours = answer == wanted.target or not isinstance(wanted.target, int)
        note = None if is_ours else ALREADY_GONE.format(when="when it was asked")
        return DeletionOutcome(*wanted.at, Outcome.DELETED, answer, note)
    if answer.result is RequestResult.NOT_SENT:
        return not_attempted(wanted.at, answer.failure.message)
    return DeletionOutcome(*wanted.at, Outcome.FAILED, error=str(answer.failure))


def _read_back(
    wanted: WantedDeletion[T], answer: DeleteAnswer, log_starts: LogStarts
) -> DeletionOutcome:
    proof = Proof(None, "no log start offset can prove it")
    if wanted.topic_id is not None and isinstance(wanted.target, int):
        proof = log_starts.proof(wanted.at, wanted.topic_id, wanted.target)
    if proof.log_start_offset is not None:
        return DeletionOutcome(*wanted.at, Outcome.DELETED, proof.log_start_offset, proof.note)
    if isinstance(answer, DeleteFailure):
        error = f"{answer.failure}; {proof.note}"
        return DeletionOutcome(*wanted.at, Outcome.UNKNOWN, error=error)
    error = f"the broker answered with the low watermark {answer}; {proof.note}"
    return DeletionOutcome(*wanted.at, Outcome.UNKNOWN, answer, error)


def not_attempted(at: TopicPartition, why: str) -> DeletionOutcome:
    return DeletionOutcome(*at, Outcome.NOT_ATTEMPTED, error=why)


class LogStartSource(Protocol):
    """The part of `retentiond.kafka.interface.Kafka` that reads log start offsets back."""

    def topic_names(self) -> frozenset[str]: ...

    def describe_topics(
        self, names: Collection[str]
    ) -> Mapping[str, TopicDescription | Failure]: ...

    def offsets(
        self, partitions: Collection[TopicPartition], bound: OffsetBound
    ) -> Mapping[TopicPartition, int | Failure]: ...


@dataclass(frozen=True, slots=True)
class Proof:
    """``log_start_offset`` is at or above the cutoff; None if nothing proves that the records are
    gone. ``note`` says in words what is known.

    ``topic_is_gone``: the topic with this id no longer exists, so nothing can ever prove it.
    """

    log_start_offset: int | None
    note: str
    topic_is_gone: bool = False


@dataclass(frozen=True, slots=True)
class LogStarts:
    """Log start offsets, and their topics as read right afterwards: None for one that is not in the
    cluster's metadata."""

    offsets: Mapping[TopicPartition, int | Failure]
    topics: Mapping[str, TopicDescription | Failure | None]

    def proof(self, partition: TopicPartition, topic_id: str, cutoff: int) -> Proof:
        """Whether the records below ``cutoff`` are gone from the topic with this id."""
        described = self.topics.get(partition.topic, NOT_ANSWERED)
        if described is None:
            return Proof(None, "the topic no longer exists", topic_is_gone=True)
        if isinstance(described, Failure):
            return Proof(None, f"the topic could not be read back ({described})")
        if described.topic_id is None:
            return Proof(None, "the topic's id could not be read back")
        if described.topic_id != topic_id:
            return Proof(None, "the topic was recreated meanwhile", topic_is_gone=True)
        log_start = self.offsets.get(partition, NOT_ANSWERED)
        if isinstance(log_start, Failure):
            return Proof(None, f"the log start offset could not be read back ({log_start})")
        if log_start < cutoff:
            return Proof(None, f"the log start offset was {log_start} when read back")
        return Proof(log_start, ALREADY_GONE.format(when="by the time it was read back"))


def read_log_starts(kafka: LogStartSource, partitions: Collection[TopicPartition]) -> LogStarts:
    """Raises nothing: an offset that can't be read proves nothing."""
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
    except Exception as exc:  # noqa: BLE001 - after any error the answer is "not proven"
        unreadable = Failure(type(exc).__name__, str(exc))
        return LogStarts({}, dict.fromkeys(names, unreadable))
    return LogStarts(offsets, topics)


def not_read(partitions: Collection[TopicPartition]) -> LogStarts:
    stopping = Failure("STOPPING", "retentiond is stopping")
    return LogStarts({}, {partition.topic: stopping for partition in partitions})
