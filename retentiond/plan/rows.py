"""From Spark's answer back to names: the rows of a plan."""

from __future__ import annotations

import pyarrow as pa

from retentiond.collect.snapshot import Snapshot
from retentiond.config import PolicyConflict
from retentiond.model import VERDICT_OF, PlanRow
from retentiond.plan.decided import Decided, decided_rows
from retentiond.plan.detail import detail


def plan_rows(snapshot: Snapshot, judged: pa.Table) -> tuple[PlanRow, ...]:
    """The rows of `judged_partitions` with names and offsets, sorted by topic and partition."""
    return tuple(_row(snapshot, row) for row in decided_rows(judged))


def _row(snapshot: Snapshot, decided: Decided) -> PlanRow:
    at = snapshot.partitions[decided.partition_id]
    topic = snapshot.topics[at.topic]
    binding = decided.binding_group_id
    group = None if binding is None else snapshot.groups[binding]
    is_conflict = isinstance(topic.policy, PolicyConflict)
    return PlanRow(
        topic=topic.name,
        partition=at.partition,
        topic_id=topic.topic_id,
        log_start_offset=at.log_start_offset,
        high_watermark=at.high_watermark,
        min_committed_offset=decided.min_committed_offset,
        binding_group=None if group is None else group.group_id,
        binding_committed_offset=decided.binding_committed_offset,
        retention_offset=None if is_conflict else at.retention_offset,
        cutoff=decided.cutoff,
        verdict=VERDICT_OF[decided.reason],
        reason=decided.reason,
        groups=decided.groups or 0,
        records=decided.records,
        detail=detail(snapshot, at, decided, group),
    )
