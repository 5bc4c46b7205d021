"""Commits that expire, or are not decided yet, on a real broker. Those that are older than their
topic, or that a new partition lacks: tests/property."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka.protocol.consumer import OffsetCommitRequest

from retentiond.kafka.client import Client
from retentiond.kafka.groups.coordinators import find_coordinators
from retentiond.kafka.network_client import NetworkClient
from retentiond.kafka.settings.properties import translate
from retentiond.model import Failure
from tests.contract.real import TIMEOUT_S, RealDriver
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

        servers = self.driver.broker.bootstrap_servers
        settings = translate({"bootstrap.servers": servers, "client.id": "a-consumer"})
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
