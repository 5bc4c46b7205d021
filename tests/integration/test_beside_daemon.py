"""``explain`` and ``groups`` beside a daemon, a real process, on a real broker."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.contract.real import RealDriver
from tests.support.brokers.command import Done, Process, configure
from tests.support.command_here import run_here

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
