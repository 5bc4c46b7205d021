"""Two with state directories of their own on one cluster: neither knows of the other."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ConfluentPartition

from retentiond.kafka.interface import Kafka
from retentiond.model import Outcome
from retentiond.state.audit_records import DeletionRecord, read_deletions
from retentiond.tell.report import CycleReport
from tests.contract.real import TIMEOUT_S, RealDriver, connect
from tests.faults.held import Held, log_start
from tests.support.brokers.command import configure
from tests.support.brokers.cycles import Retentiond, Told, deleted_up_to, told
from tests.support.brokers.gathering import Interrupted

pytestmark = pytest.mark.broker

BURST = 20

DELETIONS = 4
"""How often each of the two is to have deleted something."""


@pytest.fixture
def topic(driver: RealDriver, topic_name: str) -> str:
    """With ten records, of which seven are read."""
    return driver.filled_topic(topic_name, {f"readers-of-{topic_name}": 7})


def outcomes(deletions: list[DeletionRecord]) -> list[tuple[int | None, Outcome | None]]:
    return [(each.row.cutoff, each.outcome) for each in deletions]


def test_what_another_one_has_just_deleted_is_not_deleted_again(
    driver: RealDriver, tmp_path: Path, topic: str
) -> None:
    one, other = (Retentiond(driver.kafka, tmp_path / at, topic) for at in ("one", "other"))
    report = one.cycle(before_guard=other.cycle)
    assert told(report, topic) == Told(
        "hold", "evidence_changed", "the log start offset is already 7"
    )
    assert (outcomes(one.audit), outcomes(other.audit)) == ([], [(7, Outcome.DELETED)])
    assert log_start(driver.broker, topic) == 7


def test_two_that_ask_for_the_same_at_the_same_time_are_both_right(
    driver: RealDriver, tmp_path: Path, topic: str
) -> None:
    """They meet twice: before their second readings, which would else be old for whoever waits."""
    guards, requests = Barrier(2, timeout=TIMEOUT_S), Barrier(2, timeout=TIMEOUT_S)

    def cycle(retentiond: Retentiond, kafka: Kafka) -> CycleReport:
        meeting: Any = Interrupted(kafka, "delete_records", requests.wait)
        return retentiond.cycle(kafka=meeting, before_guard=guards.wait)

    second = connect(driver.broker.bootstrap_servers, client_id="retentiond/second")
    with closing(second), ThreadPoolExecutor(2) as both:
        clients = (driver.kafka, second)
        pair = [
            Retentiond(client, tmp_path / name, topic)
            for name, client in zip(("one", "other"), clients, strict=True)
        ]
        reports = list(both.map(cycle, pair, clients))
    assert [deleted_up_to(report, topic) for report in reports] == [7, 7]
    assert [outcomes(each.audit) for each in pair] == [[(7, Outcome.DELETED)]] * 2
    assert log_start(driver.broker, topic) == 7


class Reader:
    """Takes each record in turn; a record that is gone ends it."""

    def __init__(self, servers: str, group: str, topic: str) -> None:
        self.next = 0
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
            }
        )
        self._consumer.assign([ConfluentPartition(topic, 0, 0)])

    def read(self, count: int) -> None:
        """So many records, and commits."""
        for _ in range(count):
            message = self._consumer.poll(30)
            assert message is not None
            assert message.error() is None, message.error()
            assert message.offset() == self.next
            self.next += 1
        self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


def test_two_daemons_delete_no_record_that_is_unread_and_both_audit_logs_are_true(
    driver: RealDriver, tmp_path: Path, topic_name: str
) -> None:
    servers = driver.broker.bootstrap_servers
    driver.create_topic(topic_name)
    folders = [tmp_path / name for name in ("one", "other")]
    for folder in folders:
        folder.mkdir()
        kafka = {"bootstrap.servers": servers, "client.id": f"retentiond/{folder.name}"}
        configure(folder, servers, topic_name, dry_run=False, kafka=kafka)

    def audits() -> list[list[DeletionRecord]]:
        return [list(read_deletions(folder / "state")) for folder in folders]

    with (
        closing(Reader(servers, f"fast-{topic_name}", topic_name)) as fast,
        closing(Reader(servers, f"slow-{topic_name}", topic_name)) as slow,
    ):
        driver.produce(topic_name, [driver.now_ms] * BURST)
        fast.read(BURST)
        slow.read(1)
        with (
            Held("nowhere", "run", cwd=folders[0]) as one,
            Held("nowhere", "run", cwd=folders[1]) as other,
        ):
            for daemon in (one, other):
                daemon.await_events("retentiond.cycle")
            while min(map(len, audits())) < DELETIONS:
                driver.produce(topic_name, [driver.now_ms] * BURST)
                fast.read(BURST)
                slow.read(BURST)
            for daemon in (one, other):
                daemon.signal(signal.SIGTERM)
            assert [daemon.wait(30) for daemon in (one, other)] == [0, 0]
            assert "retentiond.cycle_failed" not in one.said + other.said
        slow.read(fast.next - slow.next)

    # On a busy machine evidence may grow too old for a request; then none goes out.
    recorded = [each for audit in audits() for each in audit]
    deletions = [each for each in recorded if each.outcome is not Outcome.NOT_ATTEMPTED]
    assert {each.outcome for each in deletions} == {Outcome.DELETED}
    cutoffs = [each.row.cutoff or 0 for each in deletions]
    assert max(cutoffs) == log_start(driver.broker, topic_name)
    for deletion, cutoff in zip(deletions, cutoffs, strict=True):
        assert deletion.low_watermark is not None
        assert deletion.low_watermark >= cutoff
        assert cutoff <= min(each.committed_offset for each in deletion.evidence)
