"""What a cycle tells beside its deletions: the bytes on disk, what is stuck, and the groups' lag.

Invariant: none of it decides anything. It comes after the last request, so it can't delay one, and
whatever goes wrong here is told and holds nothing up. (What a deletion would free is worked out by
`retentiond.disks.of_cycle` before that, where `limits` ask for it.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from retentiond.disks.broker_disks import BrokerDisks, DiskReport
from retentiond.disks.freed import PendingFree, with_new_deletions
from retentiond.disks.of_cycle import DisksOfCycle, unforeseen
from retentiond.fields import rfc3339
from retentiond.kafka.interface import Kafka
from retentiond.model import DeletionOutcome, Outcome, Plan, PlanRow
from retentiond.snapshot import Snapshot
from retentiond.state.audit import Audit
from retentiond.state.state import Kept, KeptFile
from retentiond.tell.figures.group_answers import LagReport
from retentiond.tell.figures.margins import LagReader


def after_acting(
    disks: BrokerDisks,
    lag: LagReader,
    kafka: Kafka,
    snapshot: Snapshot,
    *,
    disks_of_cycle: DisksOfCycle,
    report: DiskReport,
    kept_file: KeptFile,
    is_stopping: Callable[[], bool],
) -> tuple[DiskReport, LagReport]:
    """What only Kafka can tell, so it comes last. ``report``: what `conclude` said of the disks; it
    is returned with what is stuck, which is written down for other commands."""
    if not is_stopping():
        try:
            report = replace(report, stuck=disks.stuck(kafka, snapshot, disks_of_cycle.reading))
            if report.stuck or disks.can_tell:
                when = f"as the daemon saw it at {rfc3339(snapshot.taken_at_ms)}"
                kept_file.keep(
                    stuck=tuple(
                        replace(stuck, sentence=f"{stuck.sentence} ({when})")
                        for stuck in report.stuck
                    )
                )
        except Exception as error:  # noqa: BLE001 - see the invariant
            report = replace(report, problems=(*report.problems, unforeseen(error)))
    return report, lag.report(kafka, snapshot, disks_of_cycle.rows, is_stopping)


def conclude(
    disks: DisksOfCycle,
    kept: Kept,
    plan: Plan,
    outcomes: Iterable[DeletionOutcome],
    audit: Audit,
) -> tuple[DiskReport, tuple[PendingFree, ...]]:
    """Records what the deletions are to free, and what earlier ones have freed. Returns what is
    awaited, too. ``plan``: as it was carried out. ``kept``: by the cycle before."""
    report, awaited = disks.report(), kept.awaited
    became = {outcome.topic_partition: outcome.outcome for outcome in outcomes}
    rows = [row for row in disks.rows if row.topic_partition in became]
    deleted = [row for row in rows if became[row.topic_partition] is Outcome.DELETED]
    try:
        followed = with_new_deletions(disks.followed, _awaited(deleted, disks, plan))
        if not plan.dry_run:
            audit.record_predicted(plan.cycle_id, rows)
        audit.record_freed(followed.settled)
        awaited = followed.awaited
    except Exception as error:  # noqa: BLE001 - see the invariant
        report = replace(report, problems=(*report.problems, unforeseen(error)))
    return report, awaited


def _awaited(done: Sequence[PlanRow], disks: DisksOfCycle, plan: Plan) -> list[PendingFree]:
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
        for key, predicted in disks.predictions.get(row.topic_partition, {}).items()
        if row.topic_id is not None
        and row.log_start_offset is not None
        and row.cutoff is not None
        and row.high_watermark is not None
        and (size_bytes := disks.reading.size_of(key)) is not None
    ]
