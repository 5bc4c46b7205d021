"""The same plans and the same answers about the past from every kind of master and place, each for
real."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from devkit.embedded.ports import PortReservations
from retentiond.cli.output import report as reported
from retentiond.config import TopicPolicy
from retentiond.decide.plan import decide
from retentiond.errors import HistoryUnavailable, SparkUnavailable
from retentiond.fields import document_of
from retentiond.history.ask.past import Past, history_at, open_past
from retentiond.history.ask.question import TopicQuestion, questions
from retentiond.history.ask.recommend import recommend, without_retention
from retentiond.history.ask.replay import Replay
from retentiond.history.ask.report import report, without_retentiond
from retentiond.history.ask.rows import LARGE_JOBS, workers_explained
from retentiond.history.ask.simulate import simulate
from retentiond.history.table import HistoryTable
from retentiond.model import PlanRow
from retentiond.snapshot import Snapshot
from retentiond.spark.session import SparkSessions
from tests.support import oracle
from tests.support.brokers.spark_processes import (
    connect_server,
    in_a_process,
    standalone,
)
from tests.support.builders.past_clusters import (
    BEGIN,
    MINUTE_MS,
    PastCluster,
    PastEntry,
    commit_row,
    deletion_row,
    group_row,
    partition_row,
)
from tests.support.object_store import SECRET, object_store
from tests.support.strategies import forty_worlds

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200), pytest.mark.thorough("a Spark master")]

BEGIN_MS = int(BEGIN.timestamp() * 1000)
HOUR_MS = 60 * MINUTE_MS
ENTRIES = 40
"""Two hours apart, so of four days: a file for each."""

RETENTION_MS = 8 * HOUR_MS
POLICY = TopicPolicy(enabled=True, consumed_retention_ms=RETENTION_MS)
TIMEOUT_S = 900.0

SETTINGS = {
    **LARGE_JOBS,
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.pyspark.python": sys.executable,
}


def rows(sessions: SparkSessions, snapshot: Snapshot) -> list[PlanRow]:
    return [replace(row, detail=None, binding_since=None) for row in decide(sessions, snapshot)]


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    return forty_worlds().snapshot()


def outlive_a_connect_server(port: int, folder: Path, snapshot: Snapshot) -> list[list[PlanRow]]:
    """What a daemon would live through: no server, a server, none again, another. The plans of
    both servers."""
    sessions = SparkSessions(f"sc://127.0.0.1:{port}", {})
    try:
        must_be_unavailable(sessions, snapshot, "no Spark Connect server answers")
        with connect_server(folder / "first", port) as server:
            planned = [rows(sessions, snapshot)]
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
            must_be_unavailable(sessions, snapshot, "no Spark Connect server answers")
        with connect_server(folder / "second", port):
            planned.append(rows(sessions, snapshot))
            with sessions.use() as session:
                assert session.conf.get("spark.sql.shuffle.partitions") == "2"
    finally:
        sessions.stop()
    return planned


def must_be_unavailable(sessions: SparkSessions, snapshot: Snapshot, sentence: str) -> None:
    started = time.monotonic()
    with pytest.raises(SparkUnavailable, match=sentence):
        decide(sessions, snapshot)
    assert time.monotonic() - started < 30


def test_a_connect_server_plans_may_die_and_come_back(tmp_path: Path, snapshot: Snapshot) -> None:
    folder = tmp_path / "spark"
    with PortReservations() as ports:
        planned, stderr = in_a_process(
            tmp_path, outlive_a_connect_server, ports.take(), folder, snapshot
        )

    assert planned == [oracle.plan(snapshot)] * 2
    assert stderr == ""


def cluster() -> PastCluster:
    """``orders`` has a reader that goes back a day, ``clicks`` one that stops and records that
    were deleted; both have two partitions."""
    entries = []
    for number in range(ENTRIES):
        rows = [
            group_row("billing", "live"),
            {
                "kind": "log_dir",
                "broker": 1,
                "log_dir": "/kafka",
                "total_bytes": 10**6,
                "usable_bytes": 10**6 - 9_000 * number,
            },
        ]
        for partition in (0, 1):
            high = (number + 1) * (100 + partition)
            back = max(0, high - 1200) if number == 30 else high
            stopped = min(high, 1500)
            start = max(0, stopped - 500)
            rows += [
                commit_row("billing", "orders", partition, back),
                commit_row("search", "clicks", partition, stopped),
                deletion_row("clicks", partition, start),
                partition_row(
                    "orders",
                    partition,
                    high_watermark=high,
                    min_committed_offset=back,
                    binding_group="billing",
                ),
                partition_row(
                    "clicks",
                    partition,
                    high_watermark=high,
                    log_start_offset=start,
                    min_committed_offset=stopped,
                    binding_group="search",
                ),
            ]
        is_whole = number % 12 == 0
        entries.append(PastEntry(2 * number * HOUR_MS, 2 * HOUR_MS, is_whole=is_whole, rows=rows))
    return PastCluster(entries)


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    with object_store("past") as url:
        place = f"{url}/history"
        cluster().write_to(place)
        yield place


def asked_of(past: Past) -> tuple[TopicQuestion, ...]:
    topics = set(past.topic_ids["topic"].to_pylist())
    return questions(topics, lambda _: POLICY, lambda _: POLICY)


def opened(master: str, place: str) -> Past:
    return open_past(history_at(place), master, BEGIN_MS, BEGIN_MS + 100 * HOUR_MS, RETENTION_MS)


def answers(sessions: SparkSessions, master: str, place: str) -> dict[str, Any]:
    """What all three questions find, as JSON."""
    past = opened(master, place)
    asked = asked_of(past)
    with sessions.use() as session:
        simulation = past.document() | document_of(simulate(Replay(past, session, asked)))
    with sessions.use() as session:
        replay = Replay(past, session, [without_retention(each) for each in asked])
        found = recommend(replay, 2, partial(Replay, past, session))
        recommendations = [document_of(each) for each in found]
    with sessions.use() as session:
        replay = Replay(past, session, [without_retentiond(each) for each in asked])
        told = json.loads(reported.json_text(report(replay)))
    return {
        "simulate": simulation,
        "recommend": recommendations,
        "report": told,
    }


class OnACluster(NamedTuple):
    """What a standalone cluster finds in the store, and plans."""

    of_store: dict[str, Any]
    planned: list[PlanRow]
    is_secret_shown: bool


def by_a_standalone_cluster(master: str, store: str, snapshot: Snapshot) -> OnACluster:
    sessions = SparkSessions(master, SETTINGS, timeout_s=TIMEOUT_S)
    try:
        return OnACluster(
            answers(sessions, master, store), rows(sessions, snapshot), is_secret_shown()
        )
    finally:
        sessions.stop()


def is_secret_shown() -> bool:
    """Whether it stands on the command line of any process."""
    return any(SECRET in " ".join(each.info["cmdline"] or ()) for each in processes())


def processes() -> list[psutil.Process]:
    return list(psutil.process_iter(["cmdline"]))


class Local(NamedTuple):
    """What a local master finds in the store; how it tells of files that are gone; and whether a
    secret stood on a command line meanwhile."""

    of_store: dict[str, Any]
    gone: str
    is_secret_shown: bool


def by_a_local_master(store: str, gone: str) -> Local:
    sessions = SparkSessions("local[2]", SETTINGS, timeout_s=TIMEOUT_S)
    try:
        return Local(
            answers(sessions, "local[2]", store),
            told_of_gone_files(sessions, gone),
            is_secret_shown(),
        )
    finally:
        sessions.stop()


def told_of_gone_files(sessions: SparkSessions, place: str) -> str:
    past = opened("local[2]", place)
    table = HistoryTable.open(place)
    table.drop({each.day for each in table.files()}, past.cluster_id)
    table.vacuum(0)
    try:
        with sessions.use() as session, workers_explained(past.table.place):
            simulate(Replay(past, session, asked_of(past)))
    except HistoryUnavailable as error:
        return str(error)
    return "nothing"


@pytest.fixture(scope="module")
def local(store: str, tmp_path_factory: pytest.TempPathFactory) -> Local:
    folder = tmp_path_factory.mktemp("local")
    cluster().write_to(f"{store}-gone")
    found, _ = in_a_process(folder, by_a_local_master, store, f"{store}-gone")
    return found


def test_a_local_master_reads_an_object_store(local: Local) -> None:
    """What is found in a folder, the oracle of the past judges (tests/property)."""
    found = local.of_store["simulate"]
    assert [each["group"] for each in found["topics"][1]["missed"]] == ["billing"] * 2
    assert found["total"]["simulated_records_deleted"] > 5000
    assert local.of_store["recommend"][1]["because"]["kind"] == "rewind"
    assert local.of_store["report"]["total"]["records_deleted"] > 0
    assert not local.is_secret_shown


@pytest.fixture(scope="module")
def cluster_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def on_a_cluster(cluster_folder: Path, store: str, snapshot: Snapshot) -> OnACluster:
    """Its two workers have the credentials in their environments."""
    with standalone(cluster_folder / "spark") as master:
        found, stderr = in_a_process(
            cluster_folder, by_a_standalone_cluster, master, store, snapshot
        )
    assert stderr == ""
    executors = {each.name for each in (cluster_folder / "spark" / "work").glob("app-*/*")}
    assert executors == {"0", "1"}  # one of each worker
    return found


def test_a_standalone_cluster_plans_as_the_oracle_does(
    on_a_cluster: OnACluster, snapshot: Snapshot
) -> None:
    assert on_a_cluster.planned == oracle.plan(snapshot)


def test_a_standalone_cluster_reads_an_object_store(
    on_a_cluster: OnACluster, cluster_folder: Path, local: Local
) -> None:
    assert on_a_cluster.of_store == local.of_store
    assert not on_a_cluster.is_secret_shown
    logs = [each for each in cluster_folder.rglob("*") if each.is_file()]
    assert not [each for each in logs if SECRET.encode() in each.read_bytes()]


def test_files_that_are_gone_are_told_without_a_secret(local: Local, store: str) -> None:
    place = f"{store}-gone".replace("s3a:", "s3:")
    assert local.gone.replace("s3a:", "s3:").startswith(
        f"a worker of Spark can't read the history in {place} ("
    )
    assert SECRET not in local.gone
    assert "\n" not in local.gone
