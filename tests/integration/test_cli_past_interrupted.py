"""Ctrl-C during a question about the past: one line, exit code 130, and nothing is left behind."""

from __future__ import annotations

import os
import pty
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from retentiond.history.table import HistoryTable
from tests.support.brokers.command import RETENTIOND, Process, write
from tests.support.builders.past_clusters import (
    BEGIN,
    MINUTE_MS,
    PastCluster,
    PastEntry,
    partition_row,
)
from tests.support.waiting import eventually

pytestmark = pytest.mark.thorough("kills")

SINCE = ("--since", BEGIN.isoformat())

ENDS_S = 20.0
"""Under load; a JVM has 3 s to end, and takes half a second."""


def configuration(folder: Path, history: str) -> Path:
    """Spark's own files go to a folder that can be looked at."""
    (folder / "spark").mkdir()
    document = {
        "kafka": {"bootstrap.servers": "127.0.0.1:9"},
        "state_dir": str(folder / "state"),
        "history": {"path": history},
        "spark": {"master": "local[1]", "conf": {"spark.local.dir": str(folder / "spark")}},
        "topics": [{"pattern": ".*", "retention.commitoffset.enable": True}],
    }
    return write(folder / "retentiond.yaml", document)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Enough for some seconds of work."""
    entries = [
        PastEntry(
            number * MINUTE_MS,
            rows=[partition_row("orders", each, high_watermark=number * 10) for each in range(100)],
        )
        for number in range(100)
    ]
    place = tmp_path_factory.mktemp("past") / "history"
    PastCluster(entries).write(place)
    assert HistoryTable.open(place).files()
    return str(place)


def is_at_work(process: psutil.Process) -> bool:
    """Whether a task of Spark's is under way, by the name that Java gives its thread."""
    names = []
    with suppress(OSError):  # it may have ended
        for thread in Path(f"/proc/{process.pid}/task").iterdir():
            names.append((thread / "comm").read_text())
    return any(name.startswith("Executor task") for name in names)


@pytest.mark.spark
def test_an_interrupt_while_spark_works_leaves_nothing_behind(history: str, tmp_path: Path) -> None:
    configuration(tmp_path, history)
    with Process(
        "report", *SINCE, "--output", "html", "--file", "report.html", cwd=tmp_path
    ) as process:
        eventually(lambda: any(map(is_at_work, process.children())), timeout_s=90)
        process.signal(signal.SIGINT)
        assert process.wait(ENDS_S) == 130
        assert process.said == "retentiond: interrupted\n"
        assert eventually(lambda: not process.children(), timeout_s=5)
    assert {each.name for each in tmp_path.iterdir()} == {
        "retentiond.yaml",
        "spark",
        "stderr-0.log",
    }
    assert list((tmp_path / "spark").iterdir()) == []


@pytest.fixture
def silent_store(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """It takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "something")
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        yield "s3a://bucket/history"


def test_a_terminal_shows_a_bar_and_its_ctrl_c_ends_the_wait_for_a_store(
    silent_store: str, tmp_path: Path
) -> None:
    config = configuration(tmp_path, silent_store)
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(RETENTIOND[0], [*RETENTIOND, "simulate", "--config", str(config)], environment)
    shown = bytearray()

    def shows(text: bytes) -> bool:
        with suppress(BlockingIOError, OSError):  # EIO: it has ended
            shown.extend(os.read(terminal, 4096))
        return text in shown

    os.set_blocking(terminal, False)
    try:
        eventually(lambda: shows(b"reading the history"))
        os.write(terminal, b"\x03")
        eventually(lambda: shows(b"retentiond: interrupted\r\n"), timeout_s=ENDS_S)
        assert b"Traceback" not in shown
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 130
