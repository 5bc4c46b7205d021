"""A cycle's side of the disks: what deletions will free, what they have freed, what is stuck.

Invariant: none of it decides anything, and whatever goes wrong here is told and holds nothing up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from retentiond.collect.snapshot import Snapshot, partitions_of
from retentiond.disk.awaited import Awaited, Followed, Now, follow, then_await
from retentiond.disk.predictions import Predictions, predict, with_predictions
from retentiond.disk.reading import DiskReading
from retentiond.disk.report import DiskReport
from retentiond.disk.watch import DiskWatch
from retentiond.errors import RetentiondError
from retentiond.kafka.port import Kafka
from retentiond.model import DeletionOutcome, Outcome, Plan, PlanRow, TopicPartition
from retentiond.state.awaited import write_awaited
from retentiond.state.state import State
from retentiond.state.stuck import write_stuck


@dataclass(frozen=True, slots=True)
class Disks:
    """What a cycle knows of the disks before it deletes. ``rows``: with their predicted bytes."""

    rows: tuple[PlanRow, ...]
    reading: DiskReading = field(default_factory=DiskReading)
    followed: Followed = field(default_factory=Followed)
    predictions: Predictions = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def report(self) -> DiskReport:
        """As far as it is known without looking for what is stuck."""
        sizes = {at: self.reading.size_bytes(at) for at in self.reading.folders}
        return DiskReport(
            size_bytes={at: size for at, size in sizes.items() if size is not None},
            freed_bytes=self.followed.freed_by_topic,
            orphans=self.reading.orphans,
            log_bytes=self.reading.log_bytes,
            problems=self.problems,
        )


def look(
    watch: DiskWatch, snapshot: Snapshot, rows: Sequence[PlanRow], awaited: Sequence[Awaited]
) -> Disks:
    """What the reading, begun beside the snapshot's, has found; it waits a moment at most.

    ``awaited``: of earlier deletions.
    """
    try:
        reading = watch.look(snapshot)
        followed = follow(awaited, reading, _offsets(snapshot), snapshot.taken_at_ms)
        predictions = predict(rows, snapshot, reading, followed.awaited_bytes)
        rows_with_bytes = with_predictions(rows, predictions)
        return Disks(rows_with_bytes, reading, followed, predictions, reading.problems)
    except Exception as error:  # noqa: BLE001 - see the invariant
        return Disks(tuple(rows), followed=Followed(tuple(awaited)), problems=(_unforeseen(error),))


def conclude(
    disks: Disks,
    before: Sequence[Awaited],
    plan: Plan,
    outcomes: Iterable[DeletionOutcome],
    state: State,
) -> DiskReport:
    """After the deletions: records what earlier ones have freed, and what is awaited of these;
    ``before``: what was awaited when the cycle began."""
    report = disks.report()
    deleted = {
        TopicPartition(each.topic, each.partition)
        for each in outcomes
        if each.outcome is Outcome.DELETED
    }
    rows = [row for row in plan.rows if (row.topic, row.partition) in deleted]
    try:
        followed = then_await(disks.followed, _awaited(rows, disks, plan))
        state.audit.record_freed(followed.settled)
        if followed.awaited != before:
            write_awaited(state.state_dir, followed.awaited)
    except Exception as error:  # noqa: BLE001 - see the invariant
        return replace(report, problems=(*report.problems, _unforeseen(error)))
    return report


def with_stuck(
    report: DiskReport,
    watch: DiskWatch,
    kafka: Kafka,
    snapshot: Snapshot,
    disks: Disks,
    *,
    state_dir: Path,
) -> DiskReport:
    """The same with the partitions whose retention stands still, which are written down for other
    commands. It may ask Kafka, so it comes last in a cycle."""
    try:
        report = replace(report, stuck=watch.stuck(kafka, snapshot, disks.reading))
        if report.stuck or watch.can_tell:
            write_stuck(state_dir, report.stuck, snapshot.taken_at_ms)
    except Exception as error:  # noqa: BLE001 - see the invariant
        return replace(report, problems=(*report.problems, _unforeseen(error)))
    return report


def _offsets(snapshot: Snapshot) -> Mapping[TopicPartition, Now]:
    found: dict[TopicPartition, Now] = {}
    for at, each in zip(partitions_of(snapshot), snapshot.partitions, strict=True):
        topic_id = snapshot.topics[each.topic].topic_id
        start, end = each.log_start_offset, each.high_watermark
        if topic_id is not None and start is not None and end is not None:
            found[at] = Now(topic_id, start, end)
    return found


def _awaited(done: Sequence[PlanRow], disks: Disks, plan: Plan) -> list[Awaited]:
    """What these deletions are to free, replica by replica, where that is known."""
    return [
        Awaited(
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
        for key, predicted in disks.predictions.get(
            TopicPartition(row.topic, row.partition), {}
        ).items()
        if row.topic_id is not None
        and row.log_start_offset is not None
        and row.cutoff is not None
        and row.high_watermark is not None
        and (size_bytes := disks.reading.size_of(key)) is not None
    ]


def _unforeseen(error: Exception) -> str:
    if isinstance(error, RetentiondError):
        return str(error)
    return f"what is on disk can't be told ({type(error).__name__}: {error}); please report this"
