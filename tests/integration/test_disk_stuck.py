"""Retention that a move between log directories has brought to a stop, on real brokers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from kafka import KafkaAdminClient

from devkit.embedded import EmbeddedKafka
from retentiond.disks.broker_disks import BrokerDisks
from retentiond.disks.stuck import Patience, Stuck, StuckCause
from retentiond.kafka.interface import Replica
from retentiond.model import Failure, TopicPartition
from tests.contract.real import TIMEOUT_S, RealDriver
from tests.support.brokers.gathering import policy, snapshot
from tests.support.tiers import OwnKafka
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker

MIB = 2**20

THROTTLE = "replica.alter.log.dirs.io.max.bytes.per.second"

CHECK_INTERVAL_MS = 500

WINDOW_S = 60

STOPPED, FREE = 1, 100 * MIB
"""Bytes a second."""

BROKER = {
    "log.retention.check.interval.ms": str(CHECK_INTERVAL_MS),
    "file.delete.delay.ms": "500",
    # What a move copied is averaged over so long: with a quota of nothing, a fetch is the last one.
    "alter.log.dirs.replication.quota.window.num": "2",
    "alter.log.dirs.replication.quota.window.size.seconds": str(WINDOW_S),
}

PATIENCE = Patience(readings=3, ms=4 * CHECK_INTERVAL_MS)


class Stage:
    """Two brokers with two directories each, and a topic on both of them, eight segments long."""

    def __init__(self, kafka: EmbeddedKafka, driver: RealDriver, topic: str) -> None:
        self.at = TopicPartition(topic, 0)
        self.driver = driver
        self.disks = BrokerDisks(PATIENCE, CHECK_INTERVAL_MS)
        self._admin = kafka.admin()
        self._kafka = kafka
        kafka.create_topic(topic, 1, {"segment.bytes": str(MIB)}, replication_factor=2)
        driver.produce(topic, [driver.now_ms] * 80, value=bytes(100_000))

    def look(self) -> tuple[Stuck, ...]:
        """One more reading, and what is stuck by it."""
        taken = snapshot(self.driver.kafka, policy(self.at.topic, minutes=0))
        self.disks.begin(self.driver.kafka)
        reading = self.disks.reading(taken)
        assert reading.problems == ()
        return self.disks.stuck(self.driver.kafka, taken, reading)

    def await_stuck(self, cause: StuckCause) -> Stuck:
        """Looks again and again; what is said of that cause."""
        found = eventually(
            self.look, lambda found: cause in [each.cause for each in found], timeout_s=45
        )
        return next(each for each in found if each.cause is cause)

    def await_nothing_stuck(self) -> None:
        eventually(self.look, lambda found: not found, timeout_s=45)

    def moved_bytes(self, broker: int, there: str) -> int:
        """So far; all of it, once the move has ended."""
        found = self.replicas(broker)
        return found[there].size_bytes if there in found else 0

    def replicas(self, broker: int) -> dict[str, Replica]:
        """Of the topic, by directory."""
        found = self.driver.kafka.log_dirs().brokers[broker]
        assert not isinstance(found, Failure)
        return {
            directory.path: replica
            for directory in found
            for replica in directory.replicas
            if (replica.topic, replica.partition) == self.at
        }

    def leader(self) -> int:
        topics = self._admin.list_topics(self.at.topic, timeout=TIMEOUT_S).topics
        return int(topics[self.at.topic].partitions[0].leader)

    def throttle(self, broker: int, bytes_per_second: int) -> None:
        self._alter(ResourceType.BROKER, str(broker), THROTTLE, bytes_per_second)

    def expire_after(self, ms: int) -> None:
        self._alter(ResourceType.TOPIC, self.at.topic, "retention.ms", ms)

    def move(self, broker: int) -> str:
        """To the broker's other directory, which is returned."""
        (here,) = self.replicas(broker)
        node = next(each for each in self._kafka.nodes if each.node_id == broker)
        (there,) = (str(each) for each in node.log_dirs if str(each) != here)
        admin = KafkaAdminClient(bootstrap_servers=self._kafka.bootstrap_servers)
        try:
            admin.alter_replica_log_dirs({(self.at.topic, 0, broker): there})
        finally:
            admin.close()
        return there

    def _alter(self, kind: ResourceType, name: str, key: str, value: int) -> None:
        entry = ConfigEntry(key, str(value), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(kind, name, incremental_configs=[entry])
        for altered in self._admin.incremental_alter_configs([resource]).values():
            altered.result(TIMEOUT_S)


@pytest.fixture(scope="module")
def kafka(own_kafka: OwnKafka) -> Iterator[EmbeddedKafka]:
    with own_kafka(nodes=2, log_dirs=2, config=BROKER) as kafka:
        yield kafka


@pytest.fixture
def stage(kafka: EmbeddedKafka, topic_name: str) -> Iterator[Stage]:
    with closing(RealDriver(kafka)) as driver:
        yield Stage(kafka, driver, topic_name)


def test_a_normal_move_raises_no_alarm(stage: Stage) -> None:
    """It is let go on step by step, so that readings see it on its way."""
    broker = stage.leader()
    stage.throttle(broker, STOPPED)
    there = stage.move(broker)
    eventually(lambda: there in stage.replicas(broker))
    steps = 0
    while len(stage.replicas(broker)) == 2:
        before, steps = stage.moved_bytes(broker, there), steps + 1
        assert stage.look() == ()
        stage.throttle(broker, steps * MIB // WINDOW_S)
        eventually(
            lambda: stage.replicas(broker),
            partial(has_gone_on, there, before),
            timeout_s=60,
        )
    assert steps > 3
    assert stage.look() == ()


def has_gone_on(there: str, before: int, found: dict[str, Replica]) -> bool:
    return len(found) == 1 or found[there].size_bytes > before


def test_a_move_that_is_throttled_to_a_stop_is_stuck_and_so_is_what_it_keeps_from_being_removed(
    stage: Stage,
) -> None:
    broker = stage.leader()
    stage.throttle(broker, STOPPED)
    there = stage.move(broker)
    move = stage.await_stuck(StuckCause.FUTURE_REPLICA)
    assert move.at == stage.at
    assert f"its move to {there} on broker {broker} has stood at " in move.sentence

    stage.driver.kafka.delete_records({stage.at: 60})
    grows = stage.await_stuck(StuckCause.REPLICA_GROWS)
    assert grows.sentence.startswith(f"broker {broker} keeps ")

    stage.throttle(broker, FREE)
    stage.await_nothing_stuck()
    assert list(stage.replicas(broker)) == [there]


def test_records_that_outlive_the_forced_retention_are_overdue(stage: Stage) -> None:
    broker = stage.leader()
    stage.throttle(broker, STOPPED)
    there = stage.move(broker)
    eventually(lambda: there in stage.replicas(broker))
    stage.expire_after(1000)
    overdue = stage.await_stuck(StuckCause.RETENTION_OVERDUE)
    assert overdue.at == stage.at
    stage.throttle(broker, FREE)
    stage.await_nothing_stuck()
