"""The daemon, a real process with a real plan, on a real broker: what it does every second."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_prometheus

from retentiond.state.audit_records import read_deletions
from tests.contract.real import RealDriver
from tests.faults.held import log_start
from tests.support.audited import read_cycles
from tests.support.brokers.command import SPARK, Document, Process, configure, matching
from tests.support.command_here import run_here
from tests.support.tiers import OwnKafka
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker

END_S = 10.0

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


@pytest.fixture(scope="module")
def driver(own_kafka: OwnKafka) -> Iterator[RealDriver]:
    with own_kafka() as kafka, closing(RealDriver(kafka)) as driver:
        yield driver


@pytest.fixture(scope="module")
def folder(driver: RealDriver, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("daemon")


def configured(driver: RealDriver, folder: Path, **changes: Any) -> None:
    """Every topic of these tests is enabled."""
    servers = driver.broker.bootstrap_servers
    configure(folder, servers, matching("test-.*"), **{"dry_run": False, **changes})


@pytest.fixture(scope="module")
def daemon(driver: RealDriver, folder: Path) -> Iterator[Process]:
    """Shared: it goes on after every test."""
    configured(driver, folder)
    with Process("run", cwd=folder) as daemon:
        daemon.await_events("retentiond.cycle")
        yield daemon


@pytest.fixture
def topic(driver: RealDriver, daemon: Process, topic_name: str) -> str:
    """Ten records, of which seven are read."""
    return driver.filled_topic(topic_name, {f"readers-of-{topic_name}": 7})


def read(driver: RealDriver, topic: str, offset: int) -> None:
    driver.commit(f"readers-of-{topic}", {(topic, 0): offset})


def row(daemon: Process, topic: str) -> Document | None:
    rows = daemon.get("/api/plan").json()["partitions"]
    return next((row for row in rows if row["topic"] == topic), None)


def next_cycles(daemon: Process, count: int) -> list[Document]:
    """The cycles that begin from now on; the one under way doesn't count."""
    before = len(daemon.events("retentiond.cycle"))
    return daemon.await_events("retentiond.cycle", before + 1 + count)[before + 1 :]


def test_the_first_cycle_is_at_once_and_no_two_overlap(daemon: Process, folder: Path) -> None:
    next_cycles(daemon, 2)
    (started,) = daemon.events("retentiond.started")
    cycles = read_cycles(folder / "state")
    started_at = datetime.fromisoformat(started["timestamp"]).timestamp()
    assert cycles[0].planned_at_ms / 1000 - started_at < 1  # an interval is one second
    for one, following in pairwise(cycles):
        assert one.finished_at_ms is not None
        assert one.finished_at_ms <= following.planned_at_ms
    elapsed_s = (cycles[-1].planned_at_ms - cycles[0].planned_at_ms) / 1000
    assert len(cycles) <= elapsed_s + 2


def test_every_cycle_deletes_what_was_read_since(
    daemon: Process, driver: RealDriver, folder: Path, topic: str
) -> None:
    eventually(lambda: log_start(driver.broker, topic) == 7)
    read(driver, topic, 9)
    eventually(lambda: log_start(driver.broker, topic) == 9)
    next_cycles(daemon, 1)
    done = [each for each in read_deletions(folder / "state") if each.row.topic == topic]
    assert [(each.row.log_start_offset, each.row.cutoff, each.outcome) for each in done] == [
        (0, 7, "deleted"),
        (7, 9, "deleted"),
    ]


def test_the_audit_log_ends(driver: RealDriver, tmp_path: Path, topic_name: str) -> None:
    """Of a daemon that keeps two seconds of it; its deletions go with the cycles they belong to."""
    topic = f"of-its-own-{topic_name}"  # which the daemon that the others share leaves alone
    driver.filled_topic(topic, {f"readers-of-{topic}": 7})
    servers = driver.broker.bootstrap_servers
    configure(tmp_path, servers, topic, dry_run=False, audit={"keep": "2s"})
    state_dir = tmp_path / "state"
    with Process("run", cwd=tmp_path) as daemon:

        def deleting() -> list[dict[str, Any]]:
            return [each for each in daemon.events("retentiond.cycle") if each["records_deleted"]]

        (first,) = eventually(deleting, timeout_s=60)
        assert first["records_deleted"] == 7

        def is_gone() -> bool:
            return first["cycle_id"] not in {each.cycle_id for each in read_cycles(state_dir)}

        eventually(is_gone, timeout_s=60)
        assert [*read_deletions(state_dir)] == []
        assert daemon.events("retentiond.audit_not_pruned") == []
        assert (daemon.metric("retentiond_audit_log_bytes") or 0) > 0
    before = {each.cycle_id for each in read_cycles(state_dir)}
    ended_s = time.monotonic()
    eventually(lambda: time.monotonic() - ended_s > 2.5)  # so old is the daemon's last cycle then
    done = run_here("run", "--once", cwd=tmp_path)
    assert done.code == 0, done.err
    (last,) = read_cycles(state_dir)
    assert last.cycle_id not in before
    assert log_start(driver.broker, topic) == 7


