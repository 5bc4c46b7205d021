"""One cycle: gather, remember, decide, verify, delete, tell."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Event
from typing import NamedTuple

from retentiond.act.carry_out import CarriedOut, PlanExecutor, still_waiting
from retentiond.act.delete import Throttling, not_throttled
from retentiond.after_acting import after_acting, conclude
from retentiond.clock import (
    ClockChanges,
    StepTimes,
    Stop,
    Stopped,
    Uptime,
    elapsed_ms,
    seconds_since_boot,
    uptime,
)
from retentiond.config import Config
from retentiond.decide.limits import (
    Wait,
    if_worthwhile,
    in_order,
    once_settled,
    unless_paused,
    waits,
    within_limits,
)
from retentiond.decide.plan import decide
from retentiond.decide.pressure import relief, relieved
from retentiond.disks.broker_disks import BrokerDisks, DiskReport
from retentiond.disks.freed import PendingFree
from retentiond.disks.of_cycle import read_disks
from retentiond.disks.pressure import NO_PRESSURE, LogDirRelief, Pressure
from retentiond.gather.gather import gather, gather_again, get_ready
from retentiond.gather.groups import LastCoordinators
from retentiond.gather.offsets import under_pressure
from retentiond.history.entries import FinishedCycle
from retentiond.kafka.interface import Kafka
from retentiond.memory.changes import Changes, changes
from retentiond.memory.recall import recalled
from retentiond.memory.remembered import Remembered
from retentiond.model import Outcome, Plan, PlanRow, Reason, TopicPartition, in_turn, result_of
from retentiond.snapshot import Snapshot
from retentiond.spark.session import SparkSessions
from retentiond.state.audit_records import cycle_record
from retentiond.state.state import LastComplete, State, StoredState, stored_state_of
from retentiond.tell.figures.coverage import CoverageReader
from retentiond.tell.figures.group_answers import LagReport
from retentiond.tell.figures.margins import LagReader
from retentiond.tell.figures.standing import standing
from retentiond.tell.reasons import tool_options
from retentiond.tell.report import CycleReport, group_states
from retentiond.tell.unseen_readers import unseen_readers


@dataclass(frozen=True, slots=True)
class CycleContext:
    """What a cycle works with. ``now`` gives epoch milliseconds, ``elapsed`` seconds, by which the
    age of evidence is measured. ``superseded`` says why decisions under a configuration no longer
    hold, or None. ``throttling`` tells of the brokers' quotas.

    ``deleting`` is set before a cycle's first request, until the cycle is over. Such a cycle is
    worth waiting for when the process is to end: it has yet to record outcomes, and the bytes that
    brokers are about to free. ``coordinators``, ``disks``, ``lag`` and ``coverage``
    remember what earlier cycles saw.
    """

    kafka: Kafka
    spark: SparkSessions
    now: Callable[[], int]
    stop: Stop
    coordinators: LastCoordinators
    deleting: Event = field(default_factory=Event)
    disks: BrokerDisks = field(default_factory=BrokerDisks)
    lag: LagReader = field(default_factory=LagReader)
    coverage: CoverageReader = field(default_factory=CoverageReader)
    elapsed: Callable[[], float] = seconds_since_boot
    superseded: Callable[[Config], str | None] = lambda _config: None
    throttling: Callable[[], Throttling] = not_throttled

    def uptime(self) -> Uptime:
        return Uptime(uptime().boot_id, round(1000 * self.elapsed()))

    def wait_until(self, instant: float) -> None:
        """Sleeps until a `time.monotonic` instant. Raises `Stopped` when the process is to end."""
        if self.stop.wait(max(0.0, instant - time.monotonic())):
            raise Stopped("retentiond is stopping")


class CycleEnd(NamedTuple):
    """What a whole cycle leaves: to be told, and to be kept in the history."""

    report: CycleReport
    finished: FinishedCycle


class PlannedCycle(NamedTuple):
    report: CycleReport
    snapshot: Snapshot
    remembered: Remembered


def plan_cycle(context: CycleContext, config: Config, stored: StoredState) -> PlannedCycle:
    """Gathers and decides, and touches nothing: what `retentiond plan` shows."""
    times = StepTimes()
    with times.step("gather"):
        snapshot = _read(context, config, stored.remembered)
        disk_pressure = _disk_pressure(context, config, stored, snapshot)
        pressure = _with_offsets(context, config, snapshot, disk_pressure)
    with times.step("decide"):
        changed = changes(snapshot, stored.remembered, config.limits.settle_cycles)
        decided = _decided(context, config, stored, changed, snapshot, pressure=pressure)
        plan, snapshot = decided.plan, decided.snapshot
        disks = read_disks(context.disks, snapshot, plan.rows, stored.kept.awaited)
    report = CycleReport(
        replace(plan, rows=disks.rows),
        {},
        times.seconds,
        replace(_with_pressure(disks.report(), decided.relief, pressure), stuck=stored.kept.stuck),
        tool_options=tool_options(config.kafka),
        group_states=group_states(snapshot),
    )
    return PlannedCycle(report, snapshot, stored.remembered)


def run_cycle(context: CycleContext, config: Config, state: State) -> CycleEnd:
    """A whole cycle. With ``dry_run`` it walks the same path and stops before the request.

    Raises `KafkaUnavailable`, `SparkUnavailable` and `StateError` when it can't be done, and
    `Stopped` when the process is to end before anything was requested. What ends it later is the
    report's ``failure``."""
    times = StepTimes()
    stored = stored_state_of(state)
    began_s = context.elapsed()
    clock = ClockChanges(lambda: context.now() / 1000, context.elapsed)
    with times.step("gather"):
        snapshot = _read(context, config, stored.remembered)
        read_s = context.elapsed() - began_s
        # Before it is remembered: of millions of commits that takes longer than a reading is good.
        disk_pressure = _disk_pressure(context, config, stored, snapshot)
    with times.step("record"):
        changed = _remember(config, state, stored, snapshot)
    with times.step("gather"):
        pressure = _with_offsets(context, config, snapshot, disk_pressure)
    with times.step("decide"):
        decided = _decided(context, config, stored, changed, snapshot, pressure=pressure)
        plan, snapshot = decided.plan, decided.snapshot
    executor = _executor(
        context, config, state, stored, changed, first=snapshot, clock=clock, times=times
    )
    done = executor.carry_out(plan, snapshot, decided.turns)  # verifies and deletes
    with times.step("record"):
        with _told_if_deleted(done):
            ended = cycle_record(done.plan, done.outcomes, context.now(), done.failure)
            state.audit.record_cycle(ended)
        disks = read_disks(context.disks, snapshot, done.plan.rows, stored.kept.awaited)
        disk, awaited = conclude(disks, stored.kept, done.plan, done.outcomes, state.audit)
        with _told_if_deleted(done):
            _keep(state, done, pressure, awaited, decided)
        disk, lag = after_acting(
            context.disks,
            context.lag,
            context.kafka,
            snapshot,
            disks_of_cycle=disks,
            report=disk,
            kept_file=state.kept_file,
            is_stopping=context.stop.is_set,
        )
    report = replace(
        _report(config, snapshot, done, rows=disks.rows, lag=lag, times=times),
        disk=_with_pressure(disk, decided.relief, pressure),
        standing=standing(snapshot, changed.applied(stored.remembered.readers)),
        coverage=context.coverage.coverage(config, snapshot),
        clock_skew_ms=snapshot.clock_skew_ms,
    )
    return CycleEnd(report, _finished(report, snapshot, read_s, context.elapsed() - began_s))


