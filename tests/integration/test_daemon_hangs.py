"""What would hang, starve or mislead a daemon, on a real broker: it goes on."""

from __future__ import annotations

import resource
import socket
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.contract.real import RealDriver
from tests.faults.held import log_start
from tests.support.brokers.command import RETENTIOND, HostClock, Process, configure
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.broker,
    pytest.mark.timeout(1200),
    pytest.mark.thorough("processes with a Spark of their own"),
]


@pytest.fixture
def topic(driver: RealDriver, topic_name: str) -> str:
    """Ten records, of which seven are read."""
    return driver.filled_topic(topic_name, {f"readers-of-{topic_name}": 7})


@pytest.mark.parametrize("ahead_s", [-7200, 7200], ids=["back", "forward"])
def test_cycles_go_on_when_the_hosts_clock_is_set(
    driver: RealDriver, topic: str, tmp_path: Path, ahead_s: int
) -> None:
    configure(tmp_path, driver.broker.bootstrap_servers, topic, dry_run=False)
    clock = HostClock(tmp_path)
    with Process("run", cwd=tmp_path, environment=clock.environment) as daemon:
        daemon.await_events("retentiond.cycle", 2)
        clock.set(ahead_s)
        (told,) = daemon.await_events("retentiond.clock_set")
        assert told["seconds"] == pytest.approx(ahead_s, abs=1)
        count, began = len(daemon.events("retentiond.cycle")), time.monotonic()
        daemon.await_events("retentiond.cycle", count + 5, timeout_s=60)
        assert time.monotonic() - began > 2  # an interval is a second: they do not race either
        assert daemon.get("/readyz").status_code == 200


def test_idle_connections_take_no_descriptor_from_kafka(
    driver: RealDriver, topic: str, tmp_path: Path
) -> None:
    configure(tmp_path, driver.broker.bootstrap_servers, topic, dry_run=False)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    limited = ["prlimit", "--nofile=256:512", *RETENTIOND]
    try:
        with Process("run", cwd=tmp_path, command=limited) as daemon, ExitStack() as stack:
            daemon.await_events("retentiond.cycle")
            port = daemon.events("retentiond.started")[0]["port"]
            for _ in range(1000):
                stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
            assert resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE) == (512, 512)
            count = len(daemon.events("retentiond.cycle"))
            daemon.await_events("retentiond.cycle", count + 3)
            driver.commit(f"readers-of-{topic}", {(topic, 0): 9})
            eventually(lambda: log_start(driver.broker, topic) == 9, timeout_s=60)
            assert daemon.get("/healthz").status_code == 200
            assert daemon.events("retentiond.cycle_failed") == []
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
