"""The daemon as a process: when its first plan is there, and what it and its JVM hold in memory
after a few cycles, after many, and after twice as many."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import psutil

from devkit.bench.layouts import Layout
from devkit.bench.result import Result
from devkit.bench.settings import settings
from devkit.embedded import EmbeddedKafka
from devkit.embedded.ports import LOOPBACK, PortReservations

FEW = 5

TIMEOUT_S = 3600.0
POLL_S = 0.1
MIB = 1024 * 1024

COMMAND = Path(sys.executable).with_name("retentiond")


START_AT_MOST_S = 15.0
MEMORY_AT_MOST_MIB = {"L": 700.0, "XL": 1500.0}


def measure(kafka: EmbeddedKafka, layout: Layout, folder: Path, many: int) -> list[Result]:
    """Dry runs over all topics of the cluster, a cycle after the other."""
    name = layout.name
    with PortReservations() as ports:
        port = ports.take()
        file = folder / "retentiond.yaml"
        http = {"host": LOOPBACK, "port": port}
        file.write_text(json.dumps(settings(kafka.bootstrap_servers, folder / "state", http=http)))
        started = time.monotonic()
        with (folder / "retentiond.log").open("wb") as log:
            daemon = subprocess.Popen([COMMAND, "run", "--config", file], stderr=log)
        try:
            _await_cycles(daemon, port, 1)
            first = time.monotonic() - started
            results = [
                Result(
                    f"{name}: start of the daemon to its first plan", first, "s", START_AT_MOST_S
                )
            ]
            for cycles in (FEW, many // 2, many):
                done = _await_cycles(daemon, port, cycles)
                python, jvm = _resident(daemon.pid)
                at_most = MEMORY_AT_MOST_MIB.get(name)
                results += [
                    Result(f"{name}: Python after {done} cycles", python, "MiB"),
                    Result(f"{name}: JVM after {done} cycles", jvm, "MiB"),
                    Result(f"{name}: both after {done} cycles", python + jvm, "MiB", at_most),
                ]
            return results
        finally:
            daemon.terminate()
            daemon.wait(TIMEOUT_S)


def _await_cycles(daemon: "subprocess.Popen[bytes]", port: int, cycles: int) -> int:
    """How many have ended by the time that it are enough."""
    deadline = time.monotonic() + TIMEOUT_S
    while (done := _cycles(port)) < cycles:
        if daemon.poll() is not None:
            raise ValueError(f"the daemon ended with exit code {daemon.returncode}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"only {done} cycles in {TIMEOUT_S:g} s")
        time.sleep(POLL_S)
    return done


def _cycles(port: int) -> int:
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return 0
    counts = [line for line in lines if line.startswith("retentiond_cycles_total{")]
    return int(sum(float(line.rpartition(" ")[2]) for line in counts))


def _resident(pid: int) -> tuple[float, float]:
    """MiB of the process, and of its JVM."""
    daemon = psutil.Process(pid)
    (jvm,) = (child for child in daemon.children(recursive=True) if child.name() == "java")
    return daemon.memory_info().rss / MIB, jvm.memory_info().rss / MIB


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0))
