"""The daemon as a process: when its first plan is there (the median of some starts), and what it
and its JVM hold in memory at most, looked at for a while after a few cycles, after many, and after
twice as many."""

import json
import os
import statistics
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psutil

from devkit.bench.layouts import Layout
from devkit.bench.result import Result
from devkit.bench.settings import settings
from devkit.daemon_process import DaemonProcess
from devkit.embedded import EmbeddedKafka
from devkit.embedded.ports import LOOPBACK, PortReservations
from retentiond.tell import logs

COLD_STARTS = 1
"""Its brokers answer such requests for the first time. It doesn't count."""

STARTS = 5

AFTER_CYCLES = (5, 15)

TIMEOUT_S = 3600.0
POLL_S = 0.05
LOOK_S = 10.0
"""Some cycles of the smaller layouts, two of the larger one."""

SCRAPE_S = 15.0
"""As often as the Prometheus of deploy/ does."""

MIB = 1024 * 1024

CYCLE = f'"event": "{logs.CYCLE}"'.encode()

START_AT_MOST_S = {"L": 6.0, "XL": 15.0}
MEMORY_AT_MOST_MIB = {"L": 700.0, "XL": 1500.0, "XXL": 3072.0}


def measure(kafka: EmbeddedKafka, layout: Layout, folder: Path) -> list[Result]:
    """Dry runs over all topics of the cluster, a cycle after the other."""
    name = layout.name
    starts = _starts(kafka, layout, folder / "start", COLD_STARTS + STARTS)
    start = f"{name}, daemon: from its start to the first plan"
    results = [
        Result(start, statistics.median(starts[COLD_STARTS:]), "s", START_AT_MOST_S.get(name)),
        Result(f"{start}, brokers new too", starts[0], "s"),
    ]
    return results + most(kafka.bootstrap_servers, layout, folder, AFTER_CYCLES)


def _starts(kafka: EmbeddedKafka, layout: Layout, folder: Path, number: int) -> list[float]:
    """Seconds until the first plan of each."""
    starts = []
    folder.mkdir(parents=True)
    for at in range(number):
        with _daemon(kafka.bootstrap_servers, layout, folder / str(at)) as seen:
            seen.await_cycles(1)
            starts.append(time.monotonic() - seen.started)
    return starts


def most(servers: str, layout: Layout, folder: Path, after: Sequence[int]) -> list[Result]:
    """What it holds after so many cycles each."""
    name, results = layout.name, []
    with _daemon(servers, layout, folder / "many") as seen:
        for cycles in after:
            done = seen.await_cycles(cycles)
            python, jvm = seen.most_resident()
            at_most = MEMORY_AT_MOST_MIB.get(name)
            results += [
                Result(f"{name}, daemon: Python after {done} cycles", python, "MiB"),
                Result(f"{name}, daemon: JVM after {done} cycles", jvm, "MiB"),
                Result(f"{name}, daemon: both after {done} cycles", python + jvm, "MiB", at_most),
            ]
    return results


@contextmanager
def _daemon(servers: str, layout: Layout, folder: Path) -> "Iterator[_Seen]":
    """One that remembers nothing yet."""
    folder.mkdir(parents=True)
    file = folder / "retentiond.yaml"
    with PortReservations() as ports:
        http = {"host": LOOPBACK, "port": (port := ports.take())}
        file.write_text(json.dumps(settings(layout, servers, folder / "state", http=http)))
        with closing(DaemonProcess(folder, file)) as daemon:
            started = time.monotonic()
            daemon.start()
            yield _Seen(daemon, started, port)
            daemon.stop(TIMEOUT_S)


class _Seen:
    """What a daemon shows from outside. It is scraped as it is in service."""

    def __init__(self, daemon: DaemonProcess, started: float, port: int) -> None:
        self._daemon = daemon
        self.started = started
        self._metrics = f"http://{LOOPBACK}:{port}/metrics"
        self._scrape_at = time.monotonic() + SCRAPE_S

    def await_cycles(self, cycles: int) -> int:
        """Return when so many have ended at least: how many have."""
        deadline = time.monotonic() + TIMEOUT_S
        while (done := self._daemon.log_file.read_bytes().count(CYCLE)) < cycles:
            if self._daemon.died is not None:
                raise ValueError(f"the daemon ended with exit code {self._daemon.died}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"only {done} cycles in {TIMEOUT_S:g} s")
            self._wait()
        return done

    def most_resident(self) -> tuple[float, float]:
        """MiB of the process and of its JVM, at the moment when both together have most."""
        process = psutil.Process(self._daemon.process.pid)
        (jvm,) = (child for child in process.children(recursive=True) if child.name() == "java")
        looks = []
        until = time.monotonic() + LOOK_S
        while time.monotonic() < until:
            looks.append((process.memory_info().rss / MIB, jvm.memory_info().rss / MIB))
            self._wait()
        return max(looks, key=sum)

    def _wait(self) -> None:
        if time.monotonic() >= self._scrape_at:
            self._scrape_at += SCRAPE_S
            with urllib.request.urlopen(self._metrics) as answer:
                answer.read()
        time.sleep(POLL_S)


@contextmanager
def held(kafka: EmbeddedKafka) -> Iterator[list[float]]:
    """MiB of this process and its JVM together, again and again while the block runs. The brokers
    are children of this process, too, and don't count."""
    looks: list[float] = []
    ended = threading.Event()
    brokers = {node.pid for node in kafka.nodes}

    def look() -> None:
        process = psutil.Process()
        while not ended.wait(POLL_S):
            with suppress(psutil.NoSuchProcess):  # a child ended during this look
                children = process.children(recursive=True)
                jvm = [child for child in children if child.name() == "java"]
                counted = (process, *(child for child in jvm if child.pid not in brokers))
                looks.append(sum(child.memory_info().rss for child in counted) / MIB)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield looks
    finally:
        ended.set()
        thread.join()


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0))
