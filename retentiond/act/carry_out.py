"""From a plan to what became of it: slice by slice, each read again, verified and deleted.

Invariant: what was deleted is told, whatever ends the work. What ends it before anything was is
raised; what comes later is `CarriedOut.failure`, and what was left has not been attempted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Event

from retentiond.act.approved import Approved, Journal
from retentiond.act.delete import MAX_EVIDENCE_AGE_S, EvidenceAge, execute
from retentiond.act.guard import Verified, arranged, verify
from retentiond.clock import StepTimes, Stop, Stopped
from retentiond.errors import KafkaUnavailable, RetentiondError
from retentiond.kafka.interface import Kafka
from retentiond.model import (
    DeletionOutcome,
    Outcome,
    Plan,
    PlanRow,
    Reason,
    TopicPartition,
    Verdict,
)
from retentiond.snapshot import Snapshot

SLICE_SIZE = 5000
"""Partitions in one request; each takes the broker 0.05 to 0.25 ms."""

READINGS = 2
"""How often a slice is read before the guard gives it up as too old."""


@dataclass(slots=True)
class CarriedOut:
    """The plan as the guard left it, what became of each deletion that it approved, and what has
    ended it too soon."""

    plan: Plan
    outcomes: list[DeletionOutcome] = field(default_factory=list)
    failure: Exception | None = None

    @property
    def has_deleted(self) -> bool:
        """Or may have."""
        return any(each.outcome is not Outcome.NOT_ATTEMPTED for each in self.outcomes)


@dataclass(frozen=True, slots=True)
class PlanExecutor:
    """What a plan is carried out with.

    ``begin`` records the cycle before its first deletion. ``read_again`` gives the second reading
    of some partitions. ``now`` gives epoch milliseconds, ``elapsed`` the seconds that evidence
    grows old by. ``why_paused``: why nothing is requested any more, or None. ``deleting`` is set
    from before the first request until its outcome is recorded.
    """

    kafka: Kafka
    journal: Journal
    begin: Callable[[Plan], None]
    read_again: Callable[[Collection[TopicPartition]], Snapshot]
    stop: Stop
    now: Callable[[], int]
    elapsed: Callable[[], float]
    why_paused: Callable[[], object]
    deleting: Event
    times: StepTimes

    def carry_out(
        self, plan: Plan, first: Snapshot, waiting: Sequence[TopicPartition]
    ) -> CarriedOut:
        """``first`` is what the plan was made from; those that are ``waiting`` have the first turn.

        A dry run is judged as a whole by ``first`` itself: a second reading is about what changes
        until the request.
        """
        done = CarriedOut(plan)
        size = len(plan.rows) if plan.dry_run else SLICE_SIZE
        for part in _slices(in_turn(plan.rows, waiting), size):
            if done.failure is not None:
                done.outcomes += _not_attempted(part, str(done.failure))
                continue
            try:
                with self.times.step("guard"):
                    verified, evidence = self._verified(part, first, done)
            except (KafkaUnavailable, Stopped) as error:
                if not done.outcomes:
                    raise
                done.outcomes += _not_attempted(part, str(error))
                continue
            except Exception as error:
                if not done.has_deleted:
                    raise
                done.failure = error
                done.outcomes += _not_attempted(part, str(error))
                continue
            done.plan = replace(done.plan, rows=_with(done.plan.rows, verified.rows))
            if plan.dry_run:
                done.outcomes += _not_attempted(verified.rows)
            elif verified.approved:
                with self.times.step("delete"), _set(self.deleting):
                    self._delete(verified.approved, evidence, done)
        return done

    def _verified(
        self, rows: Sequence[PlanRow], first: Snapshot, done: CarriedOut
    ) -> tuple[Verified, EvidenceAge]:
        """What the guard says of those deletions. A reading that is too old already, because it
        took so long or the process stood still, is done once more."""
        if done.plan.dry_run:
            return verify(rows, first, first), EvidenceAge(self.now(), self.elapsed())
        by_plan = arranged(rows, first)
        for _ in range(READINGS):
            evidence = EvidenceAge(self.now(), self.elapsed())
            second = self.read_again([row.topic_partition for row in rows])
            verified = verify(rows, first, second, by_plan)
            if self.elapsed() - evidence.read_at_seconds <= MAX_EVIDENCE_AGE_S:
                break
        if not second.complete:
            problems = (*done.plan.guard_problems, *second.problems, *second.hidden)
            done.plan = replace(done.plan, guard_problems=tuple(dict.fromkeys(problems)))
        return verified, evidence

    def _delete(
        self, approved: Sequence[Approved], evidence: EvidenceAge, done: CarriedOut
    ) -> None:
        try:
            if not done.outcomes:
                self.begin(done.plan)
            execute(
                approved,
                self.kafka,
                self.journal,
                cycle_id=done.plan.cycle_id,
                evidence=evidence,
                now=self.now,
                elapsed=self.elapsed,
                stop=self.stop,
                why_paused=self.why_paused,
                outcomes=done.outcomes,
            )
        except Exception as error:
            if not done.has_deleted:
                raise
            done.failure = error
            # Only what nobody has foreseen comes amid a request, and then nobody knows.
            is_foreseen = isinstance(error, RetentiondError)
            what = Outcome.NOT_ATTEMPTED if is_foreseen else Outcome.UNKNOWN
            told = {each.topic_partition for each in done.outcomes}
            done.outcomes += [
                DeletionOutcome(each.topic, each.partition, what, error=str(error))
                for each in approved
                if each.topic_partition not in told
            ]


def in_turn(rows: Iterable[PlanRow], waiting: Sequence[TopicPartition]) -> list[PlanRow]:
    """Those that are ``waiting`` first, in their order; then the others in theirs."""
    turns = {partition: turn for turn, partition in enumerate(waiting)}
    return sorted(rows, key=lambda row: turns.get(row.topic_partition, len(turns)))


def still_waiting(
    waiting: Sequence[TopicPartition],
    rows: Iterable[PlanRow],
    outcomes: Iterable[DeletionOutcome],
) -> tuple[TopicPartition, ...]:
    """Who was left out by a limit, or because its batch came too late, the longest first.

    Whoever is held for another reason keeps its place; whom the guard has turned down, or whose
    deletion failed, has had its turn.
    """
    late = {each.topic_partition for each in outcomes if each.outcome is Outcome.NOT_ATTEMPTED}
    left_out = {
        row.topic_partition: row.reason
        for row in rows
        if row.topic_partition in late
        or (row.verdict is Verdict.HOLD and row.reason is not Reason.EVIDENCE_CHANGED)
    }
    before = [partition for partition in waiting if partition in left_out]
    now = [
        partition
        for partition, reason in left_out.items()
        if partition in late or reason is Reason.LIMIT_REACHED
    ]
    return tuple(dict.fromkeys((*before, *now)))


def _slices(rows: Sequence[PlanRow], size: int) -> Iterator[tuple[PlanRow, ...]]:
    """The deletions among them, so many at a time. Each slice is read anew right before it goes
    out, so that the evidence of each is young."""
    deletions = [row for row in rows if row.verdict is Verdict.DELETE]
    for start in range(0, len(deletions), max(1, size)):
        yield tuple(deletions[start : start + size])


def _with(rows: Iterable[PlanRow], changed: Iterable[PlanRow]) -> tuple[PlanRow, ...]:
    """The same rows, some of them as the guard left them."""
    by_partition = {row.topic_partition: row for row in changed}
    return tuple(by_partition.get(row.topic_partition, row) for row in rows)


def _not_attempted(rows: Iterable[PlanRow], why: str | None = None) -> list[DeletionOutcome]:
    return [
        DeletionOutcome(row.topic, row.partition, Outcome.NOT_ATTEMPTED, error=why)
        for row in rows
        if row.verdict is Verdict.DELETE
    ]


@contextmanager
def _set(event: Event) -> Iterator[None]:
    event.set()
    try:
        yield
    finally:
        event.clear()
