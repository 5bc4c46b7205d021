"""A daemon whose broker stays away keeps its descriptors for when it is back.

Without Spark, which has no part in it.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.contract.real import RealDriver
from tests.faults.held import Held, log_start
from tests.support.brokers.command import Process, settings, write
from tests.support.tiers import OwnKafka
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker

FEW = 96
"""Descriptors for a whole daemon; one of its cycles takes some forty."""

CYCLES = 12
"""More than enough to run out of them if each left four."""


@pytest.fixture(scope="module")
def driver(own_kafka: OwnKafka) -> Iterator[RealDriver]:
    with own_kafka() as kafka, closing(RealDriver(kafka)) as driver:
        yield driver


def failed(daemon: Process) -> float:
    series = 'retentiond_cycles_total{result="failed"} '
    (line,) = (line for line in daemon.get("/metrics").text.splitlines() if line.startswith(series))
    return float(line.removeprefix(series))


def most_descriptors(daemon: Process, cycles: int) -> int:
    """While so many further cycles fail."""
    until, most = failed(daemon) + cycles, 0
    while failed(daemon) < until:
        most = max(most, len(os.listdir(f"/proc/{daemon.pid}/fd")))
    return most


def test_an_outage_takes_no_descriptor_and_the_daemon_goes_on_after_it(
    driver: RealDriver, tmp_path: Path
) -> None:
    driver.create_topic("orders")
    driver.produce("orders", [driver.now_ms] * 10)
    driver.commit("billing", {("orders", 0): 7})
    document = settings(driver.broker.bootstrap_servers, tmp_path / "state", dry_run=False)
    write(tmp_path / "retentiond.yaml", document)
    node = driver.broker.nodes[0]
    with Held("nowhere", "run", cwd=tmp_path) as daemon:
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (FEW, FEW))
        eventually(lambda: log_start(driver.broker, "orders") == 7)
        node.kill()
        eventually(lambda: failed(daemon) >= 2, timeout_s=60)
        first = most_descriptors(daemon, 3)
        assert most_descriptors(daemon, CYCLES) <= first + 4
        node.start()
        eventually(lambda: daemon.get("/readyz").status_code == 200, timeout_s=60)
        driver.commit("billing", {("orders", 0): 9})
        eventually(lambda: log_start(driver.broker, "orders") == 9)
        assert daemon.events("retentiond.no_descriptors") == []
