"""A fenced policy file that goes bad holds its own topics, and the others go on."""

from __future__ import annotations

import signal
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.contract.real import RealDriver
from tests.faults.held import Held, log_start
from tests.support.brokers.command import Process, configure, matching, write
from tests.support.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.thorough("a daemon with many reloads")]

PREFIX = f"fences-{uuid.uuid4().hex[:8]}-"

PAY, ORDERS = f"{PREFIX}pay", f"{PREFIX}orders"


def read_up_to(driver: RealDriver, offset: int) -> None:
    for topic in (PAY, ORDERS):
        driver.commit(f"readers-of-{topic}", {(topic, 0): offset})


def deleted_up_to(driver: RealDriver, topic: str, offset: int) -> None:
    eventually(lambda: log_start(driver.broker, topic) == offset)


def reason(daemon: Process, topic: str) -> str | None:
    plan: dict[str, Any] = daemon.get("/api/plan").json()
    return next((row["reason"] for row in plan["partitions"] if row["topic"] == topic), None)


def test_a_fenced_file_that_can_not_be_used_holds_its_topics_and_nothing_else(
    driver: RealDriver, tmp_path: Path
) -> None:
    """At a start, at a reload, by ``reload.watch``, and while cycles run."""
    for topic in (PAY, ORDERS):
        driver.filled_topic(topic, {f"readers-of-{topic}": 2})
    entry = matching(f"{PREFIX}.*")
    configure(
        tmp_path,
        driver.broker.bootstrap_servers,
        entry,
        dry_run=False,
        policies=[{"file": "pay.yaml", "topics": [f"{PREFIX}pay.*"]}],
        reload={"watch": True},
    )
    pay, good = tmp_path / "pay.yaml", {"owner": "payments", "topics": [entry]}

    with Held("nowhere", "run", cwd=tmp_path) as daemon:
        (told,) = daemon.await_events("retentiond.policy_unreadable")
        assert (told["file"], told["owner"]) == ("pay.yaml", "")
        deleted_up_to(driver, ORDERS, 2)
        eventually(lambda: reason(daemon, PAY) == "policy_unreadable")
        assert log_start(driver.broker, PAY) == 0
        assert "pay.yaml" in daemon.get("/readyz").text

        write(pay, good)  # without a signal
        deleted_up_to(driver, PAY, 2)

        pay.write_text("owner: payments\ntopics: [\n")
        daemon.signal(signal.SIGHUP)
        daemon.await_events("retentiond.policy_unreadable", 2)
        read_up_to(driver, 5)
        deleted_up_to(driver, ORDERS, 5)
        eventually(lambda: reason(daemon, PAY) == "policy_unreadable")
        assert log_start(driver.broker, PAY) == 2
        series = 'retentiond_policy_unreadable{file="pay.yaml",owner=""} 1.0'
        assert series in daemon.get("/metrics").text

        write(pay, good)
        daemon.signal(signal.SIGHUP)
        deleted_up_to(driver, PAY, 5)
        pay.unlink()
        daemon.await_events("retentiond.policy_unreadable", 3)
        read_up_to(driver, 8)
        deleted_up_to(driver, ORDERS, 8)
        eventually(lambda: reason(daemon, PAY) == "policy_unreadable")
        assert log_start(driver.broker, PAY) == 5
