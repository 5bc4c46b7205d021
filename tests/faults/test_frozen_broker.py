"""A broker that stands still while a deletion is on its way, and goes on later."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from retentiond.model import Outcome
from retentiond.state.audit_records import DeletionRecord, read_deletions
from tests.contract.real import RealDriver
from tests.faults.held import Held, log_start_if_led
from tests.support.brokers.command import configure
from tests.support.tiers import OwnKafka
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker

COMMITTED = 7

END_S = 10.0
"""A signal ends the daemon within that time, whatever it is doing."""


@pytest.fixture(scope="module")
def driver(own_kafka: OwnKafka) -> Iterator[RealDriver]:
    with own_kafka() as kafka, closing(RealDriver(kafka)) as driver:
        yield driver


@pytest.fixture
def folder(driver: RealDriver, topic_name: str, tmp_path: Path) -> Iterator[Path]:
    """With a configuration to delete seven of a topic's ten records; the broker goes on after, and
    leads the topic again before the next test asks it for one."""
    driver.filled_topic(topic_name, {f"readers-of-{topic_name}": COMMITTED})
    configure(tmp_path, driver.broker.bootstrap_servers, topic_name, dry_run=False)
    yield tmp_path
    driver.broker.nodes[0].resume()
    _await_leader(driver, topic_name)


def deletion(folder: Path) -> DeletionRecord:
    (deletion,) = read_deletions(folder / "state")
    return deletion


def _await_leader(driver: RealDriver, topic_name: str) -> None:
    eventually(lambda: log_start_if_led(driver.broker, topic_name) is not None)


def settle(folder: Path) -> None:
    with Held("nowhere", "run", "--once", cwd=folder) as process:
        assert process.wait(60) == 0, process.said


def test_a_signal_during_a_request_without_answer_ends_in_time_and_the_outcome_is_recorded(
    driver: RealDriver, folder: Path, topic_name: str
) -> None:
    node = driver.broker.nodes[0]
    with Held("before the request", "run", cwd=folder) as daemon:
        daemon.await_step()
        node.pause()
        daemon.release()
        asked_at = time.monotonic()
        daemon.signal(signal.SIGTERM)
        assert daemon.wait(2 * END_S) == 0, daemon.said
        assert time.monotonic() - asked_at < END_S
        assert daemon.events("retentiond.stopped")[0]["abandoned_a_cycle"] is False
        (unclear,) = daemon.events("retentiond.deletion_unclear")
        assert unclear["outcome"] == "unknown"

    recorded = deletion(folder)
    assert recorded.outcome is Outcome.UNKNOWN
    assert recorded.error == unclear["error"]

    node.resume()  # the request is only late, or never left; no one waits for its answer
    _await_leader(driver, topic_name)
    settle(folder)

    eventually(lambda: log_start_if_led(driver.broker, topic_name) == COMMITTED)
    outcomes = [each.outcome for each in read_deletions(folder / "state")]
    assert outcomes in ([Outcome.DELETED], [Outcome.UNKNOWN, Outcome.DELETED])


def test_a_daemon_killed_during_a_request_learns_later_what_became_of_it(
    driver: RealDriver, folder: Path, topic_name: str
) -> None:
    node = driver.broker.nodes[0]
    with Held("while the request is under way", "run", cwd=folder) as daemon:
        daemon.await_step()
        node.pause()
        daemon.kill()

    assert deletion(folder).outcome is None

    node.resume()
    settle(folder)

    eventually(lambda: log_start_if_led(driver.broker, topic_name) == COMMITTED)
    outcomes = [each.outcome for each in read_deletions(folder / "state")]
    assert outcomes in ([Outcome.DELETED], [Outcome.UNKNOWN, Outcome.DELETED])


def test_a_reading_without_answer_is_abandoned_in_time(driver: RealDriver, folder: Path) -> None:
    node = driver.broker.nodes[0]
    with Held("before the first reading", "run", cwd=folder) as daemon:
        daemon.await_step()
        node.pause()
        daemon.release()
        asked_at = time.monotonic()
        daemon.signal(signal.SIGINT)
        assert daemon.wait(2 * END_S) == 0, daemon.said
        assert time.monotonic() - asked_at < END_S
        assert daemon.events("retentiond.stopped")[0]["abandoned_a_cycle"] is True
    assert list(read_deletions(folder / "state")) == []

    node.resume()
    settle(folder)  # nothing holds the lock
