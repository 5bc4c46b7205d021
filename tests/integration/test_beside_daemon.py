"""``explain`` and ``groups`` beside a daemon, a real process, on a real broker."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from retentiond.formatting import say_bytes
from tests.contract.real import RealDriver
from tests.support.brokers.command import Done, Process, configure, consumed
from tests.support.command_here import run_here
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker

HOURLY: dict[str, Any] = {"interval": "1h"}
NO_ENGINE = mock.patch("retentiond.daemon.engine.Engine", side_effect=AssertionError("it reads"))
"""Clients and Spark are an engine's."""

NO_CLUSTER = mock.patch(
    "retentiond.kafka.cluster.KafkaCluster", side_effect=AssertionError("it reads")
)


def test_the_daemon_answers_within_a_second_and_without_spark(
    driver: RealDriver, tmp_path: Path, topic_name: str
) -> None:
    """Until it is killed: then the cluster is read, as with --fresh."""
    group = f"readers-of-{topic_name}"
    driver.filled_topic(topic_name, {group: 7})
    configure(tmp_path, driver.broker.bootstrap_servers, topic_name, schedule=HOURLY)
    asked = ("explain", f"{topic_name}:0", "--output", "json")

    def explained(*more: str) -> Done:
        return run_here(*asked, *more, cwd=tmp_path)

    with Process("run", cwd=tmp_path) as daemon:
        daemon.await_events("retentiond.cycle")
        driver.commit(group, {(topic_name, 0): 9})
        with NO_ENGINE:
            explained()  # imports what it needs
            began = time.monotonic()
            done = explained()
            assert time.monotonic() - began < 1
        with NO_CLUSTER:
            rows = json.loads(run_here("groups", "--output", "json", cwd=tmp_path).out)
        (row,) = (row for row in rows if row["group"] == group)
        assert (row["remembered"], row["answered_by"]) == (True, "daemon")
        fresh = explained("--fresh")
        assert (done.err, fresh.err) == ("", "")
        assert (done.plan["answered_by"], done.plan["cutoff"]) == ("daemon", 7)
        assert (fresh.plan["answered_by"], fresh.plan["cutoff"]) == ("reading", 9)
        assert 0 < done.plan["age_ms"] < 600_000
        daemon.kill()
        after = explained()
    assert (after.plan["answered_by"], after.plan["cutoff"], after.err) == ("reading", 9, "")


def test_what_a_group_keeps_is_one_figure_wherever_it_is_said(
    driver: RealDriver, tmp_path: Path, topic_name: str
) -> None:
    """Ten records of an hour ago and ten of now on each of two partitions, under a retention of
    half an hour. The group has read four, so it keeps six of each."""
    group = f"readers-of-{topic_name}"
    driver.create_topic(topic_name, 2)
    for partition in range(2):
        for age_ms in (3_600_000, 0):
            driver.produce(topic_name, [driver.now_ms - age_ms] * 10, partition)
    driver.commit(group, {(topic_name, partition): 4 for partition in range(2)})
    entry = consumed(topic_name, **{"retention.commitoffset.ms": 1_800_000})
    configure(tmp_path, driver.broker.bootstrap_servers, entry, schedule=HOURLY)

    with Process("run", cwd=tmp_path) as daemon:
        daemon.await_events("retentiond.cycle")
        place = tmp_path / "state" / "history"
        written = place / "_delta_log" / f"{1:020}.json"  # 0 is the empty table's
        eventually(written.exists)
        answer = daemon.get(f"/api/groups/{group}").json()
        page = daemon.get(f"/groups/{group}").text
        explained = run_here("explain", topic_name, "--output", "json", cwd=tmp_path).plan
        table = run_here("explain", topic_name, cwd=tmp_path).out
        reported = run_here("report", "--output", "json", cwd=tmp_path).plan
        report = run_here("report", cwd=tmp_path).out

    kept_bytes = answer["kept_bytes"]
    assert (answer["kept_records"], kept_bytes > 0) == (12, True)
    (on_topic,) = explained["groups"]
    assert (on_topic["kept_records"], on_topic["kept_bytes"]) == (12, kept_bytes)
    (keeper,) = (row for row in reported["keepers"] if row["group"] == group)
    assert (keeper["records"], keeper["bytes"]) == (12, kept_bytes)
    said = say_bytes(kept_bytes)
    assert said in page
    assert any(group in line and f" {said} " in line for line in table.splitlines())
    assert "What groups keep now" in report
    assert any(group in line and f" {said} " in line for line in report.splitlines())
