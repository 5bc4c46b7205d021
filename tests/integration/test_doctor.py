"""The doctor on real brokers: a sound cluster, one that can't be reached, and one in parts."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from devkit.embedded import EmbeddedKafka
from retentiond.tools.doctor.finding import Level
from tests.contract.real import RealDriver
from tests.faults.held import Held
from tests.support.brokers.command import SPARK, configure, run
from tests.support.brokers.examined import about, bad, examined
from tests.support.brokers.three import Three
from tests.support.command_here import run_here
from tests.support.releases import Release
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker

AN_HOUR = {"segment.ms": "3600000"}

LONGEST_S = 15.0


@pytest.fixture
def driver(any_kafka: EmbeddedKafka) -> Iterator[RealDriver]:
    with closing(RealDriver(any_kafka)) as made:
        yield made


@pytest.fixture
def read_topic(driver: RealDriver, topic_name: str) -> Iterator[str]:
    """Ten records, of which a group has read five."""
    yield driver.filled_topic(topic_name, {f"readers-of-{topic_name}": 5}, config=AN_HOUR)
    driver.delete_group(f"readers-of-{topic_name}")


def test_a_sound_cluster_has_no_problem_and_no_warning_but_that_a_zookeeper_tells_no_time(
    release: Release, any_kafka: EmbeddedKafka, read_topic: str, tmp_path: Path
) -> None:
    found = examined(any_kafka.bootstrap_servers, tmp_path, [read_topic])
    expected = [(Level.WARNING, "clocks")] if release.zookeeper else []
    assert bad(found, {subject for _, subject in bad(found)} - {"disk"}) == expected
    (brokers,) = about(found, "brokers")
    said = {"4.4": "4.4 or newer"}
    major_minor = ".".join(any_kafka.version.split(".")[:2])
    assert brokers.sentence == (
        f"1 of 1 answer: 1; by their API versions, Kafka {said.get(major_minor, major_minor)}"
    )
    (clocks,) = about(found, "clocks")
    assert ("this host's clock alone" in clocks.sentence) is release.zookeeper


def test_beside_a_daemon_at_work_its_lock_and_its_port_are_as_they_should_be(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    configure(tmp_path, kafka.bootstrap_servers, http={"host": "127.0.0.1", "port": port})
    with Held("nowhere", "run", cwd=tmp_path) as daemon:
        daemon.await_events("retentiond.started")
        done = run_here("doctor", cwd=tmp_path)
    assert f"Spark: was not started beside retentiond with pid {daemon.pid}" in done.out
    assert f"in use by retentiond with pid {daemon.pid}" in done.out
    assert (
        f"ok       port: 127.0.0.1:{port} is taken, and retentiond with pid {daemon.pid}"
        in done.out
    )


@pytest.mark.spark
def test_spark_is_started_and_says_itself_what_is_wrong(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    configure(tmp_path, kafka.bootstrap_servers)
    done = run("doctor", cwd=tmp_path)
    assert re.search(r"^ok +Spark: local\[1\] works; start and first job took", done.out, re.M)
    spark = SPARK | {"conf": {"spark.driver.memory": "256m"}}
    configure(tmp_path, kafka.bootstrap_servers, spark=spark)
    done = run("doctor", cwd=tmp_path)
    assert re.search(r"^problem +Spark: .* must be at least 471859200", done.out, re.M)
    assert "Traceback" not in done.err


def test_a_cluster_that_can_not_be_reached_is_one_clear_line_soon(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        nobody = f"127.0.0.1:{free.getsockname()[1]}"
    began = time.monotonic()
    found = examined(nobody, tmp_path, ["orders"])
    assert time.monotonic() - began < LONGEST_S
    first, second, *host = found.findings
    assert (first.level, first.subject) == (Level.PROBLEM, "cluster")
    assert nobody in first.sentence
    assert (second.level, second.subject) == (Level.WARNING, "the cluster's checks")
    assert {"state_dir", "port", "Java"} <= {each.subject for each in host}
    assert found.cluster_id is None


@pytest.fixture
def three(three_kafka: EmbeddedKafka) -> Iterator[Three]:
    with closing(Three(three_kafka)) as made:
        yield made


def test_a_broker_that_dies_is_named_at_once_and_once_the_cluster_has_noticed(
    three: Three, tmp_path: Path
) -> None:
    three.create_topic("whole", {0: [1, 2, 3]})
    three.create_topic("only-on-three", {0: [3]})
    topics = ["whole", "only-on-three"]
    named = {"broker 1", "broker 2", "broker 3"}
    servers = three.kafka.bootstrap_servers
    assert bad(examined(servers, tmp_path, topics), named) == []
    with three.killed(3):
        found = examined(servers, tmp_path, topics)
        assert bad(found, named) == [(Level.PROBLEM, "broker 3")]
        eventually(lambda: three.fenced(3))
        found = examined(servers, tmp_path, topics)
        assert bad(found, named) == [(Level.PROBLEM, "broker 3")]
        (dead,) = about(found, "broker 3")
        assert f"is down ({three.node(3).bootstrap_server})" in dead.sentence
        assert bad(found, {"partition only-on-three-0"}) == [
            (Level.PROBLEM, "partition only-on-three-0")
        ]
        (brokers,) = about(found, "brokers")
        assert brokers.sentence.startswith("2 of 3 answer: 1, 2;")


def test_a_broker_that_is_frozen_is_named_and_keeps_nothing_else_from_being_checked(
    three: Three, tmp_path: Path
) -> None:
    three.create_topic("thawed", {0: [1, 2]})
    servers = three.kafka.bootstrap_servers
    frozen = three.node(3)
    with three.paused(3):
        found = examined(servers, tmp_path, ["thawed"])
    assert (Level.PROBLEM, "broker 3") in bad(found)
    (address,) = about(found, "bootstrap.servers")
    assert address.sentence.startswith(f"{frozen.bootstrap_server} can't be asked")
    (rights,) = about(found, "rights on topics")
    assert rights.level is Level.OK
