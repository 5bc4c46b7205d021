"""A cycle's line in the audit log, from its plan and outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from retentiond.model import DeletionOutcome, Outcome, Plan, TopicPartition, Verdict
from retentiond.state.records import CycleRecord


def begun(plan: Plan) -> CycleRecord:
    """Before the first deletion is asked for."""
    verdicts = Counter(row.verdict for row in plan.rows)
    return CycleRecord(
        cycle_id=plan.cycle_id,
        cluster_id=plan.cluster_id,
        planned_at_ms=plan.planned_at_ms,
        dry_run=plan.dry_run,
        complete=plan.complete,
        partitions=len(plan.rows),
        to_delete=verdicts[Verdict.DELETE],
        held=verdicts[Verdict.HOLD],
    )


def finished(plan: Plan, outcomes: Sequence[DeletionOutcome], finished_at_ms: int) -> CycleRecord:
    """When every outcome is known as far as it can be."""
    counts = Counter(each.outcome for each in outcomes)
    deleted = {
        TopicPartition(each.topic, each.partition)
        for each in outcomes
        if each.outcome is Outcome.DELETED
    }
    return replace(
        begun(plan),
        finished_at_ms=finished_at_ms,
        result="ok" if plan.complete else "incomplete",
        deleted=counts[Outcome.DELETED],
        failed=counts[Outcome.FAILED],
        not_attempted=counts[Outcome.NOT_ATTEMPTED],
        unknown=counts[Outcome.UNKNOWN],
        records_deleted=sum(
            row.records for row in plan.rows if (row.topic, row.partition) in deleted
        ),
    )
