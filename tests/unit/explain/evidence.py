"""A cluster in memory, what earlier cycles remember of it, and the plan that an oracle makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from retentiond.collect.snapshot import partitions_of
from retentiond.config import Config
from retentiond.disk.report import NO_DISKS, DiskReport
from retentiond.explain.evidence import Evidence
from retentiond.explain.evidence import evidence as gathered
from retentiond.explain.partition import Explanation, explained
from retentiond.model import PlanRow, TopicPartition
from retentiond.state.memory import Memory, recall
from tests import oracle
from tests.fakes import FakeCluster
from tests.unit.observe.reports import report
from tests.unit.state.memories import cycle, taken


def evidence(
    kafka: FakeCluster,
    state_dir: Path,
    policy: Config | None = None,
    *,
    disk: DiskReport = NO_DISKS,
    rows: Sequence[PlanRow] | None = None,
) -> Evidence:
    """Of this moment; ``rows`` stand in for those of the oracle."""
    remembered = recall(state_dir)
    snapshot = taken(kafka, remembered, policy)
    planned = replace(report(oracle.plan(snapshot) if rows is None else rows), disk=disk)
    return gathered(kafka, planned, snapshot, remembered, partitions_of(snapshot))


def remember(kafka: FakeCluster, state_dir: Path, policy: Config | None = None) -> None:
    """What a cycle of this moment leaves behind."""
    memory = Memory.open(state_dir)
    try:
        cycle(memory, kafka, policy)
    finally:
        memory.close()


def only(found: Evidence, topic: str, partition: int = 0) -> Explanation:
    (explanation,) = explained(found, topic, [partition])
    return explanation


def with_bytes(found: Evidence, predicted: int | None, size: int | None) -> Evidence:
    """Every deletion frees so much of partitions that are so large."""
    return replace(
        found,
        rows=tuple(
            replace(row, predicted_bytes=predicted if row.records else None) for row in found.rows
        ),
        disk=DiskReport(
            {}
            if size is None
            else {TopicPartition(row.topic, row.partition): size for row in found.rows}
        ),
    )