def _report(
    config: Config,
    snapshot: Snapshot,
    done: CarriedOut,
    *,
    rows: tuple[PlanRow, ...],
    lag: LagReport,
    times: StepTimes,
) -> CycleReport:
    return CycleReport(
        replace(done.plan, rows=rows),
        {outcome.topic_partition: outcome for outcome in done.outcomes},
        times.seconds,
        lag=lag,
        tool_options=tool_options(config.kafka),
        failure=done.failure,
        group_states=group_states(snapshot),
        unseen=unseen_readers(snapshot.visible_topics, snapshot.groups).evidence,
        unnamed_readers=snapshot.unnamed_readers,
        evidence_ages_s=tuple(done.evidence_ages_s),
    )


def _finished(
    report: CycleReport, snapshot: Snapshot, read_s: float, took_s: float
) -> FinishedCycle:
    return FinishedCycle(
        report.plan,
        report.outcomes,
        report.result,
        snapshot,
        report.disk,
        read_ms=math.ceil(1000 * read_s),
        took_ms=round(1000 * took_s),
    )


def _read(context: CycleContext, config: Config, remembered: Remembered) -> Snapshot:
    """The cluster as it is, and what earlier cycles saw of it."""
    snapshot = gather(
        context.kafka,
        config,
        context.now(),
        coordinators=context.coordinators,
        cluster_id=remembered.cluster_id,
        remembered_topics=remembered.topic_names(),
        once_listed=lambda: context.disks.begin(context.kafka),
        wait_until=context.wait_until,
    )
    return recalled(snapshot, remembered)


