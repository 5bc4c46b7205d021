"""The same plan on every kind of master, each for real."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from devkit.embedded.ports import PortReservations
from retentiond.decide.plan import decide
from retentiond.errors import SparkUnavailable
from retentiond.model import PlanRow
from retentiond.snapshot import Snapshot
from retentiond.spark.session import SparkSessions
from tests.support import oracle
from tests.support.brokers.spark_processes import (
    connect_server,
    in_a_process,
    standalone,
)
from tests.support.builders.guard_readings import Reading
from tests.support.strategies import together, worlds

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200), pytest.mark.thorough("a Spark master")]


@contextmanager
def sessions_at(master: str) -> Iterator[SparkSessions]:
    own = {} if master.startswith("sc://") else {"spark.driver.host": "127.0.0.1"}
    sessions = SparkSessions(master, own)
    try:
        yield sessions
    finally:
        sessions.stop()


def plan_at(master: str, snapshot: Snapshot) -> list[PlanRow]:
    with sessions_at(master) as sessions:
        return rows(sessions, snapshot)


def rows(sessions: SparkSessions, snapshot: Snapshot) -> list[PlanRow]:
    return [replace(row, detail=None) for row in decide(sessions, snapshot)]


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    """Forty worlds in one, the same in each run."""
    made: list[Reading] = []

    @settings(
        max_examples=60,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(worlds())
    def collect(world: Reading) -> None:
        made.append(world)

    collect()
    return together([world for world in made if not world.problems][:40]).snapshot()


def test_a_local_master_plans_as_the_oracle_does_and_leaves_no_trace(
    tmp_path: Path, snapshot: Snapshot
) -> None:
    assert in_a_process(tmp_path, plan_at, "local[2]", snapshot) == (oracle.plan(snapshot), "")


def test_a_standalone_cluster_plans_as_the_oracle_does(tmp_path: Path, snapshot: Snapshot) -> None:
    with standalone(tmp_path / "spark") as master:
        planned, stderr = in_a_process(tmp_path, plan_at, master, snapshot)

    assert planned == oracle.plan(snapshot)
    assert stderr == ""
    executors = {each.name for each in (tmp_path / "spark" / "work").glob("app-*/*")}
    assert executors == {"0", "1"}  # one of each worker


def test_a_connect_server_plans_as_the_oracle_does(tmp_path: Path, snapshot: Snapshot) -> None:
    with PortReservations() as ports, connect_server(tmp_path / "spark", port := ports.take()):
        planned, stderr = in_a_process(tmp_path, plan_at, f"sc://127.0.0.1:{port}", snapshot)

    assert planned == oracle.plan(snapshot)
    assert stderr == ""


def outlive_a_connect_server(port: int, folder: Path, snapshot: Snapshot) -> list[PlanRow]:
    """What a daemon would live through: no server, a server, none again, another."""
    with sessions_at(f"sc://127.0.0.1:{port}") as sessions:
        must_be_unavailable(sessions, snapshot, "no Spark Connect server answers")
        with connect_server(folder / "first", port) as server:
            rows(sessions, snapshot)
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
            must_be_unavailable(sessions, snapshot, "no Spark Connect server answers")
        with connect_server(folder / "second", port):
            planned = rows(sessions, snapshot)
            with sessions.use() as session:
                assert session.conf.get("spark.sql.shuffle.partitions") == "2"
    return planned


def must_be_unavailable(sessions: SparkSessions, snapshot: Snapshot, sentence: str) -> None:
    started = time.monotonic()
    with pytest.raises(SparkUnavailable, match=sentence):
        decide(sessions, snapshot)
    assert time.monotonic() - started < 30


def test_a_connect_server_may_die_and_come_back(tmp_path: Path, snapshot: Snapshot) -> None:
    folder = tmp_path / "spark"
    with PortReservations() as ports:
        planned, stderr = in_a_process(
            tmp_path, outlive_a_connect_server, ports.take(), folder, snapshot
        )

    assert planned == oracle.plan(snapshot)
    assert stderr == ""
