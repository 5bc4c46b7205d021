"""What a dry run leaves out of a cycle: the second reading and the request, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from retentiond import cycle
from retentiond.collect.census import CoordinatorWatch
from retentiond.config import Config
from retentiond.cycle import Tools, run_cycle
from retentiond.kafka.port import ListedGroup
from retentiond.model import Outcome, PlanRow, Reason, TopicPartition, Verdict
from retentiond.observe.report import CycleReport
from retentiond.plan.session import SparkSessions
from retentiond.state.state import open_state
from tests.fakes import FakeCluster
from tests.faults import plain_plan

AT = TopicPartition("orders", 0)


class Counting(FakeCluster):
    """``listings``: how often it was asked for its groups."""

    def __init__(self) -> None:
        super().__init__()
        self.listings = 0
        self.create_topic("orders", 1)
        self.produce("orders", count=10)
        self.commit("billing", {AT: 7})

    def list_groups(self) -> Sequence[ListedGroup]:
        self.listings += 1
        return super().list_groups()


@pytest.fixture
def kafka() -> Counting:
    return Counting()


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycle, "decide", plain_plan.decide)


def run(kafka: FakeCluster, folder: Path, *, dry_run: bool) -> CycleReport:
    config = Config.model_validate(
        {
            "kafka": {"bootstrap.servers": "fake:9092"},
            "state_dir": str(folder / "state"),
            "dry_run": dry_run,
            "topics": [
                {
                    "name": "orders",
                    "retention.commitoffset.enable": True,
                    "retention.commitoffset.ms": 0,
                }
            ],
        }
    )
    tools = Tools(
        kafka=kafka,
        spark=cast(SparkSessions, None),
        now=lambda: kafka.now_ms,
        stop=threading.Event(),
        coordinators=CoordinatorWatch(),
    )
    with open_state(config.state_dir) as state:
        return run_cycle(tools, config, state)


def test_it_reads_once_and_asks_for_no_deletion(kafka: Counting, tmp_path: Path) -> None:
    report = run(kafka, tmp_path, dry_run=True)
    (row,) = report.plan.rows
    assert (row.verdict, row.cutoff, row.records) == (Verdict.DELETE, 7, 7)
    assert report.outcome(row).outcome is Outcome.NOT_ATTEMPTED
    assert kafka.listings == 1
    assert kafka.partition("orders").log_start == 0


def test_what_deletes_reads_again(kafka: Counting, tmp_path: Path) -> None:
    report = run(kafka, tmp_path, dry_run=False)
    assert report.outcome(report.plan.rows[0]).outcome is Outcome.DELETED
    assert kafka.listings == 2
    assert kafka.partition("orders").log_start == 7


def test_the_guard_judges_a_dry_run_too(
    kafka: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(spark: object, snapshot: object) -> tuple[PlanRow, ...]:
        (row,) = plain_plan.decide(spark, snapshot)  # type: ignore[arg-type]  # as it is called
        return (replace(row, cutoff=8, records=8),)

    monkeypatch.setattr(cycle, "decide", wrong)
    report = run(kafka, tmp_path, dry_run=True)
    (row,) = report.plan.rows
    assert (row.verdict, row.reason) == (Verdict.HOLD, Reason.EVIDENCE_CHANGED)
    assert row.detail == (
        "by the plan's own reading, group billing has committed 7, below the cutoff 8"
    )
    assert report.outcomes == {}
