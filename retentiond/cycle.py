"""One cycle: gather, decide, act, tell."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Event
from typing import NamedTuple, Protocol

from retentiond.act.delete import execute
from retentiond.act.guard import verify
from retentiond.act.limits import once_settled, unless_paused, within_limits
from retentiond.act.reconcile import reconcile
from retentiond.collect.agreement import known_topics
from retentiond.collect.census import CoordinatorWatch
from retentiond.collect.gather import gather
from retentiond.collect.remembered import Remembered
from retentiond.collect.snapshot import Snapshot
from retentiond.config import Config
from retentiond.disk.watch import DiskWatch
from retentiond.disk_cycle import conclude, look, with_stuck
from retentiond.kafka.port import Kafka
from retentiond.model import (
    DeletionOutcome,
    Outcome,
    Plan,
    PlanRow,
    TopicPartition,
    Verdict,
)
from retentiond.observe.report import CycleReport, count_groups
from retentiond.plan.plan import decide
from retentiond.plan.session import SparkSessions
from retentiond.state.audit import Audit
from retentiond.state.kept import Kept, kept_by
from retentiond.state.state import State
from retentiond.state.summary import begun, finished
from retentiond.unread.watch import UnreadWatch


class Stop(Protocol):
    """`threading.Event`, as far as a cycle needs it."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float) -> bool: ...


class Stopped(Exception):
    """The process is asked to end; nothing was left half done."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What a cycle works with. ``now`` gives epoch milliseconds.

    ``deleting`` is set from before the first request until its outcome is recorded: the part
    of a cycle that is worth waiting for when the process is to end. ``disks`` and ``unread``
    remember what earlier cycles saw.
    """

    kafka: Kafka
    spark: SparkSessions
    now: Callable[[], int]
    stop: Stop
    coordinators: CoordinatorWatch
    deleting: Event = field(default_factory=Event)
    disks: DiskWatch = field(default_factory=DiskWatch)
    unread: UnreadWatch = field(default_factory=UnreadWatch)


