"""A log that nobody reads, and one whose disk is full, hold up nothing and hide nothing."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import httpx
import pytest

from devkit.embedded import EmbeddedKafka
from tests.faults.held import FORKS, PLAIN, on_the_path
from tests.faults.hold_at import live
from tests.support.brokers.command import configure, run
from tests.support.waiting import PATIENCE, eventually

END_S = 10.0

NOWHERE = "127.0.0.1:1"


@contextmanager
def daemon(folder: Path, stderr: Path) -> Iterator[tuple[ForkServerProcess, str]]:
    """Without a broker, so that each cycle fails, and without Spark; and its address."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
    configure(folder, NOWHERE, http={"host": "127.0.0.1", "port": port})
    life = FORKS.Process(target=live, args=("nowhere", folder, ["run"], folder, stderr))
    with on_the_path():
        life.start()
    try:
        yield life, f"http://127.0.0.1:{port}"
    finally:
        life.kill()
        life.join()


def end(life: ForkServerProcess) -> int | None:
    """Its exit code after SIGTERM, if it ends in time."""
    assert life.pid
    os.kill(life.pid, signal.SIGTERM)
    life.join(PATIENCE * END_S)
    return life.exitcode


def metric(address: str, series: str) -> float:
    try:
        text = httpx.get(f"{address}/metrics").text
    except httpx.TransportError:  # it is starting yet
        return 0
    (line,) = (line for line in text.splitlines() if line.startswith(f"{series} "))
    return float(line.removeprefix(series))


def failures(address: str) -> float:
    return metric(address, 'retentiond_cycles_total{result="failed"}')


def test_a_reader_that_stands_still_holds_up_neither_a_cycle_nor_the_end(tmp_path: Path) -> None:
    pipe = tmp_path / "log"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    writing = os.open(pipe, os.O_WRONLY)
    os.write(writing, b"x" * fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096))
    with daemon(tmp_path, pipe) as (life, address):
        eventually(lambda: failures(address) >= 2, timeout_s=60)
        assert end(life) == 0
    os.close(reading)
    os.close(writing)


def test_a_full_disk_below_the_log_is_counted_and_stops_no_daemon(tmp_path: Path) -> None:
    with daemon(tmp_path, Path("/dev/full")) as (life, address):
        eventually(lambda: failures(address) >= 2, timeout_s=60)
        assert metric(address, "retentiond_log_lines_dropped_total") >= 2
        assert end(life) == 0


@pytest.mark.broker
def test_a_full_disk_below_stderr_hides_no_result(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    configure(tmp_path, kafka.bootstrap_servers)
    to_a_full_disk = ["sh", "-c", 'exec "$0" "$@" 2>/dev/full', *PLAIN]
    with on_the_path():
        done = run("run", "--once", "--output", "json", cwd=tmp_path, command=to_a_full_disk)
        refused = run("plan", "--config", "nowhere.yaml", cwd=tmp_path, command=to_a_full_disk)
    assert (done.code, done.plan["complete"]) == (0, True)
    assert refused.code == 2
