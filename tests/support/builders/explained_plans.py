"""A cluster in memory, what earlier cycles remember of it, and the plan that an oracle makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from retentiond.config import Config
from retentiond.disks.broker_disks import NO_DISKS, DiskReport
from retentiond.model import PlanRow, TopicPartition
from retentiond.snapshot import partitions_of
from retentiond.state.groups import GroupMemory
from retentiond.state.groups_lookup import recall
from retentiond.tell.explained_evidence import ExplainedPlan
from retentiond.tell.explained_evidence import evidence as gathered
from retentiond.tell.explanation import Explanation, TopicExplanation, explained
from tests.support import oracle
from tests.support.builders.group_memories import cycle, taken
from tests.support.builders.reports import report
from tests.support.fakes import FakeCluster


def evidence(
    kafka: FakeCluster,
    state_dir: Path,
    policy: Config | None = None,
    *,
    disk: DiskReport = NO_DISKS,
    rows: Sequence[PlanRow] | None = None,
) -> ExplainedPlan:
    """Of this moment; ``rows`` stand in for those of the oracle."""
    remembered = recall(state_dir)
    snapshot = taken(kafka, remembered, policy)
    planned = replace(report(oracle.plan(snapshot) if rows is None else rows), disk=disk)
    return gathered(kafka, planned, snapshot, remembered, partitions_of(snapshot))


def remember(kafka: FakeCluster, state_dir: Path, policy: Config | None = None) -> None:
    """What a cycle of this moment leaves behind."""
    memory = GroupMemory.open(state_dir)
    try:
        cycle(memory, kafka, policy)
    finally:
        memory.close()


def only(found: ExplainedPlan, topic: str, partition: int = 0) -> Explanation:
    (explanation,) = alone(found, topic, partition).partitions
    return explanation


def alone(found: ExplainedPlan, topic: str, partition: int = 0) -> TopicExplanation:
    """As if the topic had that partition alone."""
    return explained(found, topic, [partition])


def with_bytes(found: ExplainedPlan, predicted: int | None, size: int | None) -> ExplainedPlan:
    """Every deletion frees so much of partitions that are so large."""
    plan = found.report.plan
    rows = tuple(
        replace(row, predicted_bytes=predicted if row.records else None) for row in plan.rows
    )
    disk = DiskReport({TopicPartition(row.topic, row.partition): size for row in rows if size})
    return replace(found, report=replace(found.report, plan=replace(plan, rows=rows), disk=disk))