@dataclass(slots=True)
class Watch:
    """Seconds spent in each step of a cycle, in the order they were walked."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - started


class Looked(NamedTuple):
    """A plan, and all that it was made from."""

    report: CycleReport
    snapshot: Snapshot
    remembered: Remembered


def plan_cycle(tools: Tools, config: Config, kept: Kept) -> Looked:
    """Gathers and decides, and touches nothing: what `retentiond plan` shows."""
    watch = Watch()
    tools.disks.begin(tools.kafka)
    with watch.step("gather"):
        snapshot = _read(tools, config, kept, tools.now())
    with watch.step("decide"):
        rows = _decide(tools, config, kept, snapshot)
        disks = look(tools.disks, snapshot, rows, kept.awaited)
    plan = _plan(config, kept, snapshot, new_cycle_id(), disks.rows)
    on_disk = replace(disks.report(), stuck=kept.stuck)
    report = CycleReport(plan, {}, count_groups(snapshot), watch.seconds, on_disk)
    return Looked(report, snapshot, kept.remembered)


def run_cycle(tools: Tools, config: Config, state: State) -> CycleReport:
    """A whole cycle. With ``dry_run`` it walks the same path and stops before the request; so the
    guard judges by the plan's own reading: a second one is about what changes until the request.

    Raises `KafkaUnavailable`, `SparkUnavailable` and `StateError` when it can't be done, and
    `Stopped` when the process is to end before anything was requested.
    """
    watch = Watch()
    cycle_id = new_cycle_id()
    kept = kept_by(state)
    tools.disks.begin(tools.kafka)
    with watch.step("gather"):
        snapshot = _read(tools, config, kept, tools.now())
    with watch.step("record"):
        state.memory.remember(snapshot, kept.remembered, config.limits.settle_cycles)
    with watch.step("decide"):
        decided = _decide(tools, config, kept, snapshot)
        disks = look(tools.disks, snapshot, decided, kept.awaited)
        rows = disks.rows
    with watch.step("guard"):
        evidence_at_ms = tools.now()
        second = _second_reading(tools, config, kept, snapshot, rows)
        verified = verify(rows, snapshot, second) if second else None
    approved = verified.approved if verified else ()
    plan = _plan(config, kept, snapshot, cycle_id, verified.rows if verified else rows)
    outcomes: tuple[DeletionOutcome, ...] = ()
    if config.dry_run:
        outcomes = tuple(
            DeletionOutcome(row.topic, row.partition, Outcome.NOT_ATTEMPTED)
            for row in plan.rows
            if row.verdict is Verdict.DELETE
        )
    elif approved:
        state.audit.record_cycle(begun(plan))
        with watch.step("delete"), _set(tools.deleting):
            outcomes = execute(
                approved,
                tools.kafka,
                state.audit,
                cycle_id=cycle_id,
                evidence_at_ms=evidence_at_ms,
                now=tools.now,
                stop=tools.stop,
                brake=state.pause,
            )
    with watch.step("record"):
        state.audit.record_cycle(finished(plan, outcomes, tools.now()))
        on_disk = conclude(disks, kept.awaited, plan, outcomes, state)
        on_disk = with_stuck(
            on_disk, tools.disks, tools.kafka, snapshot, disks, state_dir=state.state_dir
        )
        unread = tools.unread.look(tools.kafka, snapshot, plan.rows, tools.stop.is_set)
    by_partition = {TopicPartition(each.topic, each.partition): each for each in outcomes}
    groups = count_groups(snapshot)
    return CycleReport(plan, by_partition, groups, watch.seconds, on_disk, unread)


def settle_open_deletions(tools: Tools, audit: Audit) -> tuple[DeletionOutcome, ...]:
    """Reads back what earlier cycles left without a proven outcome."""
    return reconcile(audit, tools.kafka, tools.now())


def new_cycle_id() -> str:
    return uuid.uuid4().hex[:12]


def _decide(tools: Tools, config: Config, kept: Kept, snapshot: Snapshot) -> tuple[PlanRow, ...]:
    """The plan, less what a limit or an operator keeps from being done now."""
    limits = config.limits
    topics = known_topics(snapshot, kept.remembered, limits.settle_cycles)
    agreed = {name: topic.agreed for name, topic in topics.items()}
    rows = once_settled(decide(tools.spark, snapshot), agreed, limits.settle_cycles)
    return within_limits(unless_paused(rows, kept.pause), limits)


def _second_reading(
    tools: Tools, config: Config, kept: Kept, first: Snapshot, rows: Sequence[PlanRow]
) -> Snapshot | None:
    """The guard's reading of the partitions about to be deleted, for the same moment in time;
    the first one itself where nothing will be requested; None: there are none."""
    doomed = [
        TopicPartition(row.topic, row.partition) for row in rows if row.verdict is Verdict.DELETE
    ]
    if not doomed:
        return None
    return first if config.dry_run else _read(tools, config, kept, first.taken_at_ms, doomed)


def _read(
    tools: Tools,
    config: Config,
    kept: Kept,
    now_ms: int,
    only: Collection[TopicPartition] | None = None,
) -> Snapshot:
    def wait_until(instant: float) -> None:
        if tools.stop.wait(max(0.0, instant - time.monotonic())):
            raise Stopped

    return gather(
        tools.kafka,
        config,
        now_ms,
        only=only,
        watch=tools.coordinators,
        remembered=kept.remembered,
        wait_until=wait_until,
    )


@contextmanager
def _set(event: Event) -> Iterator[None]:
    event.set()
    try:
        yield
    finally:
        event.clear()


def _plan(
    config: Config, kept: Kept, snapshot: Snapshot, cycle_id: str, rows: tuple[PlanRow, ...]
) -> Plan:
    return Plan(
        cycle_id=cycle_id,
        cluster_id=snapshot.cluster_id,
        planned_at_ms=snapshot.taken_at_ms,
        dry_run=config.dry_run,
        complete=snapshot.complete,
        problems=snapshot.problems + snapshot.hidden,
        rows=rows,
        paused=str(kept.pause) if kept.pause else None,
    )
