"""One request of DeleteRecords: the look before it, its retries, and what its answers prove.

The daemon (`retentiond.act.delete`) and `retentiond delete-records` both delete by it.

Right before each request, a retry included, the cluster and the topics' ids are looked at through
the client that deletes: DeleteRecords goes by name. Last of all comes the caller's own objection.

An answer is taken for what it proves and no more: only the broker's word or the log start offset
itself makes an outcome `deleted`, only a refusal of the one request that went out makes it
`failed`. The rest is `unknown`: a request that timed out may still be applied, and a leader that
says it leads no more may have moved its log start before it lost the lead (KIP-107: it waits for
its followers in between).

Where no answer is clear, the log start offset is read back. Invariant: it can prove that records
are gone, never that they stay (a frozen leader applies a timed-out request minutes later), and not
who deleted them: Kafka's own retention moves it, too. It proves nothing about a topic of the same
name with another id. The id is read *after* the offset: ids never come back, so an unchanged one
held when the offset was read.
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
"""Only for partitions whose leader moved: the new one needs to be asked."""

BACKOFF_S = 0.5
"""How long to wait before the second attempt; each further wait is longer by as much."""

NO_EFFECT = (RequestResult.REFUSED, RequestResult.NOT_SENT)

ALREADY_GONE = "the records were gone {when}; whether this request deleted them is not known"

T = TypeVar("T", bound=Target)


class WantedDeletion(NamedTuple, Generic[T]):
    """``topic_id``: None in a cluster that gives none, where no recreated topic can be told."""

    at: TopicPartition
    topic_id: str | None
    target: T


def no_objection() -> None:
    """Every request may go out."""


@dataclass(frozen=True, slots=True)
class Requester(Generic[T]):
    """``look`` is the client's `look_before_deleting`, ``send`` its DeleteRecords; ``read_back``
    reads log starts. ``objection`` says why no request may go out now."""

    look: Callable[[Collection[TopicPartition]], Mapping[str, str | Failure]]
    send: Callable[[Mapping[TopicPartition, T]], Mapping[TopicPartition, DeleteAnswer]]
    read_back: Callable[[Collection[TopicPartition]], LogStarts]
    stop: Stop
    objection: Callable[[], str | None] = no_objection

    def request(self, wanted: Sequence[WantedDeletion[T]]) -> list[DeletionOutcome]:
        """One outcome for each, in order. Raises `OtherCluster` where no request went out.

        Once ``stop`` is set, a request that went out is answered but not read back: a silent broker
        would hold up the end.
        """
        objections = self._last_look(wanted)
        asked = [each for each in wanted if each.at not in objections]
        answers = self._ask(asked)
        unclear = [each.at for each in asked if _proves_nothing(answers[each.at], each.target)]
        ask = bool(unclear) and not self.stop.is_set()
        log_starts = self.read_back(unclear) if ask else not_read(unclear)
        return [
            not_attempted(each.at, objections[each.at])
            if each.at in objections
            else _outcome(each, answers[each.at], log_starts)
            for each in wanted
        ]

    def _last_look(self, wanted: Sequence[WantedDeletion[T]]) -> dict[TopicPartition, str]:
        """Why a request for some of them may not go out; nothing may come between this and it.

        Raises `OtherCluster`.
        """
        if not wanted:
            return {}
        try:
            ids = self.look([each.at for each in wanted])
        except OtherCluster:
            raise
        except Exception as error:  # noqa: BLE001 - then nobody can say whose name it is
            why = f"the topics could not be looked at right before the request ({error})"
            return {each.at: why for each in wanted}
        if (objection := self.objection()) is not None:
            return {each.at: objection for each in wanted}
        return {
            each.at: f"the topic's id was {each.topic_id}, and right before the request "
            f"it is {ids.get(each.at.topic)}"
            for each in wanted
            if each.topic_id is not None and ids.get(each.at.topic) != each.topic_id
        }

    def _ask(self, wanted: Sequence[WantedDeletion[T]]) -> dict[TopicPartition, DeleteAnswer]:
        """Each partition's last answer. Right after `_last_look`."""
        answers = self._send(wanted)
        asked = wanted
        for attempt in range(1, ATTEMPTS):
            moved = [each for each in asked if _has_moved(answers[each.at])]
            if not moved or self.stop.wait(BACKOFF_S * attempt):
                break
            try:
                objections = self._last_look(moved)
            except OtherCluster:  # the next request will say so; this one went out
                break
            asked = [each for each in moved if each.at not in objections]
            again = self._send(asked)
            answers |= {at: _second(answer) for at, answer in again.items()}
        return answers

    def _send(self, asked: Sequence[WantedDeletion[T]]) -> dict[TopicPartition, DeleteAnswer]:
        if not asked:
            return {}
        lost = Failure("NO_ANSWER", "nothing came back")
        answers: Mapping[TopicPartition, DeleteAnswer] = {}
        try:
            answers = self.send({each.at: each.target for each in asked})
        except Exception as error:  # noqa: BLE001 - whatever it was, the request may have gone out
            lost = Failure(type(error).__name__, str(error))
        unknown = DeleteFailure(RequestResult.UNKNOWN, lost)
        return {each.at: answers.get(each.at, unknown) for each in asked}


def _second(answer: DeleteAnswer) -> DeleteAnswer:
    """A refusal of the second request says nothing about the first."""
    if isinstance(answer, DeleteFailure) and answer.result in NO_EFFECT:
        return replace(answer, result=RequestResult.UNKNOWN)
    return answer


def _has_moved(answer: DeleteAnswer) -> bool:
    return isinstance(answer, DeleteFailure) and answer.result is RequestResult.MOVED


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
        # Ours ends at the cutoff. What is beyond was deleted by somebody else, and when, if before
        # us or after, the broker does not say.
        is_ours = answer == wanted.target or not isinstance(wanted.target, int)
        note = None if is_ours else ALREADY_GONE.format(when="when it was asked")
        return DeletionOutcome(*wanted.at, Outcome.DELETED, answer, note)
    if answer.result is RequestResult.NOT_SENT:
        return not_attempted(wanted.at, answer.failure.message)
    return DeletionOutcome(*wanted.at, Outcome.FAILED, error=str(answer.failure))


def _read_back(
    wanted: WantedDeletion[T], answer: DeleteAnswer, log_starts: LogStarts
) -> DeletionOutcome:
    proof = UNPROVABLE
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
    """The outcome where no request went out."""
    return DeletionOutcome(*at, Outcome.NOT_ATTEMPTED, error=why)


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
        unreadable = Failure(type(exc).__name__, str(exc))
        return LogStarts({}, dict.fromkeys(names, unreadable))
    return LogStarts(offsets, topics)


def not_read(partitions: Collection[TopicPartition]) -> LogStarts:
    """What stands for a reading when there is no time for one."""
    stopping = Failure("STOPPING", "retentiond is stopping")
    return LogStarts({}, {partition.topic: stopping for partition in partitions})


UNPROVABLE = Proof(None, "no log start offset can prove it")
