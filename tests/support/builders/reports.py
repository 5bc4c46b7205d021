"""Reports of cycles that never ran, written down as plain values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from retentiond.model import (
    VERDICT_OF,
    DeletionOutcome,
    Outcome,
    Plan,
    PlanRow,
    Reason,
    TopicPartition,
)
from retentiond.tell.report import CycleReport, GroupState

PLANNED_AT_MS = 1_790_000_000_123
GROUP_STATES = {
    "archive": GroupState("classic", "empty"),
    "billing": GroupState("consumer", "live"),
    "search": GroupState("consumer", "live"),
}
SECONDS = {"gather": 0.5, "decide": 0.25, "guard": 0.125, "delete": 0.0625, "record": 0.03125}


def row(topic: str, partition: int = 0, reason: Reason = Reason.CONSUMED) -> PlanRow:
    """A partition with records 10 to 200, of which 90 can be deleted if it is `consumed`."""
    verdict = VERDICT_OF[reason]
    return PlanRow(
        topic=topic,
        partition=partition,
        topic_id=f"id-of-{topic}",
        log_start_offset=10,
        high_watermark=200,
        min_committed_offset=100,
        binding_group="billing",
        binding_committed_offset=100,
        retention_offset=150,
        cutoff=100,
        verdict=verdict,
        reason=reason,
        groups=2,
        records=90 if reason is Reason.CONSUMED else 0,
    )


def turned_down(topic: str = "orders", partition: int = 0) -> PlanRow:
    """A deletion that the guard has made a hold."""
    return replace(row(topic, partition, Reason.EVIDENCE_CHANGED), detail="a group is gone")


def unreadable(topic: str) -> PlanRow:
    """A partition of which nothing is known."""
    return replace(
        row(topic, reason=Reason.OFFSET_UNREADABLE),
        topic_id=None,
        log_start_offset=None,
        high_watermark=None,
        min_committed_offset=None,
        binding_group=None,
        binding_committed_offset=None,
        retention_offset=None,
        cutoff=None,
        detail="LEADER_NOT_AVAILABLE: the partition's leader does not answer",
    )


def outcome(topic: str, partition: int = 0, what: Outcome = Outcome.DELETED) -> DeletionOutcome:
    if what is Outcome.DELETED:
        return DeletionOutcome(topic, partition, what, low_watermark=100)
    return DeletionOutcome(topic, partition, what, error=f"why it is {what}")


def report(
    rows: Iterable[PlanRow] = (),
    outcomes: Iterable[DeletionOutcome] = (),
    *,
    problems: tuple[str, ...] = (),
    dry_run: bool = False,
    planned_at_ms: int = PLANNED_AT_MS,
    paused: str | None = None,
    guard_problems: tuple[str, ...] = (),
) -> CycleReport:
    plan = Plan(
        cycle_id="0123456789ab",
        cluster_id="cluster-a",
        planned_at_ms=planned_at_ms,
        dry_run=dry_run,
        complete=not problems,
        problems=problems,
        rows=tuple(rows),
        paused=paused,
        guard_problems=guard_problems,
    )
    by_partition = {TopicPartition(each.topic, each.partition): each for each in outcomes}
    return CycleReport(plan, by_partition, SECONDS, group_states=GROUP_STATES)