def test_the_plan_is_served_with_its_outcomes(daemon: Process, topic: str) -> None:
    next_cycles(daemon, 1)  # one that is under way may have seen the topic, and not its reader yet
    served = row(daemon, topic)
    assert served is not None
    assert served["outcome"] in ("deleted", "not_attempted")  # the latter one cycle later
    assert served["min_committed_offset"] == 7
    assert daemon.get("/api/plan").json()["complete"] is True


def test_the_status_page_shows_what_was_deleted_and_who_reads_the_rest(
    daemon: Process, driver: RealDriver, topic: str
) -> None:
    eventually(lambda: log_start(driver.broker, topic) == 7)
    next_cycles(daemon, 1)
    assert f'href="./topics/{topic}"' in daemon.get("/").text
    page = daemon.get(f"/topics/{topic}").text
    assert f"readers-of-{topic} has yet to read them" in page
    assert "7 records, by day" in page


@pytest.mark.parametrize(
    ("accept", "parse"), [("text/plain", parse_prometheus), (OPENMETRICS, parse_openmetrics)]
)
def test_metrics_are_served_in_both_formats(
    daemon: Process,
    topic: str,
    accept: str,
    parse: Callable[[str], Iterator[object]],
) -> None:
    next_cycles(daemon, 1)  # one that is under way may have seen the topic, and not its reader yet
    (port,) = {line["port"] for line in daemon.events("retentiond.started")}
    answer = httpx.get(f"http://127.0.0.1:{port}/metrics", headers={"accept": accept})
    assert answer.headers["content-type"].startswith(accept.partition(";")[0])
    values = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in parse(answer.text)
        for sample in family.samples  # type: ignore[attr-defined]  # untyped parsers
    }
    at = (("partition", "0"), ("topic", topic))
    assert values["retentiond_high_watermark", *at] == 10
    assert values["retentiond_min_committed_offset", *at] == 7
    assert values["retentiond_records_deleted_total", ("topic", topic)] == 7
    assert values["retentiond_cycles_total", ("result", "ok")] >= 1


def test_it_lives_and_is_ready(daemon: Process) -> None:
    assert (daemon.get("/healthz").status_code, daemon.get("/healthz").text) == (200, "ok\n")
    # Where cycles take longer than three of these short intervals, that comes and goes.
    ready = eventually(lambda: daemon.get("/readyz"), lambda answer: answer.status_code == 200)
    assert ready.text == "ready\n"


def test_a_topic_that_is_deleted_leaves_no_stale_series(
    daemon: Process, driver: RealDriver, topic: str
) -> None:
    eventually(lambda: f'topic="{topic}"' in daemon.get("/metrics").text)
    driver.delete_topic(topic)
    eventually(lambda: topic not in daemon.get("/metrics").text)
    eventually(lambda: row(daemon, topic) is None)


def test_a_bad_file_is_refused_and_a_good_one_taken_over(
    daemon: Process, driver: RealDriver, folder: Path
) -> None:
    configure(folder, driver.broker.bootstrap_servers, topics=[])
    daemon.signal(signal.SIGHUP)
    (refused,) = daemon.await_events("retentiond.config_refused")
    assert "topics" in refused["error"]
    (cycle,) = next_cycles(daemon, 1)
    assert (cycle["dry_run"], cycle["result"]) == (False, "ok")

    configured(driver, folder, dry_run=True)
    daemon.signal(signal.SIGHUP)
    daemon.await_events("retentiond.config_reloaded")
    (cycle,) = next_cycles(daemon, 1)
    assert cycle["dry_run"] is True

    configured(driver, folder)
    daemon.signal(signal.SIGHUP)
    daemon.await_events("retentiond.config_reloaded", 2)
    (cycle,) = next_cycles(daemon, 1)
    assert cycle["dry_run"] is False


@pytest.mark.timeout(1200)
def test_when_the_jvm_answers_nothing_the_next_cycles_work_and_the_end_leaves_none(
    driver: RealDriver, tmp_path: Path
) -> None:
    configured(driver, tmp_path, spark=SPARK | {"timeout": "60s"})
    with Process("run", cwd=tmp_path) as daemon:
        daemon.await_events("retentiond.cycle")
        first = daemon.jvm()
        first.suspend()
        eventually(lambda: not first.is_running(), timeout_s=120)
        for cycle in next_cycles(daemon, 2):
            assert cycle["result"] == "ok"
        assert daemon.jvm() != first
        daemon.signal(signal.SIGINT)
        assert daemon.wait(END_S) == 0
        eventually(lambda: not daemon.children())
        assert daemon.log[-1]["event"] == "retentiond.stopped"
