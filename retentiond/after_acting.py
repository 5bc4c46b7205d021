"""What a cycle tells beside its deletions: the bytes on disk, what is stuck, and the groups' lag.

Invariant: none of it decides anything. It comes after the last request, so it can't delay one, and
whatever goes wrong here is told and holds nothing up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from retentiond.clock import uptime
from retentiond.disks.broker_disks import BrokerDisks, DiskReport
from retentiond.disks.freed import (
    FreedProgress,
    PendingFree,
    follow,
    offsets_of,
    with_new_deletions,
)
from retentiond.disks.log_dirs import DiskReading, LogDirKey
from retentiond.disks.predictions import Predictions, Remote, predict, with_predictions, with_remote
from retentiond.errors import RetentiondError
from retentiond.kafka.interface import Kafka
from retentiond.model import DeletionOutcome, Outcome, Plan, PlanRow, TopicPartition
from retentiond.snapshot import Snapshot
from retentiond.state.state import State, read_space, write_awaited, write_space, write_stuck
from retentiond.tell.figures.group_answers import LagReport
from retentiond.tell.lag.margins import LagReader


class AfterActing(NamedTuple):
    """``rows``: the plan's, with their predicted bytes."""

    rows: tuple[PlanRow, ...]
    disk: DiskReport
    lag: LagReport


def after_acting(
    disks: BrokerDisks,
    lag: LagReader,
    kafka: Kafka,
    snapshot: Snapshot,
    plan: Plan,
    *,
    outcomes: Sequence[DeletionOutcome],
    awaited: Sequence[PendingFree],
    state: State,
    is_stopping: Callable[[], bool],
) -> AfterActing:
    """``plan``, as it was carried out; ``awaited``: of earlier deletions, when the cycle began."""
    found = read_disks(disks, snapshot, plan.rows, awaited)
    report = conclude(found, awaited, plan, outcomes, state)
    if not is_stopping():  # it may wait for Kafka
        report = with_stuck(report, disks, kafka, snapshot, found, state_dir=state.state_dir)
    return AfterActing(found.rows, report, lag.report(kafka, snapshot, found.rows, is_stopping))


@dataclass(frozen=True, slots=True)
class DisksOfCycle:
    """What a cycle knows of the disks. ``rows``: with their predicted bytes."""

    rows: tuple[PlanRow, ...]
    reading: DiskReading = field(default_factory=DiskReading)
    followed: FreedProgress = field(default_factory=FreedProgress)
    predictions: Predictions = field(default_factory=dict)
    remote: Mapping[TopicPartition, Remote | None] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def report(self) -> DiskReport:
        """The report, without what a look for stuck partitions would find."""
        sizes = {at: self.reading.size_bytes(at) for at in self.reading.folders}
        return DiskReport(
            size_bytes={at: size for at, size in sizes.items() if size is not None},
            remote_bytes={
                at: None if log is None else log.size_bytes for at, log in self.remote.items()
            },
            freed_bytes=self.followed.freed_by_topic,
            orphans=self.reading.orphans,
            log_bytes=self.reading.log_bytes,
            topic_bytes=self.reading.topic_bytes,
            space=self.reading.space,
            log_dirs=self.reading.log_dirs(),
            problems=self.problems,
        )


def read_disks(
    disks: BrokerDisks, snapshot: Snapshot, rows: Sequence[PlanRow], awaited: Sequence[PendingFree]
) -> DisksOfCycle:
    """What the reading, begun beside the snapshot's, has found; it waits a moment at most.

    ``awaited``: of earlier deletions.
    """
    try:
        reading = disks.reading(snapshot)
        followed = follow(awaited, reading, offsets_of(snapshot), snapshot.taken_at_ms)
        predictions = predict(rows, snapshot, reading, followed.awaited_bytes)
        remote = disks.remote(snapshot, reading)
        rows_with_bytes = with_remote(with_predictions(rows, predictions), remote, predictions)
        # A tiered log's disks lose bytes to local.retention.* all the time: what a deletion has
        # freed there can't be told.
        predictions = {at: each for at, each in predictions.items() if at not in remote}
        return DisksOfCycle(
            rows_with_bytes, reading, followed, predictions, remote, reading.problems
        )
    except Exception as error:  # noqa: BLE001 - see the invariant
        return DisksOfCycle(
            tuple(rows), followed=FreedProgress(tuple(awaited)), problems=(_unforeseen(error),)
        )


