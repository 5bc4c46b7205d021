"""Deletes what was approved, batch by batch, and keeps the journal of it.

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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from retentiond.act.approved import Approved, Journal, UnprovenDeletion
from retentiond.act.request import (
    ATTEMPTS,
    BACKOFF_S,
    Proof,
    Requester,
    WantedDeletion,
    not_attempted,
    read_log_starts,
)
from retentiond.clock import Stop, seconds_since_boot
from retentiond.errors import OtherCluster
from retentiond.kafka.interface import Kafka
from retentiond.model import DeletionOutcome, Outcome

MAX_EVIDENCE_AGE_S = 5.0
"""How long after the second reading began a request may still go out."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How requests go out; ``attempts`` and ``backoff_seconds`` are `Requester`'s."""

    batch_size: int = 5000  # partitions in one request; each takes the broker 0.05 to 0.25 ms
    attempts: int = ATTEMPTS
    backoff_seconds: float = BACKOFF_S
    max_evidence_age_seconds: float = MAX_EVIDENCE_AGE_S


DEFAULT_PACE = Pace()


def never_paused() -> None:
    """Nobody keeps deletions from going on."""


@dataclass(frozen=True, slots=True)
class EvidenceAge:
    """When the second reading began, by two clocks: epoch milliseconds, for the record, and
    `seconds_since_boot`, which tells its age."""

    read_at_ms: int
    read_at_seconds: float


@dataclass(frozen=True, slots=True)
class _Run:
    elapsed: Callable[[], float]
    stop: Stop
    evidence: EvidenceAge
    why_paused: Callable[[], object]
    pace: Pace

    @property
    def not_after(self) -> float:
        """The last moment at which a request may be handed over."""
        return self.evidence.read_at_seconds + self.pace.max_evidence_age_seconds

    def objection(self) -> str | None:
        """Why no request may go out any more, or not on the evidence at hand."""
        if self.stop.is_set():
            return "retentiond is stopping"
        if reason := self.why_paused():
            return str(reason)
        age_s = self.elapsed() - self.evidence.read_at_seconds
        if age_s > self.pace.max_evidence_age_seconds:
            return (
                f"the groups were read {age_s:.1f} s ago, "
                f"longer than {self.pace.max_evidence_age_seconds:.1f} s"
            )
        return None


def execute(
    approved: Sequence[Approved],
    kafka: Kafka,
    journal: Journal,
    *,
    cycle_id: str,
    evidence: EvidenceAge,
    now: Callable[[], int],
    stop: Stop,
    elapsed: Callable[[], float] = seconds_since_boot,
    why_paused: Callable[[], object] = never_paused,
    pace: Pace = DEFAULT_PACE,
    outcomes: list[DeletionOutcome] | None = None,
) -> tuple[DeletionOutcome, ...]:
    """One outcome for each approved deletion, in order. ``outcomes`` has each as soon as it is
    known, so that it is not lost with what is raised.

    ``now`` gives epoch milliseconds, ``elapsed`` the seconds that the evidence's age is told by.
    ``stop`` ends it between batches, and so does ``why_paused`` for as long as it gives a reason; a
    batch that went out is answered and recorded, but not read back: the next start does that
    anyway. Raises `StateError` when the journal fails: before its batch goes out, or leaving the
    batch's intents open; `OtherCluster` before a batch goes out, which is recorded as not
    attempted.
    """
    run = _Run(elapsed, stop, evidence, why_paused, pace)
    requester = Requester(
        look=kafka.look_before_deleting,
        send=partial(kafka.delete_records, not_after=run.not_after),
        read_back=partial(read_log_starts, kafka),
        stop=stop,
        objection=run.objection,
        attempts=pace.attempts,
        backoff_seconds=pace.backoff_seconds,
    )
    outcomes = [] if outcomes is None else outcomes
    before = len(outcomes)
    for start in range(0, len(approved), pace.batch_size):
        batch = approved[start : start + pace.batch_size]
        objection = run.objection()
        if objection is not None:
            outcomes.extend(not_attempted(each.topic_partition, objection) for each in batch)
            continue
        journal.intend(cycle_id, batch, now(), evidence_at_ms=evidence.read_at_ms)
        try:
            settled = requester.request(
                [WantedDeletion(each.topic_partition, each.topic_id, each.offset) for each in batch]
            )
        except OtherCluster as error:
            settled = [not_attempted(each.topic_partition, str(error)) for each in batch]
            outcomes.extend(settled)
            journal.settle(cycle_id, settled, now())
            raise
        outcomes.extend(settled)
        journal.settle(cycle_id, settled, now())
    return tuple(outcomes[before:])


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
