"""Readers that are known only as members, on a real broker, with consumers that are killed.

Each topic has ten records, which a fast group has read. Another group reads the topic too, and has
told nobody how far: what it was seen to be once must count for as long as nobody forgets it.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from retentiond.kafka.interface import TopicDescription
from retentiond.model import GroupKind
from tests.contract.real import RealDriver
from tests.faults.held import log_start
from tests.support.brokers.command import configure
from tests.support.brokers.cycles import Stage, Told, deleted_up_to, told
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
    """Whose fast group has read all of it; ``more``: further topics of its policy, which are not
    there yet."""

    def __init__(self, driver: RealDriver, folder: Path, topic: str, *more: str) -> None:
        super().__init__(driver, folder, topic, *more)
        self.commit(self.fast, 10)

    @contextmanager
    def reading(
        self, kind: GroupKind = GroupKind.CLASSIC, topic: str | None = None
    ) -> Iterator[None]:
        """The slow group has a member in the block, and at its end a crash."""
        servers, topic = self.driver.broker.bootstrap_servers, topic or self.topic
        names = f"servers, group, topic = {servers!r}, {self.slow!r}, {topic!r}\n"
        process = subprocess.Popen([sys.executable, "-c", names + textwrap.dedent(CONSUMERS[kind])])
        try:
            eventually(self._subscribed, lambda topics: topic in topics)
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

    def log_start_of(self, topic: str) -> int:
        return log_start(self.driver.broker, topic)

    def told_of(self, topic: str) -> Told:
        return told(self.retentiond.cycle(), topic)

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


def test_an_old_group_that_had_added_the_topic_holds_it_until_it_commits_there(
    stage: Read,
) -> None:
    other = f"{stage.topic}-other"
    stage.driver.create_topic(other)
    stage.driver.commit(stage.slow, {(other, 0): 0})
    with stage.reading():
        assert stage.told.reason == "group_without_commit"
    for _ in range(2):
        assert stage.told == stage.without_commit
    assert stage.log_start == 0

    stage.commit(stage.slow, 4)
    assert deleted_up_to(stage.retentiond.cycle(), stage.topic) == 4


def test_a_reader_that_only_the_guards_reading_shows_is_remembered(stage: Read) -> None:
    reading = stage.reading()
    report = stage.retentiond.cycle(before_guard=reading.__enter__)
    assert told(report, stage.topic).reason == "evidence_changed"
    reading.__exit__(None, None, None)
    stage.driver.delete_group(stage.slow)
    assert stage.told == stage.vanished
    assert stage.log_start == 0


def test_a_reader_of_a_topic_of_which_nothing_goes_is_remembered_from_the_guards_reading(
    driver: RealDriver, tmp_path: Path, topic_name: str
) -> None:
    """The guard reads the partitions alone from which something is to go."""
    other = f"{topic_name}-other"
    stage = Read(driver, tmp_path, topic_name, other)
    driver.create_topic(other)
    reading = stage.reading(topic=other)
    report = stage.retentiond.cycle(before_guard=reading.__enter__)
    assert deleted_up_to(report, stage.topic) == 10
    reading.__exit__(None, None, None)
    driver.delete_group(stage.slow)
    driver.produce(other, [driver.now_ms] * 10)
    driver.commit(stage.fast, {(other, 0): 10})
    assert stage.told_of(other) == stage.vanished
    assert stage.log_start_of(other) == 0


@pytest.mark.parametrize("kind", CONSUMERS)
def test_a_reader_that_waits_for_a_topic_and_crashes_before_it_comes_holds_it(
    driver: RealDriver, tmp_path: Path, topic_name: str, kind: GroupKind
) -> None:
    later = f"{topic_name}-later"
    stage = Read(driver, tmp_path, topic_name, later)
    with stage.reading(kind, later):
        stage.retentiond.cycle()
    driver.filled_topic(later, {stage.fast: 10})
    for _ in range(2):
        assert stage.told_of(later) == stage.without_commit
    driver.delete_group(stage.slow)
    for _ in range(2):
        assert stage.told_of(later) == stage.vanished
    assert stage.log_start_of(later) == 0

    stage.forget()
    assert deleted_up_to(stage.retentiond.cycle(), later) == 10


def test_a_reader_is_remembered_when_its_topic_is_recreated(stage: Read) -> None:
    with stage.reading():
        stage.retentiond.cycle()
    stage.driver.delete_group(stage.slow)
    before = stage.driver.kafka.describe_topics([stage.topic])[stage.topic]
    stage.driver.delete_topic(stage.topic)
    stage.driver.filled_topic(stage.topic, {stage.fast: 10})
    after = stage.driver.kafka.describe_topics([stage.topic])[stage.topic]
    assert isinstance(before, TopicDescription)
    assert isinstance(after, TopicDescription)
    assert before.topic_id != after.topic_id

    assert stage.told.reason == "topic_recreated"
    assert stage.told == stage.vanished
    assert stage.log_start == 0
