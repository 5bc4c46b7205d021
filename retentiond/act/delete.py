"""Deletes what was approved and keeps the journal of it.

Invariant: what will be deleted is on disk before its request goes out, and its outcome after.
At whatever point the process ends, the journal therefore says nothing false: an intent without
outcome is open, and `reconcile` reads back what it can when the next process starts.

Invariant: an offset that was requested counts as spent. It becomes `deleted` once the log start
offset of the same topic has reached it, with a word that nobody knows who moved it, and stays
`unknown` until then. It never becomes `failed`, because a request without an answer may come true
later.

`retentiond.act.request` sends the requests. Its last question before each one is whether what was
decided still stands: no pause, no new configuration, evidence that is young enough.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from retentiond.act.approved import Approved, Journal, UnprovenDeletion
from retentiond.act.request import (
    Proof,
    Requester,
    WantedDeletion,
    not_attempted,
    read_log_starts,
)
from retentiond.clock import Stop
from retentiond.errors import OtherCluster
from retentiond.kafka.interface import DeleteAnswer, DeleteFailure, Kafka, RequestResult
from retentiond.model import DeletionOutcome, Outcome, TopicPartition

MAX_EVIDENCE_AGE_S = 5.0
"""How long after the second reading began a request may still go out."""


@dataclass(frozen=True, slots=True)
class EvidenceAge:
    """When the second reading began, by two clocks: epoch milliseconds, for the record, and
    `seconds_since_boot`, which tells its age."""

    read_at_ms: int
    read_at_seconds: float

    def age_s(self, now_s: float) -> float:
        return now_s - self.read_at_seconds


@dataclass(slots=True)
class _Run:
    """``age_s``: of the evidence, when the last request was handed over."""

    elapsed: Callable[[], float]
    stop: Stop
    evidence: EvidenceAge
    why_paused: Callable[[], object]
    age_s: float | None = None

    @property
    def not_after(self) -> float:
        """The last moment at which a request may be handed over."""
        return self.evidence.read_at_seconds + MAX_EVIDENCE_AGE_S

    def objection(self) -> str | None:
        """Why no request may go out any more, or not on the evidence at hand."""
        if self.stop.is_set():
            return "retentiond is stopping"
        if reason := self.why_paused():
            return str(reason)
        age_s = self.evidence.age_s(self.elapsed())
        if age_s > MAX_EVIDENCE_AGE_S:
            return f"the groups were read {age_s:.1f} s ago, longer than {MAX_EVIDENCE_AGE_S:.1f} s"
        return None

    def send(
        self, kafka: Kafka, cutoffs: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, DeleteAnswer]:
        age_s = self.evidence.age_s(self.elapsed())
        answers = kafka.delete_records(cutoffs, not_after=self.not_after)
        if not all(map(_was_not_sent, answers.values())):
            self.age_s = age_s
        return answers


def _was_not_sent(answer: DeleteAnswer) -> bool:
    return isinstance(answer, DeleteFailure) and answer.result is RequestResult.NOT_SENT


def execute(
    approved: Sequence[Approved],
    kafka: Kafka,
    journal: Journal,
    *,
    cycle_id: str,
    evidence: EvidenceAge,
    now: Callable[[], int],
    elapsed: Callable[[], float],
    stop: Stop,
    why_paused: Callable[[], object],
    outcomes: list[DeletionOutcome],
) -> float | None:
    """Asks for all of them in one request. ``outcomes`` gets one for each, in order, as soon as it
    is known, so that it is not lost with what is raised.

    Returns how old the evidence was, in seconds, when the last request that rests on it was handed
    over; None: none was.

    ``now`` gives epoch milliseconds, ``elapsed`` the seconds that the evidence's age is told by.
    Nothing goes out once ``stop`` is set, or while ``why_paused`` gives a reason; a request that
    went out is answered and recorded then, but not read back: the next start does that anyway.
    Raises `StateError` when the journal fails: before the request goes out, or leaving its intents
    open; `OtherCluster` before it goes out, which is recorded as not attempted.
    """
    run = _Run(elapsed, stop, evidence, why_paused)
    objection = run.objection()
    if objection is not None:
        outcomes.extend(not_attempted(each.topic_partition, objection) for each in approved)
        return None
    requester = Requester(
        look=kafka.look_before_deleting,
        send=partial(run.send, kafka),
        read_back=partial(read_log_starts, kafka),
        stop=stop,
        objection=run.objection,
    )
    journal.intend(cycle_id, approved, now(), evidence_at_ms=evidence.read_at_ms)
    try:
        settled = requester.request(
            [WantedDeletion(each.topic_partition, each.topic_id, each.offset) for each in approved]
        )
    except OtherCluster as error:
        settled = [not_attempted(each.topic_partition, str(error)) for each in approved]
        outcomes.extend(settled)
        journal.settle(cycle_id, settled, now())
        raise
    outcomes.extend(settled)
    journal.settle(cycle_id, settled, now())
    return run.age_s


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
    journal: Journal,
    proofs: Iterable[tuple[UnprovenDeletion, Proof]],
    now_ms: int,
    *,
    give_up: bool,
) -> list[DeletionOutcome]:
    by_cycle: defaultdict[str, list[DeletionOutcome]] = defaultdict(list)
    for each, proof in proofs:
        by_cycle[each.cycle_id].append(_outcome(each, proof))
    for cycle_id, outcomes in by_cycle.items():
        journal.settle(cycle_id, outcomes, now_ms, give_up=give_up)
    return [outcome for outcomes in by_cycle.values() for outcome in outcomes]


def _outcome(unsettled: UnprovenDeletion, proof: Proof) -> DeletionOutcome:
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
