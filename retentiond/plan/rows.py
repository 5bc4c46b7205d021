"""From Spark's answer back to names: the rows of a plan."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from retentiond.collect.snapshot import Snapshot
from retentiond.config import PolicyConflict
from retentiond.model import VERDICT_OF, PlanRow, Reason
from retentiond.plan.detail import detail

DECIDED = [
    "partition_id",
    "reason",
    "groups",
    "min_committed_offset",
    "cutoff",
    "binding_group_id",
    "binding_committed_offset",
    "records",
]
"""What a row takes of Spark's answer; from the rest of it the decision was made."""


def plan_rows(snapshot: Snapshot, decided: pa.Table) -> tuple[PlanRow, ...]:
    """The rows of `judged_partitions` with names and offsets, sorted by topic and partition."""
    told = decided.select(DECIDED).sort_by("partition_id").to_pylist()
    return tuple(_row(snapshot, row) for row in told)


def _row(snapshot: Snapshot, decided: dict[str, Any]) -> PlanRow:
    at = snapshot.partitions[decided["partition_id"]]
    topic = snapshot.topics[at.topic]
    reason = Reason(decided["reason"])
    binding = decided["binding_group_id"]
    group = None if binding is None else snapshot.groups[binding]
    is_conflict = isinstance(topic.policy, PolicyConflict)
    return PlanRow(
        topic=topic.name,
        partition=at.partition,
        topic_id=topic.topic_id,
        log_start_offset=at.log_start_offset,
        high_watermark=at.high_watermark,
        min_committed_offset=decided["min_committed_offset"],
        binding_group=group and group.group_id,
        binding_committed_offset=decided["binding_committed_offset"],
        retention_offset=None if is_conflict else at.retention_offset,
        cutoff=decided["cutoff"],
        verdict=VERDICT_OF[reason],
        reason=reason,
        groups=decided["groups"] or 0,
        records=decided["records"],
        detail=detail(snapshot, at, decided, group),
    )
