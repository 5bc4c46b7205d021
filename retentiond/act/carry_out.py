"""Carries out a plan: slice by slice, partitions are read again, verified and deleted.
`retentiond.act.slices` cuts the plan into slices.

Invariant: every deletion is reported, whatever ends the work. An error before the first deletion is
raised. A later one is `CarriedOut.failure`, and the outcome of the remaining deletions is
"not attempted".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from threading import Event

from retentiond.act.approved import Approved, Journal
from retentiond.act.delete import (
    MAX_EVIDENCE_AGE_S,
    EvidenceAge,
    Throttling,
    execute,
    not_throttled,
)
from retentiond.act.guard import Verified, arranged, verify
from retentiond.act.slices import Estimate, Slices
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
    in_turn,
)
from retentiond.snapshot import Snapshot

MAX_UNREADABLE_SLICES = 3
"""After so many unreadable slices in a row, the remaining deletions wait for the next cycle."""


@dataclass(slots=True)
class CarriedOut:
    """The plan with the guard's holds, the outcome of each deletion, and the error that has ended
    the work early. ``evidence_ages_s``: for each slice, the age of its second reading when its last
    request went out."""

    plan: Plan
    outcomes: list[DeletionOutcome] = field(default_factory=list)
    failure: Exception | None = None
    has_begun: bool = False
    evidence_ages_s: list[float] = field(default_factory=list)

    @property
    def has_deleted(self) -> bool:
        """Whether records may be gone."""
        return any(outcome.outcome is not Outcome.NOT_ATTEMPTED for outcome in self.outcomes)

    def leave(self, rows: Iterable[PlanRow], why: str | None = None) -> None:
        self.outcomes += [
            DeletionOutcome(row.topic, row.partition, Outcome.NOT_ATTEMPTED, error=why)
            for row in rows
            if row.verdict is Verdict.DELETE
        ]

    def take_over(self, rows: Iterable[PlanRow]) -> None:
        by_partition = {row.topic_partition: row for row in rows}
        merged = (by_partition.get(row.topic_partition, row) for row in self.plan.rows)
        self.plan = replace(self.plan, rows=tuple(merged))


@dataclass(frozen=True, slots=True)
class PlanExecutor:
    """Carries out plans with the cycle's tools.

    ``begin`` records the cycle before its first deletion. ``get_ready`` does what the second
    reading of some partitions and their deletion need beside evidence, and returns the round trip
    to the brokers in seconds. ``read_again`` returns that reading. ``now`` returns epoch
    milliseconds, and ``elapsed`` returns the seconds that tell the age of evidence. ``why_paused``
    returns why nothing may be requested any more, or None. ``deleting`` is set before the first
    request. ``throttling`` tells of the brokers' quotas.
    """

    kafka: Kafka
    journal: Journal
    begin: Callable[[Plan], None]
    get_ready: Callable[[Collection[TopicPartition]], float]
    read_again: Callable[[Collection[TopicPartition]], Snapshot]
    stop: Stop
    now: Callable[[], int]
    elapsed: Callable[[], float]
    why_paused: Callable[[], object]
    deleting: Event
    times: StepTimes
    throttling: Callable[[], Throttling] = not_throttled

    def carry_out(
        self, plan: Plan, first: Snapshot, waiting: Sequence[TopicPartition]
    ) -> CarriedOut:
        """Verifies and deletes what the plan allows. ``first`` is the plan's reading. The
        ``waiting`` partitions come first.

        Rows of a trial, or of a dry run, are judged by ``first`` itself: a second reading only
        finds changes before the request, and they have none.
        """
        done = CarriedOut(plan)
        in_order = [plan.rows[position] for position in in_turn(plan.rows, waiting)]
        rows = [row for row in in_order if not (plan.dry_run or row.dry_run)]
        if on_trial := [row for row in in_order if plan.dry_run or row.dry_run]:
            with self.times.step("guard"):
                done.take_over(verify(on_trial, first, first).rows)
        slices = Slices(rows, Estimate(first))
        unreadable = 0
        while slices:
            if done.outcomes and (why := self._why_no_more()):
                done.leave(slices.rest(), why)
                break
            part = slices.take()
            try:
                with self.times.step("guard"):
                    slices.round_trip_s = self.get_ready([row.topic_partition for row in part])
                    verified, evidence = self._verified(part, first, done, slices.round_trip_s)
                unreadable = 0
            except (KafkaUnavailable, Stopped) as error:
                if not done.outcomes:
                    raise
                unreadable += 1
                done.leave(part, str(error))
                if unreadable >= MAX_UNREADABLE_SLICES or isinstance(error, Stopped):
                    done.leave(slices.rest(), str(error))
            except Exception as error:
                if not done.has_deleted:
                    raise
                done.failure = error
                done.leave((*part, *slices.rest()), str(error))
            else:
                self._request(part, verified, evidence, done, slices)
        return done

    def _request(
        self,
        part: tuple[PlanRow, ...],
        verified: Verified,
        evidence: EvidenceAge,
        done: CarriedOut,
        slices: Slices,
    ) -> None:
        """Requests the slice's approved deletions. If its evidence is already too old, the slice is
        cut into smaller ones, or left to the next cycle."""
        expected_s = evidence.age_s(self.elapsed()) + slices.round_trip_s  # the look takes one
        is_too_old = expected_s > MAX_EVIDENCE_AGE_S
        took_s = expected_s
        if is_too_old:
            slices.learn(part, expected_s)
            if slices.put_back(part):
                return
        done.take_over(verified.rows)
        if verified.approved:
            self.deleting.set()
            with self.times.step("delete"):
                age_s = self._delete(verified.approved, evidence, done)
            took_s = evidence.age_s(self.elapsed()) if age_s is None else age_s
        if is_too_old:
            done.leave(
                slices.give_up(part),
                f"reading the groups for a smaller part took {expected_s:.1f} s, longer than "
                f"{MAX_EVIDENCE_AGE_S:.1f} s{evidence.say_cause()}",
            )
        else:
            slices.learn(part, took_s)
        if done.failure is not None:
            done.leave(slices.rest(), str(done.failure))

    def _why_no_more(self) -> str | None:
        """Why nothing may be requested any more, so that reading again would be of no use."""
        if self.stop.is_set():
            return "retentiond is stopping"
        reason = self.why_paused()
        return str(reason) if reason else None

    def _verified(
        self, rows: Sequence[PlanRow], first: Snapshot, done: CarriedOut, round_trip_s: float
    ) -> tuple[Verified, EvidenceAge]:
        by_plan = arranged(rows, first)
        waits_before = self.throttling().waits
        evidence = EvidenceAge(
            self.now(), self.elapsed(), round_trip_s, self.throttling, waits_before
        )
        second = self.read_again([row.topic_partition for row in rows])
        verified = verify(rows, first, second, by_plan)
        if not second.complete:
            problems = (*done.plan.guard_problems, *second.problems, *second.hidden)
            done.plan = replace(done.plan, guard_problems=tuple(dict.fromkeys(problems)))
        return verified, evidence

    def _delete(
        self, approved: Sequence[Approved], evidence: EvidenceAge, done: CarriedOut
    ) -> float | None:
        """Deletes, and returns how old the evidence was at the last request; None if no request
        went out."""
        age_s = None
        try:
            if not done.has_begun:
                self.begin(done.plan)
                done.has_begun = True
            age_s = execute(
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
            # The known errors come before the request. Another one may come in the midst of it.
            is_before_request = isinstance(error, RetentiondError)
            outcome = Outcome.NOT_ATTEMPTED if is_before_request else Outcome.UNKNOWN
            has_outcome = {settled.topic_partition for settled in done.outcomes}
            done.outcomes += [
                DeletionOutcome(deletion.topic, deletion.partition, outcome, error=str(error))
                for deletion in approved
                if deletion.topic_partition not in has_outcome
            ]
        if age_s is not None:
            done.evidence_ages_s.append(age_s)
        return age_s


def still_waiting(
    waiting: Sequence[TopicPartition],
    rows: Iterable[PlanRow],
    outcomes: Iterable[DeletionOutcome],
) -> tuple[TopicPartition, ...]:
    """The partitions that a limit left out, or whose deletion was not attempted; those that wait
    longest come first.

    A waiting partition that is held for another reason keeps its place. A partition loses its
    place if the guard has held it, its deletion has failed, or its topic is on trial.
    """
    late = {
        outcome.topic_partition for outcome in outcomes if outcome.outcome is Outcome.NOT_ATTEMPTED
    }
    left_out = {
        row.topic_partition: row.reason
        for row in rows
        if not row.dry_run
        if row.topic_partition in late
        or (row.verdict is Verdict.HOLD and row.reason is not Reason.EVIDENCE_CHANGED)
    }
    waited_before = [partition for partition in waiting if partition in left_out]
    wait_now = [
        partition
        for partition, reason in left_out.items()
        if partition in late or reason is Reason.LIMIT_REACHED
    ]
    return tuple(dict.fromkeys((*waited_before, *wait_now)))
