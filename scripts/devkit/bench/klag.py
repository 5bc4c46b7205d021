"""klag-exporter, a lag exporter in Rust: how long it takes to refresh what it knows of all groups.

It runs as it comes, but more often. Its log tells each refresh, from the first request to the
figures that it exports; its metrics tell whether these are right.
"""

import json
import os
import re
import statistics
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from devkit.bench.layouts import RECORDS, Layout
from devkit.bench.timing import RUNS
from devkit.embedded import EmbeddedKafka
from devkit.embedded.ports import LOOPBACK, PortReservations
from devkit.embedded.processes import leashed

WARM_UP = 3
"""Refreshes that don't count."""

INTERVAL_S = 5
"""Between the starts of two refreshes; it gives up one that takes longer."""

TIMEOUT_S = 300.0
POLL_S = 0.1

LOG_LEVEL = "warn,klag_exporter::cluster=debug"
"""So that of all that goes well only the ends of refreshes are told."""

REFRESHED = re.compile(r"Collection cycle completed .*?elapsed_ms=(\d+) ")
TROUBLE = re.compile(r"\b(?:WARN|ERROR)\b.*")

LAG = "kafka_consumergroup_group_sum_lag"
"""The metric: how many records a group has yet to read."""


def measure(program: Path, kafka: EmbeddedKafka, layout: Layout, folder: Path) -> float:
    """Median seconds of a refresh. Raises ValueError where it fails or finds other lags."""
    log = folder / "klag-exporter.log"
    with PortReservations() as ports:
        port = ports.take()
        settings = folder / "klag-exporter.toml"
        settings.write_text(configuration(kafka.bootstrap_servers, port))
        with _running(program, settings, log) as exporter:
            took = _await_refreshes(exporter, log)
            with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/metrics") as answer:
                lags = group_lags(answer.read().decode())
    if lags != expected_lags(layout):
        raise ValueError(f"{layout.name}: klag-exporter finds other lags than the layout has")
    return statistics.median(took[WARM_UP:])


def configuration(servers: str, port: int) -> str:
    """The exporter's file, in TOML."""
    return f"""\
[exporter]
poll_interval = "{INTERVAL_S}s"
http_host = "{LOOPBACK}"
http_port = {port}

[[clusters]]
name = "bench"
bootstrap_servers = {json.dumps(servers)}
"""


def refreshes(log: str) -> list[float]:
    """Seconds of each refresh that the log tells of. Raises ValueError when it tells of trouble:
    the exporter goes on without a group that it can't read, which takes less time."""
    if found := TROUBLE.search(log):
        raise ValueError(f"klag-exporter: {found[0]}")
    return [int(ms) / 1000 for ms in REFRESHED.findall(log)]


def group_lags(metrics: str) -> dict[str, int]:
    """Records that each group has yet to read, by its name."""
    return {
        sample.labels["group"]: int(sample.value)
        for family in text_string_to_metric_families(metrics)
        for sample in family.samples
        if sample.name == LAG
    }


def expected_lags(layout: Layout) -> dict[str, int]:
    """The same, worked out from the layout."""
    lags: Counter[str] = Counter()
    for (group, _, _), offset in layout.offsets().items():
        lags[group] += RECORDS - offset
    return dict(lags)


@contextmanager
def _running(program: Path, settings: Path, log_file: Path) -> "Iterator[subprocess.Popen[bytes]]":
    command = leashed([str(program), "--config", str(settings), "--log-level", LOG_LEVEL])
    environment = {name: value for name, value in os.environ.items() if name != "RUST_LOG"}
    with log_file.open("wb") as log:
        exporter = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**environment, "NO_COLOR": "1"},
        )
    try:
        yield exporter
    finally:
        exporter.terminate()
        exporter.wait(TIMEOUT_S)


def _await_refreshes(exporter: "subprocess.Popen[bytes]", log: Path) -> list[float]:
    """Seconds of each, as soon as it are enough."""
    deadline = time.monotonic() + TIMEOUT_S
    while len(took := refreshes(log.read_text(errors="replace"))) < WARM_UP + RUNS:
        if exporter.poll() is not None:
            raise ValueError(f"klag-exporter ended with exit code {exporter.returncode}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"klag-exporter: only {len(took)} refreshes in {TIMEOUT_S:g} s")
        time.sleep(POLL_S)
    return took
