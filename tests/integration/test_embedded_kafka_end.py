"""The embedded Kafka is surely gone: after an error, a signal, a parent that was killed."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from devkit.embedded import EmbeddedKafka, EmbeddedKafkaError

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


def test_when_the_parent_is_killed_the_broker_dies_with_it() -> None:
    with kafka_of_another_process() as (parent, children):
        assert [child.name() for child in children] == ["java"]
        parent.kill()
        _, alive = psutil.wait_procs(children, timeout=60)
        assert alive == []


def test_the_command_ends_cleanly_on_a_signal() -> None:
    with kafka_of_another_process() as (parent, children):
        parent.send_signal(signal.SIGTERM)
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
