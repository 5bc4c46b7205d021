"""A log that nobody reads, and one whose disk is full, hold up nothing and hide nothing."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from devkit.embedded import EmbeddedKafka
from tests.support.brokers.command import RETENTIOND, run, settings, write
from tests.support.waiting import PATIENCE, eventually

END_S = 10.0

NOWHERE = "127.0.0.1:1"


@contextmanager
def daemon(folder: Path, stderr: int) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Without a broker, so that each cycle fails; and its address."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
    http = {"host": "127.0.0.1", "port": port}
    write(folder / "retentiond.yaml", settings(NOWHERE, folder / "state", http=http))
    process = subprocess.Popen(
        [*RETENTIOND, "run", "--config", str(folder / "retentiond.yaml")],
        stderr=stderr,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process, f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def metric(address: str, series: str) -> float:
    try:
        text = httpx.get(f"{address}/metrics").text
    except httpx.TransportError:  # it is starting yet
        return 0
    (line,) = (line for line in text.splitlines() if line.startswith(f"{series} "))
    return float(line.removeprefix(series))


def failures(address: str) -> float:
    return metric(address, 'retentiond_cycles_total{result="failed"}')


@pytest.mark.spark
def test_a_reader_that_stands_still_holds_up_neither_a_cycle_nor_the_end(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"x" * fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096))
    with daemon(tmp_path, writing) as (process, address):
        eventually(lambda: failures(address) >= 2, timeout_s=60)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE * END_S) == 0
    os.close(reading)
    os.close(writing)


@pytest.mark.spark
def test_a_full_disk_below_the_log_is_counted_and_stops_no_daemon(tmp_path: Path) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    with daemon(tmp_path, full) as (process, address):
        eventually(lambda: failures(address) >= 2, timeout_s=60)
        assert metric(address, "retentiond_log_lines_dropped_total") >= 2
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE * END_S) == 0
    os.close(full)


@pytest.mark.broker
def test_a_full_disk_below_stderr_hides_no_result(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    document = settings(kafka.bootstrap_servers, tmp_path / "state")
    write(tmp_path / "retentiond.yaml", document)
    to_a_full_disk = ["sh", "-c", 'exec "$0" "$@" 2>/dev/full', *RETENTIOND]
    for command in (["run", "--once"], ["plan"]):
        done = run(*command, "--output", "json", cwd=tmp_path, command=to_a_full_disk)
        assert (done.code, done.plan["complete"]) == (0, True)
    refused = run("plan", "--config", "nowhere.yaml", cwd=tmp_path, command=to_a_full_disk)
    assert refused.code == 2
