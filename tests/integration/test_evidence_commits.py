"""Commits that go, stay too long, or are not decided yet, on a real broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import NewPartitions
from kafka.protocol.consumer import OffsetCommitRequest

from retentiond.kafka.client import Client
from retentiond.kafka.groups.coordinators import find_coordinators
from retentiond.kafka.interface import OffsetBound
from retentiond.kafka.network_client import NetworkClient
from retentiond.kafka.settings.properties import translate
from retentiond.model import Failure, TopicPartition
from retentiond.spark.session import SparkSessions
from tests.contract.real import TIMEOUT_S, RealDriver
from tests.faults.held import log_start
from tests.support.brokers.command import consumed, settings, write
from tests.support.brokers.cycles import Retentiond, Told, deleted_up_to, row_of, told
from tests.support.command_here import run_here
from tests.support.tiers import OwnKafka
from tests.support.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark]


@pytest.fixture(scope="module")
def driver(own_kafka: OwnKafka) -> Iterator[RealDriver]:
    """A broker that looks for expired commits all the time."""
    config = {"offsets.retention.check.interval.ms": "200"}
    with own_kafka(config=config) as kafka, closing(RealDriver(kafka)) as made:
        yield made


class Stage:
    """A topic with ten records in each partition."""

    def __init__(self, driver: RealDriver, topic: str, partitions: int = 1) -> None:
        self.driver = driver
        self.topic = topic
        self.fast, self.slow = f"fast-{topic}", f"slow-{topic}"
        driver.create_topic(topic, partitions)
        for partition in range(partitions):
            driver.produce(topic, [driver.now_ms] * 10, partition)

    def recreate(self, records: int) -> None:
        self.driver.delete_topic(self.topic)
        self.driver.create_topic(self.topic)
        with closing(RealDriver(self.driver.broker)) as driver:  # whose producer knows no other
            driver.produce(self.topic, [driver.now_ms] * records)

    def commit(self, group: str, *offsets: int) -> None:
        """One for each partition, from the first on."""
        self.driver.commit(
            group, {(self.topic, partition): offset for partition, offset in enumerate(offsets)}
        )

    def log_start(self, partition: int = 0) -> int:
        return log_start(self.driver.broker, self.topic, partition)

    def commits(self, group: str) -> dict[int, int | None]:
        found = self.driver.kafka.commits([group])[group]
        assert not isinstance(found, Failure)
        return {each.partition: each.offset for each in found}

    def expire(self, group: str, offset: int, partition: int = 0) -> None:
        """Commits for a millisecond, and returns when the broker has dropped the commit.

        Old clients may say how long a commit is kept (until KIP-211); brokers still heed it, and
        treat it as they do one that is older than ``offsets.retention.minutes``.
        """

        async def commit(network: NetworkClient) -> list[int]:
            topic = OffsetCommitRequest.OffsetCommitRequestTopic
            at = topic.OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offset, committed_metadata=""
            )
            (node,) = (await find_coordinators(network, [group])).values()
            assert isinstance(node, int)
            answer = await network.send(
                OffsetCommitRequest(
                    group_id=group,
                    retention_time_ms=1,
                    topics=[topic(name=self.topic, partitions=[at])],
                    max_version=4,
                ),
                node,
            )
            return [each.error_code for topic in answer.topics for each in topic.partitions]

        settings = translate({"bootstrap.servers": self.driver.broker.bootstrap_servers})
        with closing(Client(settings)) as connection:
            assert connection.run(commit) == [0]
        eventually(lambda: partition not in self.commits(group))


@pytest.fixture
def stage(driver: RealDriver, topic_name: str) -> Stage:
    return Stage(driver, topic_name)


@pytest.fixture
def retentiond(
    driver: RealDriver, spark: SparkSessions, tmp_path: Path, stage: Stage
) -> Retentiond:
    return Retentiond(driver.kafka, spark, tmp_path, stage.topic)


def vanished(group: str) -> Told:
    sentence = f"group {group} once committed here and has no commit any more"
    return Told("hold", "group_vanished", sentence)


def test_a_group_whose_commits_expired_is_waited_for_until_it_is_forgotten(
    stage: Stage, retentiond: Retentiond, tmp_path: Path
) -> None:
    stage.commit(stage.fast, 10)
    stage.commit(stage.slow, 3)
    assert deleted_up_to(retentiond.cycle(), stage.topic) == 3

    stage.expire(stage.slow, 3)
    assert stage.slow not in {each.group_id for each in stage.driver.kafka.list_groups()}
    for _ in range(2):
        report = retentiond.cycle()
        assert told(report, stage.topic) == vanished(stage.slow)
        assert row_of(report, stage.topic).binding_group == stage.slow
    assert stage.log_start() == 3

    write(tmp_path / "retentiond.yaml", settings("nowhere:9092", tmp_path / "state"))
    forgotten = run_here("groups", "forget", stage.slow, "--yes", cwd=tmp_path)
    assert (forgotten.code, forgotten.out) == (0, f"Group {stage.slow} is forgotten.\n")
    assert deleted_up_to(retentiond.cycle(), stage.topic) == stage.log_start() == 10


def test_a_commit_that_expires_on_one_partition_holds_that_one(
    driver: RealDriver, spark: SparkSessions, tmp_path: Path, topic_name: str
) -> None:
    """As with a consumer that has not committed there for as long as commits are kept."""
    stage = Stage(driver, topic_name, partitions=2)
    retentiond = Retentiond(driver.kafka, spark, tmp_path, topic_name)
    stage.commit(stage.fast, 10, 10)
    stage.commit(stage.slow, 3, 3)
    retentiond.cycle()
    stage.expire(stage.slow, 3, partition=1)
    stage.commit(stage.slow, 5)
    report = retentiond.cycle()
    assert deleted_up_to(report, topic_name, 0) == 5
    assert told(report, topic_name, 1) == vanished(stage.slow)
    assert [stage.log_start(partition) for partition in (0, 1)] == [5, 3]


def test_a_group_that_comes_back_below_what_is_gone_is_shown_and_holds(
    stage: Stage, retentiond: Retentiond
) -> None:
    stage.commit(stage.fast, 10)
    stage.commit(stage.slow, 5)
    retentiond.cycle()
    stage.driver.delete_group(stage.slow)
    assert told(retentiond.cycle(), stage.topic) == vanished(stage.slow)
    stage.commit(stage.slow, 2)
    assert told(retentiond.cycle(), stage.topic) == Told(
        "hold", "commit_rewound", f"group {stage.slow} went back to 2, below the log start offset"
    )
    assert stage.log_start() == 5


def test_a_consumer_that_outlives_its_topic_and_commits_its_old_position_holds_the_new_one(
    stage: Stage, retentiond: Retentiond
) -> None:
    stage.commit(stage.slow, 7)
    retentiond.cycle()
    stage.driver.delete_topic(stage.topic)
    eventually(lambda: not stage.commits(stage.slow))
    stage.driver.create_topic(stage.topic)
    stage.driver.produce(stage.topic, [stage.driver.now_ms] * 6)
    stage.commit(stage.slow, 8)

    assert told(retentiond.cycle(), stage.topic) == Told(
        "hold",
        "topic_recreated",
        "the topic has another id than before: what was known of it is void",
    )
    report = retentiond.cycle()
    assert told(report, stage.topic) == Told(
        "hold",
        "commit_beyond_end",
        f"group {stage.slow} has committed 8, beyond the high watermark",
    )
    row = row_of(report, stage.topic)
    assert (row.binding_group, row.binding_committed_offset, row.high_watermark) == (
        stage.slow,
        8,
        6,
    )
    stage.commit(stage.slow, 2)
    assert deleted_up_to(retentiond.cycle(), stage.topic) == stage.log_start() == 2


def test_a_commit_that_is_older_than_its_topic_does_not_count_when_the_log_grows_past_it(
    stage: Stage, retentiond: Retentiond
) -> None:
    """A consumer that outlives its topic commits its old position, is out of range, and begins at
    the log start. Both topics are written in leader epoch 0."""
    stage.commit(stage.slow, 7)
    retentiond.cycle()
    stage.driver.delete_topic(stage.topic)
    eventually(lambda: not stage.commits(stage.slow))
    stage.driver.create_topic(stage.topic)
    stage.driver.produce(stage.topic, [stage.driver.now_ms] * 6)
    stage.commit(stage.slow, 8)
    assert told(retentiond.cycle(), stage.topic).reason == "topic_recreated"

    stage.driver.produce(stage.topic, [stage.driver.now_ms] * 6)
    for _ in range(2):
        stage.commit(stage.slow, 8)  # again and again
        report = retentiond.cycle()
        assert told(report, stage.topic) == Told(
            "hold",
            "commit_beyond_end",
            f"group {stage.slow} has committed 8 before this log had so many records, or on an "
            "earlier topic of that name: it counts when it moves",
        )
        assert row_of(report, stage.topic).binding_group == stage.slow
    assert stage.log_start() == 0

    stage.commit(stage.slow, 9)
    assert deleted_up_to(retentiond.cycle(), stage.topic) == stage.log_start() == 9


class Position:
    """What an external reader has told in a file, or with the batches of a Spark query."""

    def __init__(self, folder: Path, kind: str, topic: str) -> None:
        self._topic = topic
        self._place = folder / "position"
        self._batches = 0
        self.name = f"lake-{topic}"
        self.reader = {"name": self.name, kind: str(self._place)}
        self.tell = {"offsets": self._to_a_file, "spark_checkpoint": self._of_a_batch}[kind]

    def _to_a_file(self, offset: int) -> None:
        self._place.write_text(json.dumps({self._topic: {"0": offset}}))

    def _of_a_batch(self, offset: int) -> None:
        for folder in ("offsets", "commits"):
            (self._place / folder).mkdir(parents=True, exist_ok=True)
        source = json.dumps({self._topic: {"0": offset}})
        (self._place / "offsets" / str(self._batches)).write_text(f"v1\n{{}}\n{source}")
        (self._place / "commits" / str(self._batches)).write_text("v1\n{}")
        self._batches += 1


@pytest.mark.parametrize("kind", ["offsets", "spark_checkpoint"])
def test_an_external_position_that_is_older_than_its_topic_does_not_count_until_it_moves(
    driver: RealDriver, spark: SparkSessions, tmp_path: Path, topic_name: str, kind: str
) -> None:
    """A query goes on from its checkpoint, whatever topic has that name now."""
    stage = Stage(driver, topic_name)
    position = Position(tmp_path, kind, topic_name)
    rules = {"groups": {"external": [position.reader]}}
    retentiond = Retentiond(driver.kafka, spark, tmp_path, consumed(topic_name, **rules))
    position.tell(7)
    assert deleted_up_to(retentiond.cycle(), topic_name) == 7
    stage.recreate(records=12)
    assert told(retentiond.cycle(), topic_name).reason == "topic_recreated"

    for _ in range(2):
        position.tell(7)  # again and again
        report = retentiond.cycle()
        assert told(report, topic_name) == Told(
            "hold",
            "commit_beyond_end",
            f"external reader {position.name} has committed 7 before this log had so many records, "
            "or on an earlier topic of that name: it counts when it moves",
        )
        assert row_of(report, topic_name).binding_group == position.name
    assert stage.log_start() == 0

    position.tell(9)
    assert deleted_up_to(retentiond.cycle(), topic_name) == stage.log_start() == 9


def test_a_partition_that_is_added_is_held_from_its_first_record_on_until_it_is_read(
    stage: Stage, retentiond: Retentiond
) -> None:
    stage.commit(stage.fast, 10)
    retentiond.cycle()
    admin = stage.driver.broker.admin()
    admin.create_partitions([NewPartitions(stage.topic, 2)])[stage.topic].result(TIMEOUT_S)
    added = TopicPartition(stage.topic, 1)
    eventually(
        lambda: stage.driver.kafka.offsets([added], OffsetBound.HIGH_WATERMARK) == {added: 0}
    )
    assert told(retentiond.cycle(), *added) == Told("nothing", "empty", "there is no record")

    with closing(RealDriver(stage.driver.broker)) as driver:  # its producer knows the partition
        driver.produce(stage.topic, [driver.now_ms] * 4, partition=1)
    report = retentiond.cycle()
    sentence = f"group {stage.fast} counts for the topic and has no commit on this partition"
    assert told(report, stage.topic, 1) == Told("hold", "group_without_commit", sentence)

    stage.commit(stage.fast, 10, 3)
    assert deleted_up_to(retentiond.cycle(), stage.topic, 1) == stage.log_start(1) == 3


def test_a_commit_in_an_open_transaction_does_not_count_before_it_is_decided(
    stage: Stage, retentiond: Retentiond
) -> None:
    stage.commit(stage.slow, 4)
    servers = {"bootstrap.servers": stage.driver.broker.bootstrap_servers, "log_level": 0}
    producer = Producer({**servers, "transactional.id": stage.topic})
    producer.init_transactions(TIMEOUT_S)
    with closing(Consumer({**servers, "group.id": stage.slow})) as consumer:
        producer.begin_transaction()
        producer.send_offsets_to_transaction(
            [ConfluentPartition(stage.topic, 0, 9)], consumer.consumer_group_metadata(), TIMEOUT_S
        )
        assert deleted_up_to(retentiond.cycle(), stage.topic) == stage.log_start() == 4
        assert told(retentiond.cycle(), stage.topic) == Told(
            "nothing",
            "not_consumed",
            f"group {stage.slow} has consumed nothing from the log start offset on",
        )
        producer.commit_transaction(TIMEOUT_S)
    eventually(lambda: stage.commits(stage.slow) == {0: 9})
    assert deleted_up_to(retentiond.cycle(), stage.topic) == stage.log_start() == 9
