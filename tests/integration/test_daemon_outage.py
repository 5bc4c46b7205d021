"""A broker that is not there yet, goes away, and comes back, while the daemon runs.

Without Spark, which has no part in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from devkit.embedded import EmbeddedKafka
from tests.contract.real import RealDriver
from tests.faults.held import Held, log_start
from tests.support.brokers.command import Process, settings, write
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker

INTERVAL_S = 1.0

UNREADY_AFTER_S = 3 * INTERVAL_S

OUTAGE_S = 60.0
"""Each try of an outage takes ten seconds."""


@pytest.fixture(scope="module")
def driver() -> Iterator[RealDriver]:
    with EmbeddedKafka() as kafka, closing(RealDriver(kafka)) as driver:
        yield driver


def failures(daemon: Process) -> float:
    """The counter of failed cycles."""
    name = 'retentiond_cycles_total{result="failed"} '
    lines = daemon.get("/metrics").text.splitlines()
    (line,) = (line for line in lines if line.startswith(name))
    return float(line.removeprefix(name))


def readiness(daemon: Process) -> tuple[int, str]:
    answer = daemon.get("/readyz")
    return answer.status_code, answer.text


def test_a_daemon_outlives_two_outages_and_says_so_once_each(
    driver: RealDriver, tmp_path: Path
) -> None:
    driver.create_topic("orders")
    driver.produce("orders", [driver.now_ms] * 10)
    driver.commit("billing", {("orders", 0): 7})
    servers = driver.broker.bootstrap_servers
    write(tmp_path / "retentiond.yaml", settings(servers, tmp_path / "state", dry_run=False))
    node = driver.broker.nodes[0]
    node.stop()
    with Held("nowhere", "run", cwd=tmp_path) as daemon:
        # There is no broker when it starts.
        (failed,) = daemon.await_events("retentiond.cycle_failed")
        assert failed["error"].startswith(f"{servers} can't be asked: ")
        eventually(lambda: failures(daemon) >= 2, timeout_s=OUTAGE_S)
        assert readiness(daemon) == (503, "no complete cycle yet; KafkaUnavailable\n")
        assert daemon.get("/healthz").status_code == 200
        assert daemon.get("/api/plan").status_code == 503
        node.start()
        (recovered,) = daemon.await_events("retentiond.cycle_recovered")
        assert recovered["tries"] >= 2
        eventually(lambda: readiness(daemon) == (200, "ready\n"))
        eventually(lambda: log_start(driver.broker, "orders") == 7)
        assert len(daemon.events("retentiond.cycle_failed")) == 1

        # It goes away.
        node.kill()
        daemon.await_events("retentiond.cycle_failed", 2)
        _, why = eventually(lambda: readiness(daemon), lambda ready: ready[0] == 503)
        assert why.startswith("no complete cycle within 3 ")  # intervals, or times what one took
        assert why.endswith("; KafkaUnavailable\n")
        served = daemon.get("/api/plan").json()  # the last one
        planned_at = datetime.fromisoformat(served["planned_at"])
        age_s = (datetime.now(UTC) - planned_at).total_seconds()
        # Where the broker died amid a reading, what was left of that one is the last plan.
        assert age_s > UNREADY_AFTER_S or not served["complete"]
        assert served["partitions"][0]["topic"] == "orders"
        node.start()
        daemon.await_events("retentiond.cycle_recovered", 2)
        eventually(lambda: readiness(daemon) == (200, "ready\n"))
        driver.commit("billing", {("orders", 0): 9})
        eventually(lambda: log_start(driver.broker, "orders") == 9)

        expected = ["retentiond.cycle_failed", "retentiond.cycle_recovered"] * 2
        changes = [line["event"] for line in daemon.log if line["event"] in expected]
        assert changes == expected
