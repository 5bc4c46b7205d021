"""A whole gather from a real broker: of each version that the project is tested with, and alone.

Single answers are the contract suite's matter (tests/contract), what becomes of them that of
tests/unit/gather; brokers that fail are test_kafka_traps.py's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from devkit.embedded import EmbeddedKafka
from retentiond.kafka.interface import OffsetBound
from retentiond.model import Failure, GroupKind, TopicPartition
from retentiond.snapshot import PartitionReading
from tests.contract.real import RealDriver
from tests.support.brokers.gathering import policy, snapshot
from tests.support.brokers.three import OFFSETS_TOPIC
from tests.support.builders.gather_worlds import HOUR_MS, commits, groups, partitions
from tests.support.tiers import OwnKafka
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker


@pytest.fixture
def any_driver(any_kafka: EmbeddedKafka) -> Iterator[RealDriver]:
    with closing(RealDriver(any_kafka)) as made:
        yield made


@pytest.mark.timeout(300)
def test_a_members_pattern_that_backtracks_holds_nothing_up(
    driver: RealDriver, topic_name: str
) -> None:
    topic = f"{'abcdefgh.' * 5}{topic_name}"
    for each in (topic, topic_name):
        driver.create_topic(each)
    driver.commit(f"{topic_name}-other", {TopicPartition(topic, 0): 0})
    pattern = f"^(([a-z.]+)+!|{topic_name})"  # its member has joined once it has a partition
    with driver.subscribed(topic_name, GroupKind.CONSUMER, pattern=pattern):
        taken = snapshot(driver.kafka, policy(topic))

    assert taken.complete
    assert not taken.readers  # beside the group that has committed


def test_a_topic_is_gathered_with_its_offsets_groups_and_commits(
    any_driver: RealDriver, topic_name: str
) -> None:
    driver, old = any_driver, any_driver.now_ms - 2 * HOUR_MS
    full, emptied, empty = (TopicPartition(topic_name, number) for number in range(3))
    billing, search = f"{topic_name}-billing", f"{topic_name}-search"
    driver.create_topic(topic_name, 3, {"retention.ms": str(48 * HOUR_MS)})
    driver.produce(topic_name, [old] * 4 + [driver.now_ms] * 2)
    driver.produce(topic_name, [old] * 3, partition=1)
    driver.kafka.delete_records({emptied: 3})
    driver.commit(billing, {full: 3, emptied: 3})
    with driver.subscribed(search, GroupKind.CLASSIC, [topic_name]):
        taken = eventually(
            lambda: snapshot(driver.kafka, policy(topic_name)),
            lambda found: found.complete and groups(found)[search].state == "Stable",
        )

    (topic,) = taken.topics
    described = driver.kafka.describe_topics([topic_name])[topic_name]
    assert not isinstance(described, Failure)
    assert (topic.topic_id, topic.is_internal) == (described.topic_id, False)
    assert topic.forced_retention_ms == 48 * HOUR_MS
    assert topic.failure is None
    assert partitions(taken) == {
        full: PartitionReading(0, 0, 0, 6, 6, 4),
        emptied: PartitionReading(0, 1, 3, 3, 3, 3),
        empty: PartitionReading(0, 2, 0, 0, 0, 0),
    }
    assert commits(taken) == {(billing, full): 3, (billing, emptied): 3}
    assert groups(taken)[billing].state == "Empty"
    assert {taken.groups[each.group].group_id for each in taken.readers} == {search}
    assert all(each.failure is None for each in (groups(taken)[billing], groups(taken)[search]))


def test_where_nobody_has_committed_yet_a_reading_is_complete_and_makes_no_topic(
    own_kafka: OwnKafka,
) -> None:
    with (
        own_kafka(config={"auto.create.topics.enable": "true"}) as kafka,
        closing(RealDriver(kafka)) as driver,
    ):
        driver.create_topic("orders")
        taken = snapshot(driver.kafka, policy("orders"))
        assert (taken.problems, taken.groups) == ((), ())

        unknown = TopicPartition("unknown", 0)
        assert isinstance(driver.kafka.describe_topics(["unknown"])["unknown"], Failure)
        assert isinstance(driver.kafka.topic_configs(["unknown"])["unknown"], Failure)
        for bound in OffsetBound:
            assert isinstance(driver.kafka.offsets([unknown], bound)[unknown], Failure)
        assert isinstance(driver.kafka.offsets_at({unknown: 0})[unknown], Failure)
        driver.kafka.delete_records({unknown: 1})
        snapshot(driver.kafka, policy("orders", "unknown"))
        assert driver.kafka.topic_names() == {"orders"}

        # The first commit makes the topic of the offsets; from then on it is watched.
        driver.commit("billing", {("orders", 0): 0})
        assert OFFSETS_TOPIC in driver.kafka.topic_names()
        assert groups(snapshot(driver.kafka, policy("orders"))).keys() == {"billing"}
