"""A whole cycle on a cluster in memory: what groups have not read is told at its end."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import cast

import pytest

from retentiond import cycle
from retentiond.config import Config
from retentiond.cycle import CycleContext, run_cycle
from retentiond.errors import KafkaUnavailable
from retentiond.gather.groups import LastCoordinators
from retentiond.model import Outcome
from retentiond.spark.session import SparkSessions
from retentiond.state.state import open_state
from retentiond.tell.report import CycleReport, figures
from tests.faults import plain_plan
from tests.support.builders.lag_logs import HOUR_MS, name
from tests.support.fakes import FakeCluster


def small() -> FakeCluster:
    """Billing keeps three records of ten alone; search has read further, audit all of them."""
    kafka = FakeCluster(brokers=1)
    kafka.create_topic("orders", 1, {"retention.ms": str(100 * HOUR_MS)})
    kafka.produce("orders", count=10, timestamp_ms=kafka.now_ms - 40 * HOUR_MS)
    for group, offset in (("billing", 4), ("search", 7), ("audit", 10)):
        kafka.commit(group, {("orders", 0): offset})
    return kafka


def run(kafka: FakeCluster, folder: Path) -> CycleReport:
    rule = {"retention.commitoffset.enable": True, "retention.commitoffset.ms": 0}
    config = Config.model_validate(
        {
            "kafka": {"bootstrap.servers": "fake:9092"},
            "state_dir": str(folder),
            "dry_run": False,
            "topics": [{"name": "orders", **rule}],
        }
    )
    context = CycleContext(
        kafka=kafka,
        spark=cast(SparkSessions, None),
        now=lambda: kafka.now_ms,
        elapsed=lambda: kafka.now_ms / 1000,
        stop=threading.Event(),
        coordinators=LastCoordinators(),
    )
    with open_state(folder) as state:
        return run_cycle(context, config, state).report


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycle, "decide", plain_plan.decide)


def test_a_cycle_tells_what_one_group_keeps_and_how_long_kafka_will(tmp_path: Path) -> None:
    found = run(small(), tmp_path).lag
    assert found.kept == {name("billing"): 3}
    assert found.margins.keys() == {name("billing"), name("search")}
    for margin in found.margins.values():
        assert 60 * 3600 * 0.95 <= margin <= 60 * 3600
    assert found.problem is None


def test_a_deletion_is_done_and_told_though_the_look_ups_fail(tmp_path: Path) -> None:
    kafka = small()
    gone = KafkaUnavailable("no broker answers")
    kafka.script.before("delete_records", lambda: kafka.script.fail_next("offsets_at", gone))
    report = run(kafka, tmp_path)
    assert [each.outcome for each in report.outcomes.values()] == [Outcome.DELETED]
    assert report.lag.kept == {name("billing"): 3}
    assert report.lag.margins == {}
    assert figures(report)["lag_problem"] == "no broker answers"
