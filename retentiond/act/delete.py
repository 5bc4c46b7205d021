"""Deletes what was approved and keeps the journal of it.

Invariant: a deletion is on disk before its request goes out, and its outcome is on disk afterwards.
So the journal says nothing false, wherever the process ends: an intent without an outcome is
open, and the next process reads back what it can (`reconcile`).

Invariant: a requested deletion without an answer may have been applied. It becomes `deleted` once
the log start offset of the same topic has reached its offset, with a note that nobody knows who
moved it. Until then it stays `unknown`. It never becomes `failed`, because a broker may apply the
request later.

`retentiond.act.request` sends the requests. Right before each one it asks whether the decision
still stands: no pause, no new configuration, no clock that was set, and evidence that is young
enough.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from retentiond.act.approved import Approved, Journal, UnprovenDeletion
from retentiond.act.request import Proof, Requester, WantedDeletion, not_attempted, read_log_starts
from retentiond.clock import Stop
from retentiond.errors import OtherCluster
from retentiond.formatting import say_many
from retentiond.kafka.interface import DeleteAnswer, DeleteFailure, Kafka, RequestResult
from retentiond.model import DeletionOutcome, Outcome, TopicPartition

MAX_EVIDENCE_AGE_S = 5.0
"""How long after the second reading began a request may still go out."""

ROUND_TRIPS = 9
"""How many round trips follow one another from the beginning of a second reading until its request
is with the leader: the groups' names, their commits, offsets, times (two), then the look (three)
and the request."""

FAR_S = 0.05
"""A shorter round trip is none worth telling of."""


class Throttling(NamedTuple):
    """How many requests have waited for a quota of the brokers so far, and how long the last one
    was told to wait, in seconds."""

    waits: int = 0
    last_s: float = 0.0


def not_throttled() -> Throttling:
    return Throttling()


@dataclass(frozen=True, slots=True)
class EvidenceAge:
    """When the second reading began, by two clocks: epoch milliseconds for the record, and
    `seconds_since_boot` for its age. ``round_trip_s``: to the slowest broker, right before it.
    ``throttling`` tells the present one, and ``waits_before`` are those before the reading."""

    read_at_ms: int
    read_at_seconds: float
    round_trip_s: float = 0.0
    throttling: Callable[[], Throttling] = not_throttled
    waits_before: int = 0

    def age_s(self, now_s: float) -> float:
        return now_s - self.read_at_seconds

    def say_cause(self) -> str:
        """What of its age brokers account for that are far away, or whose quota lets requests wait;
        empty if neither is so."""
        waits, last_s = self.throttling()
        waited = waits - self.waits_before
        if waited <= 0:
            return self._say_distance()
        many = say_many(waited, "request")
        return (
            f"{self._say_distance()}; a quota of the brokers let {many} wait, the last one for "
            f"{last_s:.1f} s (throttle_time_ms): raise retentiond's request quota"
        )

    def _say_distance(self) -> str:
        if self.round_trip_s < FAR_S:
            return ""
        return (
            f"; {ROUND_TRIPS} round trips to the brokers, of {1000 * self.round_trip_s:.0f} ms "
            f"each, take {ROUND_TRIPS * self.round_trip_s:.1f} s of it"
        )


@dataclass(slots=True)
class _Run:
    """What every request of one `execute` heeds. ``age_s``: the age of the evidence when the last
    request was handed over; None if none was."""

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
        """Why no request may go out any more, or none that rests on this evidence."""
        if self.stop.is_set():
            return "retentiond is stopping"
        if reason := self.why_paused():
            return str(reason)
        age_s = self.evidence.age_s(self.elapsed())
        if age_s > MAX_EVIDENCE_AGE_S:
            return (
                f"the groups were read {age_s:.1f} s ago, longer than {MAX_EVIDENCE_AGE_S:.1f} s"
                f"{self.evidence.say_cause()}"
            )
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
    """Deletes everything approved with one request.

    ``outcomes`` gets an outcome for each deletion, in order, as soon as it is known, so that an
    error doesn't lose it. Returns the age of the evidence in seconds when the last request was
    handed over; None if none was.

    ``now`` returns epoch milliseconds, and ``elapsed`` returns the seconds that tell the age of
    evidence. Nothing goes out once ``stop`` is set, or while ``why_paused`` gives a reason. If that
    happens during a request, its answer is awaited and recorded, but nothing is read back: the next
    start does that anyway.

    Raises `StateError` if the journal fails: before the request goes out, or after it, and then the
    intents stay open. Raises `OtherCluster` before the request goes out; the outcome is then
    "not attempted".
    """
    run = _Run(elapsed, stop, evidence, why_paused)
    objection = run.objection()
    if objection is not None:
        outcomes.extend(not_attempted(deletion.topic_partition, objection) for deletion in approved)
        return None
    requester = Requester(
        look=kafka.look_before_deleting,
        send=partial(run.send, kafka),
        read_back=partial(read_log_starts, kafka),
        stop=stop,
        objection=run.objection,
    )
    # A clock that is set back by less than a second is none of `run.objection`.
    requested_at_ms = max(now(), evidence.read_at_ms)
    journal.intend(cycle_id, approved, requested_at_ms, evidence_at_ms=evidence.read_at_ms)
    try:
        settled = requester.request(
            [
                WantedDeletion(deletion.topic_partition, deletion.topic_id, deletion.cutoff)
                for deletion in approved
            ]
        )
    except OtherCluster as error:
        settled = [not_attempted(deletion.topic_partition, str(error)) for deletion in approved]
        outcomes.extend(settled)
        journal.settle(cycle_id, settled, now())
        raise
    outcomes.extend(settled)
    journal.settle(cycle_id, settled, now())
    return run.age_s


def reconcile(journal: Journal, kafka: Kafka, now_ms: int) -> tuple[DeletionOutcome, ...]:
    """Reads back the unsettled deletions. Returns the new outcomes: those that are proven, those
    that nothing can ever prove, and those of intents that had no outcome.

    Asks the cluster only about the partitions of unsettled deletions. Raises `StateError`, and
    `KafkaUnavailable` if the cluster doesn't tell its id.
    """
    unsettled = journal.unsettled(kafka.cluster_id())
    log_starts = read_log_starts(kafka, {deletion.topic_partition for deletion in unsettled})
    proofs = [
        (deletion, log_starts.proof(deletion.topic_partition, deletion.topic_id, deletion.cutoff))
        for deletion in unsettled
    ]
    unprovable = [(deletion, proof) for deletion, proof in proofs if proof.topic_is_gone]
    changed = [
        (deletion, proof)
        for deletion, proof in proofs
        if not proof.topic_is_gone
        and (proof.log_start_offset is not None or deletion.outcome is None)
    ]
    return (
        *_settle(journal, unprovable, now_ms, give_up=True),
        *_settle(journal, changed, now_ms, give_up=False),
    )


def _settle(
    journal: Journal,
    proofs: Iterable[tuple[UnprovenDeletion, Proof]],
    now_ms: int,
    *,
    give_up: bool,
) -> list[DeletionOutcome]:
    by_cycle: defaultdict[str, list[DeletionOutcome]] = defaultdict(list)
    for deletion, proof in proofs:
        by_cycle[deletion.cycle_id].append(_outcome(deletion, proof))
    for cycle_id, outcomes in by_cycle.items():
        journal.settle(cycle_id, outcomes, now_ms, give_up=give_up)
    return [outcome for outcomes in by_cycle.values() for outcome in outcomes]


def _outcome(unsettled: UnprovenDeletion, proof: Proof) -> DeletionOutcome:
    topic, partition = unsettled.topic_partition
    if proof.log_start_offset is not None:
        return DeletionOutcome(
            topic, partition, Outcome.DELETED, proof.log_start_offset, proof.note
        )
    why = (
        "the daemon stopped before the outcome was recorded"
        if unsettled.outcome is None
        else "the outcome was never proven"
    )
    return DeletionOutcome(topic, partition, Outcome.UNKNOWN, error=f"{why}; {proof.note}")
