"""A real Prometheus scrapes a real daemon on a real broker: metrics, alerts and dashboard."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.contract.real import RealDriver
from tests.faults.held import Held
from tests.support.brokers.command import Process, configure, write
from tests.support.dashboard import choices, everything_chosen, marks, queries
from tests.support.prometheus import DEPLOYED, Prometheus, running_prometheus, tool
from tests.support.tiers import OwnKafka
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker

HOUR_MS = 3_600_000

SLOW_S = 120
"""How long a busy machine may take to show what a cycle and a scrape have found."""


@pytest.fixture(scope="module")
def driver(own_kafka: OwnKafka) -> Iterator[RealDriver]:
    with own_kafka(tiered=True) as kafka, closing(RealDriver(kafka)) as driver:
        yield driver


@pytest.fixture(scope="module", autouse=True)
def topics(driver: RealDriver) -> None:
    """What there is before the daemon comes.

    - orders: billing alone keeps three records, search has read further, audit all.
    - late: half an hour is left until Kafka's retention takes what nobody has read.
    - lost: that time has passed an hour ago.
    - kept: nothing is read, and Kafka keeps it for ever.
    - tiered: it may have records in remote storage.
    - left: the daemon sees its only group, and then the group vanishes.
    """
    for topic, age_h, retention_h in (
        ("orders", 0, 24.0),
        ("late", 2.5, 3.0),
        ("lost", 2, 1.0),
        ("kept", 2, None),
    ):
        retention_ms = -1 if retention_h is None else int(retention_h * HOUR_MS)
        # A record of now after an older one begins a segment.
        segments = {"segment.ms": "60000"} if topic == "lost" else {}
        driver.create_topic(topic, 1, {"retention.ms": str(retention_ms), **segments})
        driver.produce(topic, [int(driver.now_ms - age_h * HOUR_MS)] * 10)
        if segments:  # where a log is empty, nothing is unread
            driver.produce(topic, [driver.now_ms])
    for_ever = {"retention.ms": "-1"}
    driver.filled_topic("tiered", config={"remote.storage.enable": "true", **for_ever})
    driver.filled_topic("left", {"leaver": 1}, config=for_ever)
    for group, offset in (("billing", 4), ("search", 7), ("audit", 10)):
        driver.commit(group, {("orders", 0): offset})
    for topic in ("late", "lost", "kept", "tiered"):
        driver.commit("billing", {(topic, 0): 0})


@pytest.fixture(scope="module")
def daemon(
    driver: RealDriver, topics: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("daemon")
    """Any disk is under pressure that is not nearly empty. A team owns ``left``."""
    at_once = {
        "retention.commitoffset.enable": True,
        "retention.commitoffset.ms": 0,
        "retention.commitoffset.pressure.ms": 0,
    }
    of_team = {"owner": "team", "topics": [{"name": "left", **at_once}]}
    write(folder / "team.yaml", of_team)
    configure(
        folder,
        driver.broker.bootstrap_servers,
        {"pattern": ".*", **at_once},
        dry_run=False,
        policies="team.yaml",
        disk_pressure={"below_free": "98%", "until_free": "99%"},
        schedule={"interval": "2s"},
        metrics={"cluster": "tests", "partitions": False},
    )
    with Held("nowhere", "run", cwd=folder) as daemon:
        daemon.await_events("retentiond.cycle")
        driver.delete_group("leaver")
        yield daemon


@pytest.fixture(scope="module")
def prometheus(daemon: Process, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    (started,) = daemon.events("retentiond.started")
    folder = tmp_path_factory.mktemp("prometheus")
    with running_prometheus(folder, f"127.0.0.1:{started['port']}") as prometheus:
        yield prometheus


def test_promtool_s_linter_accepts_what_is_served(daemon: Process) -> None:
    text = daemon.get("/metrics").text
    done = subprocess.run(
        [tool("promtool"), "check", "metrics"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "\nprocess_resident_memory_bytes " in text
    assert "\nretentiond_state_dir_usable_bytes " in text
    assert 'retentiond_forced_retention_seconds{topic="late"} 10800.0' in text
    assert 'retentiond_group_last_commit_timestamp_seconds{group="billing"}' in text
    assert 'retentiond_group_live{group="billing"} 0.0' in text


def test_an_alert_fires_where_unread_records_are_lost(prometheus: Prometheus) -> None:
    def firing() -> set[tuple[str, str]]:
        return {
            (alert["labels"]["topic"], alert["labels"]["group"])
            for alert in prometheus.get("alerts")["alerts"]
            if alert["labels"]["alertname"] == "RetentiondUnreadRecordsLost"
            and alert["state"] == "firing"
        }

    a_minute_s = 60  # so long it is pending
    assert eventually(firing, timeout_s=a_minute_s + SLOW_S) == {("lost", "billing")}


def test_every_rule_is_loaded_and_evaluated_without_an_error(prometheus: Prometheus) -> None:
    def health() -> set[str]:
        return {
            rule["health"] for group in prometheus.get("rules")["groups"] for rule in group["rules"]
        }

    assert eventually(health, lambda found: "unknown" not in found, timeout_s=SLOW_S) == {"ok"}
    loaded = {group["file"] for group in prometheus.get("rules")["groups"]}
    assert loaded == {str(DEPLOYED / name) for name in ("recording_rules.yml", "alerts.yml")}


@pytest.mark.parametrize(("title", "expr"), list(queries()), ids=[title for title, _ in queries()])
def test_every_query_of_the_dashboard_returns_data(
    prometheus: Prometheus, title: str, expr: str
) -> None:
    asked = everything_chosen(expr)
    assert re.search(r"\$", asked) is None
    eventually(lambda: prometheus.query(asked), timeout_s=SLOW_S)


@pytest.mark.parametrize(("name", "expr"), list(marks()), ids=[name for name, _ in marks()])
def test_what_happens_is_marked_on_the_dashboard(
    prometheus: Prometheus, driver: RealDriver, name: str, expr: str
) -> None:
    """The daemon was started a minute or two ago, and deletes now; nobody has paused it."""
    driver.commit("billing", {("orders", 0): 5})
    asked = f"max_over_time(({everything_chosen(expr)})[10m:1s])"
    if name == "Pauses":
        assert prometheus.query(asked) == []
    else:
        found = eventually(lambda: prometheus.query(asked), timeout_s=SLOW_S)
        assert [set(each["metric"]) for each in found] == [{"instance"}]


@pytest.mark.parametrize(
    ("name", "label", "of"), list(choices()), ids=[name for name, *_ in choices()]
)
def test_every_variable_of_the_dashboard_has_a_choice(
    prometheus: Prometheus, name: str, label: str, of: str
) -> None:
    wanted = {"job": {"retentiond"}, "cluster": {"tests"}}.get(name, set())

    def found() -> set[str]:
        return set(prometheus.get(f"label/{label}/values", **{"match[]": everything_chosen(of)}))

    assert eventually(found, timeout_s=SLOW_S) >= wanted
