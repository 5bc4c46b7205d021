"""Signals before there is anything to end, and what is left of Spark's JVM afterwards.

No broker answers here, so that the daemon does nothing but start Spark and try.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.brokers.command import Process, settings, write
from tests.support.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.thorough("kills")]

END_S = 10.0


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """With a configuration whose broker is a port that nobody can listen on."""
    with closing(socket.socket()) as bound:
        bound.bind(("127.0.0.1", 0))
        servers = f"127.0.0.1:{bound.getsockname()[1]}"
        write(tmp_path / "retentiond.yaml", settings(servers, tmp_path / "state"))
        yield tmp_path


def test_a_signal_while_spark_starts_ends_in_time_and_leaves_no_jvm(folder: Path) -> None:
    with Process("run", cwd=folder) as daemon:
        daemon.jvm()
        daemon.signal(signal.SIGTERM)
        assert daemon.wait(END_S) == 0
        assert daemon.seen
        eventually(lambda: not daemon.children(), timeout_s=END_S)


def test_a_killed_daemon_leaves_no_jvm(folder: Path) -> None:
    with Process("run", cwd=folder) as daemon:
        daemon.jvm()
        daemon.kill()
        assert daemon.seen
        eventually(lambda: not daemon.children(), timeout_s=END_S)
