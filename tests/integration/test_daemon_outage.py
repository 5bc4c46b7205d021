"""A broker that is not there yet, goes away, and comes back, while the daemon runs.

Without Spark, which has no part in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

import pytest

from tests.contract.real import RealDriver
from tests.faults.held import Held, log_start
from tests.support.brokers.command import Process, configure
from tests.support.tiers import OwnKafka
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker

INTERVAL_S = 1.0

UNREADY_AFTER_S = 3 * INTERVAL_S

OUTAGE_S = 60.0
"""Each try of an outage takes ten seconds."""


@pytest.fixture(scope="module")
def driver(own_kafka: OwnKafka) -> Iterator[RealDriver]:
    with own_kafka() as kafka, closing(RealDriver(kafka)) as driver:
        yield driver


def readiness(daemon: Process) -> tuple[int, str]:
    answer = daemon.get("/readyz")
    return answer.status_code, answer.text


TRIES = 6
"""So many show a descriptor that each of them leaves open."""


def most_descriptors(daemon: Process, tries: int) -> int:
    """While so many further cycles fail."""
    until, most = daemon.failures + tries, 0
    while daemon.failures < until:
        most = max(most, len(os.listdir(f"/proc/{daemon.pid}/fd")))
    return most


def test_a_daemon_outlives_two_outages_and_says_so_once_each(
    driver: RealDriver, tmp_path: Path
) -> None:
    driver.filled_topic("orders", {"billing": 7})
    servers = driver.broker.bootstrap_servers
    configure(tmp_path, servers, dry_run=False)
    node = driver.broker.nodes[0]
    node.stop()
    with Held("nowhere", "run", cwd=tmp_path) as daemon:
        # There is no broker when it starts.
        (failed,) = daemon.await_events("retentiond.cycle_failed")
        assert failed["error"].startswith(f"{servers} can't be asked: ")
        eventually(lambda: daemon.failures >= 2, timeout_s=OUTAGE_S)
        code, why = readiness(daemon)
        assert (code, why.partition(": ")[0]) == (
            503,
            f"no complete cycle yet; {servers} can't be asked",
        )
        assert daemon.get("/healthz").status_code == 200
        assert daemon.get("/api/plan").status_code == 503
        node.start()
        (recovered,) = daemon.await_events("retentiond.cycle_recovered")
        assert recovered["tries"] >= 2
        eventually(lambda: readiness(daemon) == (200, "ready\n"))
        eventually(lambda: log_start(driver.broker, "orders") == 7)
        before = len(daemon.events("retentiond.cycle_failed"))

        # It goes away.
        node.kill()
        daemon.await_events("retentiond.cycle_failed", before + 1)
        _, why = eventually(lambda: readiness(daemon), lambda ready: ready[0] == 503)
        assert why.startswith("no complete cycle within 3 ")  # intervals, or times what one took
        assert f"; {servers} can't be asked: " in why
        served = daemon.get("/api/plan").json()  # the last one
        planned_at = datetime.fromisoformat(served["planned_at"])
        age_s = (datetime.now(UTC) - planned_at).total_seconds()
        # Where the broker died amid a reading, what was left of that one is the last plan.
        assert age_s > UNREADY_AFTER_S or not served["complete"]
        assert served["partitions"][0]["topic"] == "orders"
        first = most_descriptors(daemon, 2)
        assert most_descriptors(daemon, TRIES) <= first + 4
        node.start()
        daemon.await_events("retentiond.cycle_recovered", 2)
        eventually(lambda: readiness(daemon) == (200, "ready\n"))
        driver.commit("billing", {("orders", 0): 9})
        eventually(lambda: log_start(driver.broker, "orders") == 9)

        expected = ["retentiond.cycle_failed", "retentiond.cycle_recovered"] * 2
        changes = [line["event"] for line in daemon.log if line["event"] in expected]
        # A broker that dies amid a reading is first told by that reading, then by the next.
        assert [event for event, _ in groupby(changes)] == expected
