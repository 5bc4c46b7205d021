"""The embedded Kafka is surely gone: after an error, a signal, a parent that was killed."""

import itertools
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import psutil
import pytest

from devkit.embedded import EmbeddedKafka, EmbeddedKafkaError
from devkit.embedded.ports import LOOPBACK, PortReservations

pytestmark = pytest.mark.broker

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture(autouse=True)
def _no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a failed or killed cluster leaves, it leaves in the test's own folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))


@contextmanager
def kafka_of_another_process() -> Iterator[tuple[subprocess.Popen[str], list[psutil.Process]]]:
    """``python -m devkit.embedded`` when it is ready, and the processes below it."""
    with subprocess.Popen(
        [sys.executable, "-m", "devkit.embedded", "--nodes", "1"],
        env={**os.environ, "PYTHONPATH": str(SCRIPTS)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert re.fullmatch(r"127\.0\.0\.1:\d+\n", process.stdout.readline())
            yield process, psutil.Process(process.pid).children(recursive=True)
        finally:
            process.kill()


def test_after_an_error_in_the_block_nothing_runs_and_only_the_logs_are_left(
    capfd: pytest.CaptureFixture[str],
) -> None:
    kafka = EmbeddedKafka()
    with pytest.raises(ZeroDivisionError), kafka:
        raise ZeroDivisionError
    node = kafka.nodes[0]
    assert not psutil.pid_exists(node.pid)
    assert str(node.log_file.parents[1]) in capfd.readouterr().err
    assert "Kafka Server started" in node.log_file.read_text()
    assert not node.log_dirs[0].exists()


def test_a_broker_outlives_the_thread_that_started_it_and_leaves_no_file_when_closed() -> None:
    kafka = EmbeddedKafka()
    try:
        starter = Thread(target=kafka.start)
        starter.start()
        starter.join()
        assert kafka.admin().list_topics(timeout=10).cluster_id == kafka.cluster_id
        pid, directory = kafka.nodes[0].pid, kafka.nodes[0].log_file.parents[1]
        assert directory.exists()
    finally:
        kafka.close()
    assert not psutil.pid_exists(pid)
    assert not directory.exists()


def test_when_the_parent_is_killed_the_broker_dies_with_it() -> None:
    with kafka_of_another_process() as (parent, children):
        assert [child.name() for child in children] == ["java"]
        parent.kill()
        _, alive = psutil.wait_procs(children, timeout=60)
        assert alive == []


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_the_command_ends_cleanly_on_a_signal(end: signal.Signals) -> None:
    with kafka_of_another_process() as (parent, children):
        parent.send_signal(end)
        assert parent.wait(timeout=120) == 0
        assert not any(child.is_running() for child in children)


def test_a_broker_that_cannot_start_says_why_and_leaves_nothing_running(
    capfd: pytest.CaptureFixture[str],
) -> None:
    kafka = EmbeddedKafka(config={"authorizer.class.name": "no.such.Authorizer"})
    with pytest.raises(EmbeddedKafkaError, match=r"node 1 ended: .*no\.such\.Authorizer.*\.log"):
        kafka.start()
    assert not kafka.nodes[0].running
    assert "logs are kept in" in capfd.readouterr().err


def test_of_several_the_one_that_ended_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Node 1 would wait for it to the end of its time."""
    take, taken, stranger = PortReservations.take, itertools.count(), socket.socket()

    def take_one_twice(ports: PortReservations) -> int:
        port = take(ports)
        if next(taken) == 3:  # after the controller's and node 1's two
            stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            stranger.bind((LOOPBACK, port))
            stranger.listen()
        return port

    monkeypatch.setattr(PortReservations, "take", take_one_twice)
    kafka = EmbeddedKafka(nodes=2)
    with stranger, pytest.raises(EmbeddedKafkaError, match=r"node 2 ended: .*already in use"):
        kafka.start()


def test_a_refused_setting_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    kafka = EmbeddedKafka(config={"log.retention.ms": "soon"})
    with pytest.raises(EmbeddedKafkaError, match=r"log\.retention\.ms"):
        kafka.start()