def _remember(config: Config, state: State, stored: StoredState, snapshot: Snapshot) -> Changes:
    """On disk before anything is deleted on its account."""
    observed_ms = state.memory.observed_ms(config.schedule.interval_ms)
    changed = changes(snapshot, stored.remembered, config.limits.settle_cycles, observed_ms)
    state.memory.remember(changed, stored.remembered)
    return changed


def _disk_pressure(
    context: CycleContext, config: Config, stored: StoredState, snapshot: Snapshot
) -> Pressure:
    if config.disk_pressure is None:
        return NO_PRESSURE
    return context.disks.pressure(
        snapshot,
        config.disk_pressure,
        stored.kept.under_pressure,
        stored.kept.awaited,
        stored.kept.recent_disks,
    )


def _with_pressure(
    disk: DiskReport, log_dirs: tuple[LogDirRelief, ...] | None, pressure: Pressure
) -> DiskReport:
    problems = disk.problems if pressure.problem is None else (*disk.problems, pressure.problem)
    return replace(disk, relief=log_dirs, problems=problems)


def _with_offsets(
    context: CycleContext, config: Config, snapshot: Snapshot, pressure: Pressure
) -> Pressure:
    """The pressure with what it takes to delete sooner on its account."""
    wanted = pressure.partitions(snapshot) if config.heeds_pressure else []
    if not any(log_dir.needed_bytes for log_dir in pressure.log_dirs) or not wanted:
        return pressure
    return replace(pressure, eager=under_pressure(snapshot, context.kafka, wanted))


class Decision(NamedTuple):
    """``snapshot``: with the retentions that the plan was made by. ``turns``: the partitions that
    come first, in this order; the others follow in the plan's. ``waits``: for how long partitions
    could have gone, as of ``waits_as_of``."""

    plan: Plan
    snapshot: Snapshot
    relief: tuple[LogDirRelief, ...] | None
    turns: tuple[TopicPartition, ...]
    waits: tuple[Wait, ...]
    waits_as_of: Uptime


def _decided(
    context: CycleContext,
    config: Config,
    stored: StoredState,
    changed: Changes,
    snapshot: Snapshot,
    *,
    pressure: Pressure,
) -> Decision:
    """The plan, less what a limit or an operator keeps from being done now."""

    def settled(rows: tuple[PlanRow, ...]) -> tuple[PlanRow, ...]:
        return once_settled(rows, changed.agreed, config.limits.settle_cycles)

    decided = decide(context.spark, snapshot)
    wanted = settled(decided)
    eager_rows = None if pressure.eager is None else settled(decide(context.spark, pressure.eager))
    kept = stored.kept
    turns = kept.waiting
    if pressure.log_dirs:
        wanted, snapshot, most_first = relieved(wanted, snapshot, eager_rows or wanted, pressure)
        turns = tuple(dict.fromkeys((*turns, *most_first)))
    as_of = context.uptime()
    waiting: tuple[Wait, ...] = ()
    limits = config.limits
    if limits.worthwhile is not None or limits.has_any:
        soon = {row.topic_partition: row for row in decided}  # what is yet to settle gets a turn
        going = [
            soon[row.topic_partition] if row.reason is Reason.LIMIT_REACHED else row
            for row in wanted
        ]
        frees = read_disks(context.disks, snapshot, going, kept.awaited).frees
        if limits.worthwhile is not None:
            passed_ms = elapsed_ms(kept.waits_as_of, as_of)
            waiting = waits(wanted, kept.waits, passed_ms, snapshot.taken_at_ms)
            wanted = if_worthwhile(wanted, limits.worthwhile, frees, waiting)
        turns = tuple(dict.fromkeys((*turns, *in_order(wanted, limits, frees, kept.failed))))
    rows = within_limits(unless_paused(wanted, stored.pause), limits, turns)
    may_go = None if rows == wanted else wanted
    relieved_log_dirs = (
        None
        if config.disk_pressure is None
        else relief(rows, snapshot, pressure, may_go, eager_rows or ())
    )
    if config.dry_run:  # only now: limits and pressure are shown as they would work
        rows = tuple(replace(row, dry_run=True) for row in rows)
    plan = Plan(
        cycle_id=uuid.uuid4().hex[:12],
        cluster_id=snapshot.cluster_id,
        planned_at_ms=snapshot.taken_at_ms,
        dry_run=config.dry_run,
        complete=snapshot.complete,
        problems=snapshot.problems + snapshot.hidden,
        rows=rows,
        paused=str(stored.pause) if stored.pause else None,
    )
    return Decision(plan, snapshot, relieved_log_dirs, turns, waiting, as_of)


