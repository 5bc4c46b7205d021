"""The main job and each kind of group, on every release that is tested.

``scripts/versions`` runs this file on all of them, and makes a table of what came out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from devkit.embedded import EmbeddedKafka
from devkit.witness.words import BY_HAND
from retentiond.model import Commit, Failure, GroupKind
from retentiond.spark.session import SparkSessions
from tests.contract.real import TIMEOUT_S, RealDriver, share_consumer
from tests.faults.held import Held, log_start
from tests.support.brokers.command import configure, write
from tests.support.brokers.cycles import Retentiond, deleted_up_to, told
from tests.support.brokers.java_clients import consuming, copying
from tests.support.command_here import run_here
from tests.support.releases import (
    COUNTS,
    EARLY_CONSUMER_GROUPS,
    NEWEST,
    OLDEST,
    TESTED,
    Release,
    chosen,
)
from tests.support.waiting import eventually
from tests.support.witnessed import CONFIGURED

pytestmark = pytest.mark.broker

RECORDS = 10

COMMITTED = 7

STREAMS = pytest.mark.thorough("Java clients")

KINDS = [
    *(
        pytest.param(release, kind, marks=STREAMS if kind is GroupKind.STREAMS else ())
        for release in chosen()
        for kind in release.kinds
    ),
    *([(EARLY_CONSUMER_GROUPS, GroupKind.CONSUMER)] if chosen() == TESTED else []),
]

COMMANDS = (OLDEST,) if chosen() == TESTED else chosen()
"""These commands have tests of their own on the newest release."""

on_commands = pytest.mark.parametrize("release", COMMANDS, indirect=True, ids=str)

on_looks = pytest.mark.parametrize(
    "release", (NEWEST, OLDEST) if chosen() == TESTED else chosen(), indirect=True, ids=str
)
"""What they say is held to a fake cluster (tests/unit/cli)."""


@pytest.fixture
def driver(any_kafka: EmbeddedKafka) -> Iterator[RealDriver]:
    with closing(RealDriver(any_kafka)) as made:
        yield made


@pytest.fixture
def read_topic(driver: RealDriver, topic_name: str) -> Iterator[str]:
    """Ten records, of which a group has read seven."""
    hourly = {"segment.ms": "3600000"}
    yield driver.filled_topic(topic_name, {topic_name: COMMITTED}, config=hourly)
    driver.delete_group(topic_name)


@pytest.mark.spark
def test_the_main_job(
    driver: RealDriver, spark: SparkSessions, read_topic: str, tmp_path: Path
) -> None:
    report = Retentiond(driver.kafka, tmp_path, read_topic, spark=spark).cycle()

    assert (report.result, report.plan.problems) == ("ok", ())
    assert deleted_up_to(report, read_topic) == log_start(driver.broker, read_topic) == COMMITTED


@pytest.fixture
def retentiond(driver: RealDriver, topic_name: str, tmp_path: Path) -> Retentiond:
    """At work on a topic that is empty."""
    driver.create_topic(topic_name)
    return Retentiond(driver.kafka, tmp_path, topic_name)


@pytest.mark.parametrize(("release", "kind"), KINDS, indirect=["release"], ids=str)
def test_a_group_of_each_kind(
    release: Release, kind: GroupKind, driver: RealDriver, retentiond: Retentiond, topic_name: str
) -> None:
    counts = release.kinds[kind] is COUNTS
    match kind:
        case GroupKind.SHARE:
            _share(driver, retentiond, topic_name, counts=counts)
        case GroupKind.STREAMS:
            _streams(driver, retentiond, topic_name)
        case _:
            _consume(driver, retentiond, topic_name, kind, counts=counts)


def _consume(
    driver: RealDriver, retentiond: Retentiond, topic: str, kind: GroupKind, *, counts: bool
) -> None:
    """A live member, before its first commit and after it; another group has read everything."""
    driver.produce(topic, [driver.now_ms] * RECORDS)
    driver.commit(f"{topic}-other", {(topic, 0): RECORDS})
    with _member(driver, topic, kind) as commit:
        held = told(retentiond.cycle(), topic)
        assert (held.verdict, held.reason) == (
            "hold",
            "group_without_commit" if counts else "group_unreadable",
        )
        assert topic in (held.sentence or "")
        assert log_start(driver.broker, topic) == 0
        commit(COMMITTED)
        assert deleted_up_to(retentiond.cycle(), topic) == (COMMITTED if counts else None)
        assert log_start(driver.broker, topic) == (COMMITTED if counts else 0)


def _member(
    driver: RealDriver, topic: str, kind: GroupKind
) -> AbstractContextManager[Callable[[int], None]]:
    """It has read something. The block gets a function that commits an offset."""
    if kind is GroupKind.CONSUMER and driver.broker.version < "4":
        return consuming(driver.broker, topic, topic)  # librdkafka joins from 4.0 on
    return _librdkafka(driver, topic, kind)


@contextmanager
def _librdkafka(driver: RealDriver, topic: str, kind: GroupKind) -> Iterator[Callable[[int], None]]:
    consumer = Consumer(
        {
            "bootstrap.servers": driver.broker.bootstrap_servers,
            "group.id": topic,
            "group.protocol": kind.value,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    try:
        consumer.subscribe([topic])
        eventually(lambda: consumer.poll(0.05))

        def commit(offset: int) -> None:
            consumer.commit(offsets=[ConfluentPartition(topic, 0, offset)], asynchronous=False)

        yield commit
    finally:
        consumer.close()


def _share(driver: RealDriver, retentiond: Retentiond, topic: str, *, counts: bool) -> None:
    """A group that has acknowledged what there was, and ended."""
    earliest = ConfigEntry(
        "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
    )
    of_group = ConfigResource(ConfigResource.Type.GROUP, topic, incremental_configs=[earliest])
    admin = driver.broker.admin()
    admin.incremental_alter_configs([of_group])[of_group].result(TIMEOUT_S)
    # What it has acknowledged moves its start offset with what it acknowledges next.
    with share_consumer(driver.broker.bootstrap_servers, topic) as consumer:
        consumer.subscribe([topic])
        for records in (COMMITTED, RECORDS - COMMITTED):
            driver.produce(topic, [driver.now_ms] * records)
            given = 0
            while given < records:
                given += len(eventually(lambda: consumer.poll(0.1)))
            consumer.commit_sync(TIMEOUT_S)
    eventually(
        lambda: _offsets(driver.kafka.share_offsets([topic])[topic]),
        lambda offsets: offsets == [COMMITTED] or not counts,
    )
    report = retentiond.cycle()
    if counts:
        assert deleted_up_to(report, topic) == log_start(driver.broker, topic) == COMMITTED
    else:
        assert told(report, topic).reason == "group_unreadable"
        assert log_start(driver.broker, topic) == 0


def _offsets(commits: Sequence[Commit] | Failure) -> list[int | None]:
    return [] if isinstance(commits, Failure) else [commit.offset for commit in commits]


def _streams(driver: RealDriver, retentiond: Retentiond, topic: str) -> None:
    """An application that has read what there was, and ended."""
    driver.create_topic(f"{topic}-copy")
    driver.produce(topic, [driver.now_ms] * COMMITTED)
    folder = retentiond.config.state_dir.parent
    with copying(driver.broker, topic, topic, f"{topic}-copy", folder):
        eventually(
            lambda: _offsets(driver.kafka.commits([topic])[topic]),
            lambda offsets: offsets == [COMMITTED],
        )
    driver.produce(topic, [driver.now_ms] * (RECORDS - COMMITTED))
    report = retentiond.cycle()
    assert deleted_up_to(report, topic) == log_start(driver.broker, topic) == COMMITTED


@on_looks
def test_the_first_look(driver: RealDriver, read_topic: str, tmp_path: Path) -> None:
    """And a plan with the configuration that it writes."""
    servers = driver.broker.bootstrap_servers
    look = ("--consumed-retention", "1ms", "--write-config", "retentiond.yaml")
    looks = run_here("plan", "--bootstrap-server", servers, *look, "--output", "json", cwd=tmp_path)
    plans = run_here("plan", "--output", "json", cwd=tmp_path)

    for done in (looks, plans):
        assert (done.code, done.err) == (0, "")
        (row,) = (each for each in done.plan["partitions"] if each["topic"] == read_topic)
        assert (row["cutoff"], row["records"]) == (COMMITTED, COMMITTED)
        # The configuration lets what would free too little wait.
        assert row["reason"] == ("consumed" if done is looks else "not_worthwhile")
    (topic,) = (each for each in looks.plan["topics"] if each["topic"] == read_topic)
    assert topic["size_bytes"] > 0
    assert log_start(driver.broker, read_topic) == 0


@pytest.fixture
def config(driver: RealDriver, read_topic: str, tmp_path: Path) -> Path:
    return configure(tmp_path, driver.broker.bootstrap_servers, read_topic, dry_run=False)


@on_looks
def test_explain(driver: RealDriver, read_topic: str, config: Path, tmp_path: Path) -> None:
    done = run_here("explain", f"{read_topic}:0", "--config", config, cwd=tmp_path)

    assert done.code == 0
    assert "delete: consumed" in done.out
    assert "Traceback" not in done.err


@on_commands
def test_the_doctor(release: Release, config: Path, tmp_path: Path) -> None:
    done = run_here("doctor", "--config", config, "--output", "json", "--no-spark", cwd=tmp_path)

    findings: list[dict[str, Any]] = json.loads(done.out)["findings"]
    assert (done.code, done.err) == (0, "")
    assert not [each for each in findings if "report this" in each["sentence"]]
    time = [each for each in findings if "does not tell its time" in each["sentence"]]
    assert len(time) == release.zookeeper or release.version < "3.3"
    (brokers,) = (each["sentence"] for each in findings if each["subject"] == "brokers")
    told = re.fullmatch(
        r"1 of 1 answer: 1; by their API versions, Kafka (\S+)( or newer)?", brokers
    )
    assert told is not None
    assert release.version.startswith(told[1])


@on_commands
def test_delete_records(driver: RealDriver, read_topic: str, tmp_path: Path) -> None:
    partition = {"topic": read_topic, "partition": 0, "offset": 4}
    file = write(tmp_path / "offsets.json", {"version": 1, "partitions": [partition]})
    CONFIGURED.append(BY_HAND)
    servers = driver.broker.bootstrap_servers
    done = run_here(
        *("delete-records", "--bootstrap-server", servers, "--offset-json-file", file),
        *("--state-dir", tmp_path / "state", "--yes"),
        cwd=tmp_path,
    )

    assert (done.code, done.err) == (0, "")
    assert log_start(driver.broker, read_topic) == 4


@on_commands
def test_orphans(driver: RealDriver, read_topic: str, tmp_path: Path) -> None:
    (node,) = driver.broker.nodes
    done = run_here(
        *("orphans", "--bootstrap-server", node.internal_server, "--output", "json"),
        *("--log-dir", *node.log_dirs, "--state-dir", tmp_path / "state"),
        cwd=tmp_path,
    )

    assert (done.code, done.err) == (0, "")
    look = json.loads(done.out)
    assert (look["complete"], look["orphans"]) == (True, [])


@on_commands
def test_the_daemon(driver: RealDriver, read_topic: str, config: Path, tmp_path: Path) -> None:
    with Held("nowhere", "run", "--config", config, cwd=tmp_path) as daemon:
        daemon.await_events("retentiond.started")
        eventually(
            lambda: log_start(driver.broker, read_topic),
            lambda offset: offset == COMMITTED,
            timeout_s=90,
        )
        eventually(lambda: daemon.get("/readyz").status_code, lambda code: code == 200)
