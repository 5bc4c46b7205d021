"""docs/production.md as it is written, from gate to gate, on a broker with two topics."""

from __future__ import annotations

import shutil
import signal
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from retentiond.state.audit_records import read_deletions
from tests.contract.real import RealDriver
from tests.faults.held import Held
from tests.support.tiers import OwnKafka
from tests.support.walked_pages import Step, steps, take

pytestmark = pytest.mark.broker

DAY_MS = 24 * 3_600_000

RECORDS = 10

FIRST_OF_DRY_RUN, END_OF_DRY_RUN, FIRST_OF_LIMITS, END_OF_LIMITS = (
    "curl -sS localhost:9477/readyz",
    "sed -i 's/^dry_run: true/dry_run: false/' retentiond.yaml",
    "curl -sS localhost:9477/readyz",
    "sed -i '/^limits:/d' retentiond.yaml",
)
"""What stands on the page right after "start the daemon", "stop it", "start it again" and before
SIGHUP."""


TWO_WEEKS_HAVE_PASSED = {"--min-observed 13d": "--min-observed 0s"}

OFTEN = "schedule: {interval: 1s}\nhistory: {interval: 1s}\n"
"""A past has some time in it soon."""

GATE_4 = "retentiond simulate --since 14d --min-observed 13d --exit-code"


@pytest.fixture
def driver(own_kafka: OwnKafka) -> Iterator[RealDriver]:
    with own_kafka() as kafka, closing(RealDriver(kafka)) as driver:
        two_days_ago = driver.now_ms - 2 * DAY_MS
        for topic in ("orders.enriched", "clicks.sessions"):
            driver.create_topic(topic, 2, {"retention.ms": str(30 * DAY_MS)})
            for partition in range(2):
                driver.produce(topic, [two_days_ago] * RECORDS, partition)
        driver.commit("billing", {("orders.enriched", at): RECORDS for at in range(2)})
        driver.commit("search-indexer", {("clicks.sessions", at): 3 for at in range(2)})
        yield driver


class Walk:
    """Somebody who has the page, a shell and a folder. What the page calls by another name here:
    the broker, the port and the state's folder."""

    def __init__(self, servers: str, folder: Path) -> None:
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            self.port = bound.getsockname()[1]
        self.folder, self.state_dir = folder, folder / "state"
        self._names = {
            "broker-1:9092": servers,
            "localhost:9477": f"localhost:{self.port}",
            "/var/lib/retentiond": str(self.state_dir),
            **TWO_WEEKS_HAVE_PASSED,
        }

    def here(self, text: str) -> str:
        for name, own in self._names.items():
            text = text.replace(name, own)
        return text

    def take(self, step: Step) -> None:
        take(step, self.here(step.command), self.folder)

    def daemon(self) -> Held:
        return Held("nowhere", "run", cwd=self.folder)


@pytest.mark.skipif(shutil.which("curl") is None, reason="the page asks with curl")
def test_every_gate_opens_as_the_page_says(driver: RealDriver, tmp_path: Path) -> None:
    walk = Walk(driver.broker.bootstrap_servers, tmp_path)
    way = list(steps("production.md"))
    taken = iter(way)

    def until(command: str) -> None:
        for step in taken:
            if step.command == command:
                break
            walk.take(step)
        else:
            raise AssertionError(f"the page has no {command}")

    until(FIRST_OF_DRY_RUN)
    written = walk.folder / "retentiond.yaml"
    in_use = f"{written.read_text()}http: {{port: {walk.port}}}\n"
    written.write_text(f"{in_use}{OFTEN}")
    with walk.daemon() as daemon:
        daemon.await_events("retentiond.cycle", 4)
        walk.take(way[way.index(Step(FIRST_OF_DRY_RUN, ("ready…",)))])
        shut = Step(f"{GATE_4}; echo $?", ("…", "observed too short: …", "…", "3"))
        take(shut, shut.command, walk.folder)
        until(END_OF_DRY_RUN)
        assert list(read_deletions(walk.state_dir)) == []
        daemon.signal(signal.SIGTERM)
        assert daemon.wait(30) == 0
    written.write_text(in_use)
    walk.take(Step(END_OF_DRY_RUN, ()))

    until(FIRST_OF_LIMITS)
    assert len(list(read_deletions(walk.state_dir))) == 1
    with walk.daemon() as daemon:
        daemon.await_events("retentiond.cycle")
        walk.take(Step(FIRST_OF_LIMITS, ("ready…",)))
        until(END_OF_LIMITS)
        walk.take(Step(END_OF_LIMITS, ()))
        assert len(list(read_deletions(walk.state_dir))) == 2
        daemon.signal(signal.SIGHUP)
        daemon.await_events("retentiond.config_reloaded")
        for step in taken:
            walk.take(step)