def _executor(
    context: CycleContext,
    config: Config,
    state: State,
    stored: StoredState,
    changed: Changes,
    *,
    first: Snapshot,
    clock: ClockChanges,
    times: StepTimes,
) -> PlanExecutor:
    """``changed``: what the ``first`` reading changes in the memory. ``clock`` tells how the host's
    clock was set since right before that reading."""
    remembered = stored.remembered

    def read_again(partitions: Collection[TopicPartition]) -> Snapshot:
        """For the same moment in time. Readers that only this reading shows, of whatever topic, are
        remembered before anything is deleted, and count from then on."""
        nonlocal remembered
        about = remembered.about({partition.topic for partition in partitions})
        second = gather_again(
            context.kafka,
            config,
            context.now(),
            first,
            frozenset(partitions),
            coordinators=context.coordinators,
            cluster_id=about.cluster_id,
            wait_until=context.wait_until,
        )
        second = recalled(second, about, remembered.readers)
        remembered = state.memory.remember_newcomers(second, changed.new, remembered)
        return second

    return PlanExecutor(
        kafka=context.kafka,
        journal=state.audit,
        begin=lambda plan: state.audit.record_cycle(cycle_record(plan)),
        get_ready=lambda partitions: get_ready(
            context.kafka, context.coordinators, partitions, wait_until=context.wait_until
        ),
        read_again=read_again,
        stop=context.stop,
        now=context.now,
        elapsed=context.elapsed,
        why_paused=lambda: state.pause() or context.superseded(config) or _clock_set(clock),
        deleting=context.deleting,
        times=times,
        throttling=context.throttling,
    )


def _clock_set(clock: ClockChanges) -> str | None:
    """Why ages that were judged by the host's clock no longer count."""
    ahead_s = clock.ahead_s()
    if not ahead_s:
        return None
    how_far = f"{abs(ahead_s):.1f} s {'forward' if ahead_s > 0 else 'back'}"
    return f"the host's clock was set {how_far} meanwhile; the next cycle decides by it"


@contextmanager
def _told_if_deleted(done: CarriedOut) -> Iterator[None]:
    """Raises what fails, unless something was deleted: that is to be told all the same."""
    try:
        yield
    except Exception as error:
        if not done.has_deleted:
            raise
        done.failure = done.failure or error


def _keep(
    state: State,
    done: CarriedOut,
    pressure: Pressure,
    awaited: tuple[PendingFree, ...],
    decided: Decision,
) -> None:
    kept, plan = state.kept_file.kept, done.plan
    waiting, last = kept.waiting, kept.last_complete
    if not plan.dry_run:
        rows = [plan.rows[position] for position in in_turn(plan.rows, decided.turns)]
        waiting = still_waiting(waiting, rows, done.outcomes)
    became = {outcome.topic_partition: outcome.outcome for outcome in done.outcomes}
    deleted = {at for at, outcome in became.items() if outcome is Outcome.DELETED}
    failed = {at for at, outcome in became.items() if outcome in (Outcome.FAILED, Outcome.UNKNOWN)}
    without_request = {
        row.topic_partition
        for row in plan.rows
        if became.get(row.topic_partition, Outcome.NOT_ATTEMPTED) is Outcome.NOT_ATTEMPTED
    }
    failed |= without_request.intersection(kept.failed)
    if result_of(plan, done.outcomes, done.failure) == "ok":
        last = LastComplete(plan.cluster_id, plan.planned_at_ms)
    state.kept_file.keep(
        waiting=waiting,
        awaited=awaited,
        under_pressure=pressure.remembered,
        recent_disks=kept.recent_disks if pressure.recent is None else pressure.recent,
        last_complete=last,
        waits=tuple(wait for wait in decided.waits if wait.topic_partition not in deleted),
        waits_as_of=decided.waits_as_of if decided.waits else None,
        failed=tuple(sorted(failed)),
    )
