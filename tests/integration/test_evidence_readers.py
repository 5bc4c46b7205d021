"""Readers that are known only as members, on a real broker, with consumers that are killed.

A topic has ten records, which a fast group has read. Another group reads it too, and has told
nobody how far: what it was seen to be once must count for as long as nobody forgets it. Other ways
in which such a reader comes and goes: tests/property/test_model_lives.py.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from retentiond.model import GroupKind
from tests.contract.real import RealDriver
from tests.support.brokers.command import configure
from tests.support.brokers.cycles import Stage, Told, deleted_up_to
from tests.support.command_here import run_here
from tests.support.tiers import OwnKafka
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker

QUICK = {
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
}
"""A consumer that is killed has left its group a second later."""

CONSUMERS = {
    GroupKind.CLASSIC: """
        from kafka import KafkaConsumer
        consumer = KafkaConsumer(bootstrap_servers=servers, group_id=group, session_timeout_ms=1000,
                                 heartbeat_interval_ms=200, enable_auto_commit=False)
        consumer.subscribe(topics=[topic])
        while True:
            consumer.poll(timeout_ms=100)
        """,
    GroupKind.CONSUMER: """
        from confluent_kafka import Consumer
        consumer = Consumer({"bootstrap.servers": servers, "group.id": group,
                             "group.protocol": "consumer", "enable.auto.commit": False})
        consumer.subscribe([topic])
        while True:
            consumer.poll(0.1)
        """,
}
"""Processes that read a topic and never commit."""


@pytest.fixture(scope="module")
def driver(own_kafka: OwnKafka) -> Iterator[RealDriver]:
    with own_kafka(config=QUICK) as kafka, closing(RealDriver(kafka)) as made:
        yield made


class Read(Stage):
    """Whose fast group has read all of it."""

    def __init__(self, driver: RealDriver, folder: Path, topic: str) -> None:
        super().__init__(driver, folder, topic)
        self.commit(self.fast, 10)

    @contextmanager
    def reading(self, kind: GroupKind) -> Iterator[None]:
        """The slow group has a member in the block, and at its end a crash."""
        servers = self.driver.broker.bootstrap_servers
        names = f"servers, group, topic = {servers!r}, {self.slow!r}, {self.topic!r}\n"
        process = subprocess.Popen([sys.executable, "-c", names + textwrap.dedent(CONSUMERS[kind])])
        try:
            eventually(self._subscribed, lambda topics: self.topic in topics)
            yield
        finally:
            process.kill()
            process.wait()
        eventually(self.state, lambda state: state == "Empty")

    def state(self) -> str | None:
        groups = {each.group_id: each.state for each in self.driver.kafka.list_groups()}
        return groups.get(self.slow)

    def _subscribed(self) -> frozenset[str]:
        listed = [g for g in self.driver.kafka.list_groups() if g.group_id == self.slow]
        members = self.driver.kafka.members(listed).get(self.slow)
        return getattr(members, "topics", frozenset())

    def forget(self) -> None:
        """As an operator does it."""
        configure(self.folder, self.driver.broker.bootstrap_servers, self.topic)
        done = run_here("groups", "forget", self.slow, "--yes", cwd=self.folder)
        assert done.code == 0, done.err

    @property
    def without_commit(self) -> Told:
        sentence = f"group {self.slow} was seen to read the topic and has no commit on it"
        return Told("hold", "group_without_commit", sentence)

    @property
    def vanished(self) -> Told:
        sentence = f"group {self.slow} was seen to read the topic, has no commit on it, and is gone"
        return Told("hold", "group_vanished", sentence)


@pytest.fixture
def stage(driver: RealDriver, tmp_path: Path, topic_name: str) -> Read:
    return Read(driver, tmp_path, topic_name)


@pytest.mark.parametrize("kind", CONSUMERS)
def test_a_reader_that_crashes_before_its_first_commit_holds_until_it_is_forgotten(
    stage: Read, kind: GroupKind
) -> None:
    with stage.reading(kind):
        assert stage.told.reason == "group_without_commit"
    for _ in range(2):
        assert stage.told == stage.without_commit
    stage.driver.delete_group(stage.slow)
    for _ in range(2):
        assert stage.told == stage.vanished
    assert stage.log_start == 0

    stage.forget()
    assert deleted_up_to(stage.retentiond.cycle(), stage.topic) == 10
