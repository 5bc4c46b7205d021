"""Signals at any moment, and what is left of Spark's JVM afterwards.

No broker answers here, so that the daemon does nothing but start Spark and try.
"""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.brokers.command import Process, configure
from tests.support.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.thorough("kills")]

END_S = 10.0


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """With a configuration whose broker is a port that nobody can listen on."""
    with closing(socket.socket()) as bound:
        bound.bind(("127.0.0.1", 0))
        configure(tmp_path, f"127.0.0.1:{bound.getsockname()[1]}")
        yield tmp_path


def test_a_signal_while_spark_starts_ends_in_time_and_leaves_no_jvm(folder: Path) -> None:
    with Process("run", cwd=folder) as daemon:
        daemon.jvm()
        daemon.signal(signal.SIGTERM)
        assert daemon.wait(END_S) == 0
        assert daemon.seen
        eventually(lambda: not daemon.children(), timeout_s=END_S)


def test_a_killed_daemon_leaves_no_jvm_and_its_folder_goes_with_the_next_start(
    folder: Path,
) -> None:
    temporary = folder / "tmp"
    temporary.mkdir()
    environment = {"TMPDIR": str(temporary)}
    with Process("run", cwd=folder, environment=environment) as daemon:
        daemon.jvm()
        daemon.kill()
        assert daemon.seen
        assert list(temporary.glob("retentiond-spark-*"))
        eventually(lambda: not daemon.children(), timeout_s=END_S)
    with Process("run", cwd=folder, environment=environment) as daemon:
        daemon.jvm()
        assert len(list(temporary.iterdir())) == 1
        daemon.signal(signal.SIGTERM)
        assert daemon.wait(END_S) == 0
    assert list(temporary.iterdir()) == []


def test_a_reload_that_is_asked_for_at_any_moment_of_the_start_does_not_end_it(
    folder: Path,
) -> None:
    with Process("run", cwd=folder) as daemon:
        eventually(lambda: _ignores_or_handles(daemon.pid, signal.SIGHUP))
        while not daemon.events("retentiond.started"):
            assert daemon.running
            daemon.signal(signal.SIGHUP)
            time.sleep(0.01)
        daemon.await_events("retentiond.config_reloaded")
        daemon.signal(signal.SIGTERM)
        assert daemon.wait(END_S) == 0


def _ignores_or_handles(pid: int, number: signal.Signals) -> bool:
    status = dict(
        line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    masks = int(status["SigIgn"], 16) | int(status["SigCgt"], 16)
    return bool(masks >> (number - 1) & 1)
