"""What one cycle leaves behind: the immutable view that log, metrics, page and API show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from retentiond.collect.snapshot import ABSENT, VANISHED, GroupReading, Snapshot
from retentiond.model import DeletionOutcome, Outcome, Plan, PlanRow, TopicPartition, Verdict

STEPS = ("gather", "decide", "guard", "delete", "record")


@dataclass(frozen=True, slots=True)
class GroupCount:
    """How many groups there are of a kind in a state: live, empty, vanished or unreadable."""

    kind: str
    state: str
    count: int


@dataclass(frozen=True, slots=True)
class CycleReport:
    """A cycle that got as far as a plan.

    ``outcomes`` has one for each row that the guard approved; empty after `plan`.
    ``seconds`` by step of `STEPS`, those that were walked.
    """

    plan: Plan
    outcomes: Mapping[TopicPartition, DeletionOutcome]
    groups: tuple[GroupCount, ...]
    seconds: Mapping[str, float]

    def outcome(self, row: PlanRow) -> DeletionOutcome:
        """What became of a row; no request went out for one that has no outcome."""
        key = TopicPartition(row.topic, row.partition)
        return self.outcomes.get(key, DeletionOutcome(*key, Outcome.NOT_ATTEMPTED))

    def is_deleted(self, row: PlanRow) -> bool:
        return self.outcome(row).outcome is Outcome.DELETED

    @property
    def failed(self) -> tuple[DeletionOutcome, ...]:
        """Deletions that failed, or of which nobody knows."""
        unclear = (Outcome.FAILED, Outcome.UNKNOWN)
        return tuple(each for each in self.outcomes.values() if each.outcome in unclear)

    @property
    def result(self) -> str:
        """``ok`` or ``incomplete``: whether the evidence about groups was complete."""
        return "ok" if self.plan.complete else "incomplete"

    @property
    def records_deleted(self) -> int:
        return sum(row.records for row in self.plan.rows if self.is_deleted(row))


def count_groups(snapshot: Snapshot) -> tuple[GroupCount, ...]:
    """The cluster's groups by kind and state; names that only a policy mentions don't count."""
    counts = Counter(
        (str(group.kind), _state(group)) for group in snapshot.groups if group.state != ABSENT
    )
    return tuple(GroupCount(*key, count) for key, count in sorted(counts.items()))


def _state(group: GroupReading) -> str:
    if group.failure or group.trouble:
        return "unreadable"
    if group.state == VANISHED:
        return "vanished"
    return "live" if group.is_live else "empty"


def document(report: CycleReport, *, with_outcomes: bool) -> dict[str, Any]:
    """The plan as ``--output json`` and ``/api/plan`` give it."""
    plan = report.plan
    return {
        "cycle_id": plan.cycle_id,
        "cluster_id": plan.cluster_id,
        "planned_at": rfc3339(plan.planned_at_ms),
        "dry_run": plan.dry_run,
        "complete": plan.complete,
        "problems": list(plan.problems),
        "paused": plan.paused,
        "partitions": [
            row_document(row) | (_outcome(report.outcome(row)) if with_outcomes else {})
            for row in plan.rows
        ],
    }


def figures(report: CycleReport) -> dict[str, Any]:
    """The canonical log line's key-values."""
    rows = report.plan.rows
    verdicts = Counter(row.verdict for row in rows)
    outcomes = Counter(each.outcome for each in report.outcomes.values())
    return {
        "cycle_id": report.plan.cycle_id,
        "result": report.result,
        "dry_run": report.plan.dry_run,
        "topics": len({row.topic for row in rows}),
        "partitions": len(rows),
        "groups": sum(group.count for group in report.groups),
        **{verdict.value: verdicts[verdict] for verdict in Verdict},
        "holds": dict(Counter(row.reason for row in rows if row.verdict is Verdict.HOLD)),
        "records_planned": sum(row.records for row in rows),
        "records_deleted": report.records_deleted,
        "deletions": {outcome.value: count for outcome, count in sorted(outcomes.items())},
        "seconds": {step: round(spent, 3) for step, spent in report.seconds.items()},
        **({"problems": list(report.plan.problems)} if report.plan.problems else {}),
        **({"paused": report.plan.paused} if report.plan.paused else {}),
    }


def rfc3339(epoch_ms: int) -> str:
    at = datetime.fromtimestamp(epoch_ms / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def row_document(row: PlanRow) -> dict[str, Any]:
    """A partition of the plan in JSON's terms, under the names that every output uses."""
    return {
        "topic": row.topic,
        "partition": row.partition,
        "topic_id": row.topic_id,
        "log_start_offset": row.log_start_offset,
        "high_watermark": row.high_watermark,
        "min_committed_offset": row.min_committed_offset,
        "binding_group": row.binding_group,
        "binding_committed_offset": row.binding_committed_offset,
        "retention_offset": row.retention_offset,
        "cutoff": row.cutoff,
        "verdict": row.verdict.value,
        "reason": row.reason.value,
        "groups": row.groups,
        "records": row.records,
        "detail": row.detail,
    }


def _outcome(outcome: DeletionOutcome) -> dict[str, Any]:
    return {
        "outcome": outcome.outcome.value,
        "low_watermark": outcome.low_watermark,
        "error": outcome.error,
    }
