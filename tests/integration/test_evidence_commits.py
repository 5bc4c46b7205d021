"""Commits that go, stay too long, or are not decided yet, on a real broker."""

from __future__ import annotations

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
from tests.contract.real import TIMEOUT_S, RealDriver
from tests.faults.held import log_start
from tests.support.brokers.command import configure
from tests.support.brokers.cycles import Stage, Told, deleted_up_to, row_of, told
from tests.support.command_here import run_here
from tests.support.tiers import OwnKafka
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def driver(own_kafka: OwnKafka) -> Iterator[RealDriver]:
    """A broker that looks for expired commits all the time."""
    config = {"offsets.retention.check.interval.ms": "200"}
    with own_kafka(config=config) as kafka, closing(RealDriver(kafka)) as made:
        yield made


class Expiring(Stage):
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
def stage(driver: RealDriver, tmp_path: Path, topic_name: str) -> Expiring:
    return Expiring(driver, tmp_path, topic_name)


def test_a_group_whose_commits_expired_is_waited_for_until_it_is_forgotten(
    stage: Expiring, tmp_path: Path
) -> None:
    stage.commit(stage.fast, 10)
    stage.commit(stage.slow, 3)
    assert deleted_up_to(stage.retentiond.cycle(), stage.topic) == 3

    stage.expire(stage.slow, 3)
    assert stage.slow not in {each.group_id for each in stage.driver.kafka.list_groups()}
    for _ in range(2):
        report = stage.retentiond.cycle()
        assert told(report, stage.topic) == stage.waits_for_the_slow_group
        assert row_of(report, stage.topic).binding_group == stage.slow
    assert stage.log_start == 3

    configure(tmp_path, "nowhere:9092")
    forgotten = run_here("groups", "forget", stage.slow, "--yes", cwd=tmp_path)
    assert (forgotten.code, forgotten.out) == (0, f"Group {stage.slow} is forgotten.\n")
    assert deleted_up_to(stage.retentiond.cycle(), stage.topic) == stage.log_start == 10


def test_a_commit_that_expires_on_one_partition_holds_that_one(
    driver: RealDriver, tmp_path: Path, topic_name: str
) -> None:
    """As with a consumer that has not committed there for as long as commits are kept."""
    stage = Expiring(driver, tmp_path, topic_name, partitions=2)
    stage.commit(stage.fast, 10, 10)
    stage.commit(stage.slow, 3, 3)
    stage.retentiond.cycle()
    stage.expire(stage.slow, 3, partition=1)
    stage.commit(stage.slow, 5)
    report = stage.retentiond.cycle()
    assert deleted_up_to(report, topic_name, 0) == 5
    assert told(report, topic_name, 1) == stage.waits_for_the_slow_group
    assert [log_start(driver.broker, topic_name, at) for at in (0, 1)] == [5, 3]


def test_a_commit_that_is_older_than_its_topic_does_not_count_when_the_log_grows_past_it(
    stage: Expiring,
) -> None:
    """A consumer that outlives its topic commits its old position, is out of range, and begins at
    the log start. Both topics are written in leader epoch 0."""
    stage.commit(stage.slow, 7)
    stage.retentiond.cycle()
    stage.driver.delete_topic(stage.topic)
    eventually(lambda: not stage.commits(stage.slow))
    stage.driver.create_topic(stage.topic)
    stage.driver.produce(stage.topic, [stage.driver.now_ms] * 6)
    stage.commit(stage.slow, 8)
    assert stage.told == Told(
        "hold",
        "topic_recreated",
        "the topic has another id than before: what was known of it is void",
    )
    report = stage.retentiond.cycle()
    assert told(report, stage.topic) == Told(
        "hold",
        "commit_beyond_end",
        f"group {stage.slow} has committed 8, beyond the high watermark",
    )
    assert row_of(report, stage.topic).high_watermark == 6

    stage.driver.produce(stage.topic, [stage.driver.now_ms] * 6)
    for _ in range(2):
        stage.commit(stage.slow, 8)  # again and again
        report = stage.retentiond.cycle()
        assert told(report, stage.topic) == Told(
            "hold",
            "commit_beyond_end",
            f"group {stage.slow} has committed 8 before this log had so many records, or on an "
            "earlier topic of that name: it counts when it moves",
        )
        assert row_of(report, stage.topic).binding_group == stage.slow
    assert stage.log_start == 0

    stage.commit(stage.slow, 9)
    assert deleted_up_to(stage.retentiond.cycle(), stage.topic) == stage.log_start == 9


def test_a_partition_that_is_added_is_held_from_its_first_record_on_until_it_is_read(
    stage: Expiring,
) -> None:
    stage.commit(stage.fast, 10)
    stage.retentiond.cycle()
    admin = stage.driver.broker.admin()
    admin.create_partitions([NewPartitions(stage.topic, 2)])[stage.topic].result(TIMEOUT_S)
    added = TopicPartition(stage.topic, 1)
    eventually(
        lambda: stage.driver.kafka.offsets([added], OffsetBound.HIGH_WATERMARK) == {added: 0}
    )
    assert told(stage.retentiond.cycle(), *added) == Told("nothing", "empty", "there is no record")

    with closing(RealDriver(stage.driver.broker)) as driver:  # its producer knows the partition
        driver.produce(stage.topic, [driver.now_ms] * 4, partition=1)
    report = stage.retentiond.cycle()
    sentence = f"group {stage.fast} counts for the topic and has no commit on this partition"
    assert told(report, stage.topic, 1) == Told("hold", "group_without_commit", sentence)

    stage.commit(stage.fast, 10, 3)
    assert deleted_up_to(stage.retentiond.cycle(), *added) == 3
    assert log_start(stage.driver.broker, *added) == 3


def test_a_commit_in_an_open_transaction_does_not_count_before_it_is_decided(
    stage: Expiring,
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
        assert deleted_up_to(stage.retentiond.cycle(), stage.topic) == stage.log_start == 4
        assert stage.told == Told(
            "nothing",
            "not_consumed",
            f"group {stage.slow} has consumed nothing from the log start offset on",
        )
        producer.commit_transaction(TIMEOUT_S)
    eventually(lambda: stage.commits(stage.slow) == {0: 9})
    assert deleted_up_to(stage.retentiond.cycle(), stage.topic) == stage.log_start == 9