def conclude(
    found: DisksOfCycle,
    before: Sequence[PendingFree],
    plan: Plan,
    outcomes: Iterable[DeletionOutcome],
    state: State,
) -> DiskReport:
    """Records what the deletions are to free, what earlier ones have freed, and what they have
    yet to free. ``before``: what was awaited when the cycle began."""
    report = found.report()
    became = {each.topic_partition: each.outcome for each in outcomes}
    rows = [row for row in found.rows if row.topic_partition in became]
    deleted = [row for row in rows if became[row.topic_partition] is Outcome.DELETED]
    try:
        followed = with_new_deletions(found.followed, _awaited(deleted, found, plan))
        if not plan.dry_run:
            state.audit.record_predicted(plan.cycle_id, rows)
        state.audit.record_freed(followed.settled)
        if followed.awaited != before:
            write_awaited(state.state_dir, followed.awaited)
    except Exception as error:  # noqa: BLE001 - see the invariant
        return replace(report, problems=(*report.problems, _unforeseen(error)))
    return report


def with_stuck(
    report: DiskReport,
    disks: BrokerDisks,
    kafka: Kafka,
    snapshot: Snapshot,
    found: DisksOfCycle,
    *,
    state_dir: Path,
) -> DiskReport:
    """The same with the partitions whose retention stands still, which are written down for other
    commands. It may ask Kafka, so it comes last in a cycle."""
    try:
        report = replace(report, until_full_s=_until_full_s(disks, found.reading, state_dir))
        report = replace(report, stuck=disks.stuck(kafka, snapshot, found.reading))
        if report.stuck or disks.can_tell:
            write_stuck(state_dir, report.stuck, snapshot.taken_at_ms)
    except Exception as error:  # noqa: BLE001 - see the invariant
        return replace(report, problems=(*report.problems, _unforeseen(error)))
    return report


def _until_full_s(
    disks: BrokerDisks, reading: DiskReading, state_dir: Path
) -> Mapping[LogDirKey, float]:
    """For `DiskReport`. The readings of the space are stored whenever there are new ones."""
    history, now = disks.space_history, uptime()
    if history.readings is None:
        history.readings = read_space(state_dir, now.boot_id)
    before = history.readings
    until_full_s = history.seconds_until_full(reading.space, now.ms)
    if history.readings != before:
        write_space(state_dir, now.boot_id, history.readings)
    return until_full_s


def _awaited(done: Sequence[PlanRow], found: DisksOfCycle, plan: Plan) -> list[PendingFree]:
    """What these deletions are to free, replica by replica, where that is known."""
    return [
        PendingFree(
            cycle_id=plan.cycle_id,
            replica=key,
            topic_id=row.topic_id,
            log_start_offset=row.log_start_offset,
            cutoff=row.cutoff,
            predicted_bytes=predicted,
            size_bytes=size_bytes,
            end_offset=row.high_watermark,
            asked_at_ms=plan.planned_at_ms,
        )
        for row in done
        for key, predicted in found.predictions.get(row.topic_partition, {}).items()
        if row.topic_id is not None
        and row.log_start_offset is not None
        and row.cutoff is not None
        and row.high_watermark is not None
        and (size_bytes := found.reading.size_of(key)) is not None
    ]


def _unforeseen(error: Exception) -> str:
    if isinstance(error, RetentiondError):
        return str(error)
    return f"what is on disk can't be told ({type(error).__name__}: {error}); please report this"
