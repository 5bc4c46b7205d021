"""A whole gather from a real broker: of each version that the project is tested with, and alone.

Single answers are the contract suite's matter (tests/contract); brokers that fail are
test_kafka_traps.py's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from devkit.embedded import EmbeddedKafka
from retentiond.config import Config
from retentiond.gather import external_positions
from retentiond.kafka.interface import OffsetBound
from retentiond.model import Failure, GroupKind, TopicPartition
from retentiond.snapshot import PartitionReading
from tests.contract.real import RealDriver
from tests.support.brokers.gathering import (
    HOUR_MS,
    Interrupted,
    commits,
    groups,
    partitions,
    policy,
    second_snapshot,
    snapshot,
)
from tests.support.brokers.three import OFFSETS_TOPIC
from tests.support.tiers import OwnKafka
from tests.support.tokens import dripping
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker


@pytest.fixture
def driver(any_kafka: EmbeddedKafka) -> Iterator[RealDriver]:
    with closing(RealDriver(any_kafka)) as made:
        yield made


@pytest.fixture
def new_driver(kafka: EmbeddedKafka) -> Iterator[RealDriver]:
    """On the default version, for what older ones don't know."""
    with closing(RealDriver(kafka)) as made:
        yield made


def old_and_young(driver: RealDriver, topic: str, partition: int = 0) -> None:
    """Four records of two hours ago, two of now."""
    now = driver.now_ms
    driver.produce(topic, [now - 2 * HOUR_MS] * 4 + [now] * 2, partition)


@pytest.mark.timeout(300)
def test_a_members_pattern_that_backtracks_holds_nothing_up(
    new_driver: RealDriver, topic_name: str
) -> None:
    topic = f"{'abcdefgh.' * 5}{topic_name}"
    for each in (topic, topic_name):
        new_driver.create_topic(each)
    new_driver.commit(f"{topic_name}-other", {TopicPartition(topic, 0): 0})
    pattern = f"^(([a-z.]+)+!|{topic_name})"  # its member has joined once it has a partition
    with new_driver.subscribed(topic_name, GroupKind.CONSUMER, pattern=pattern):
        taken = snapshot(new_driver.kafka, policy(topic))

    assert taken.complete
    assert not taken.readers  # beside the group that has committed


@pytest.mark.timeout(300)
def test_an_external_reader_whose_address_drips_holds_its_topic_and_nothing_up(
    new_driver: RealDriver, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external_positions, "MOST_SECONDS", 1.0)
    new_driver.create_topic(topic_name)
    with dripping(first=b"HTTP/1.1 200 OK\r\nX-Header: ") as port:
        place = {"name": "export", "offsets": f"http://127.0.0.1:{port}/"}
        enabled = {"name": topic_name, "retention.commitoffset.enable": True}
        config = Config.model_validate(
            {
                "kafka": {"bootstrap.servers": "not used here:9092"},
                "topics": [{**enabled, "groups": {"external": [place]}}],
            }
        )
        taken = snapshot(new_driver.kafka, config)

    trouble = groups(taken)["export"].problem
    assert trouble is not None
    assert trouble.message == "its address takes more than 1 s to answer"


def test_a_topic_is_gathered_with_its_offsets_groups_and_commits(
    driver: RealDriver, topic_name: str
) -> None:
    full, emptied, empty = (TopicPartition(topic_name, number) for number in range(3))
    billing, search = f"{topic_name}-billing", f"{topic_name}-search"
    driver.create_topic(topic_name, 3, {"retention.ms": str(48 * HOUR_MS)})
    old_and_young(driver, topic_name)
    driver.produce(topic_name, [driver.now_ms - 2 * HOUR_MS] * 3, partition=1)
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


def test_an_open_transaction_ends_what_may_be_deleted(driver: RealDriver, topic_name: str) -> None:
    driver.create_topic(topic_name)
    driver.produce(topic_name, [driver.now_ms - 2 * HOUR_MS] * 3)
    transaction = driver.begin(topic_name, count=2)
    (reading,) = snapshot(driver.kafka, policy(topic_name, minutes=0)).partitions
    transaction.abort()
    assert (reading.high_watermark, reading.last_stable_offset) == (5, 3)
    assert reading.retention_offset == 3


def test_where_no_record_is_young_the_end_that_was_read_before_bounds_the_deletion(
    driver: RealDriver, topic_name: str
) -> None:
    old = driver.now_ms - 2 * HOUR_MS
    driver.create_topic(topic_name)
    driver.produce(topic_name, [old] * 3)
    kafka: Any = Interrupted(
        driver.kafka, "offsets_at", lambda: driver.produce(topic_name, [old] * 2)
    )
    (reading,) = snapshot(kafka, policy(topic_name)).partitions
    assert (reading.high_watermark, reading.retention_offset) == (3, 3)


def test_a_topic_deleted_in_the_midst_of_it_stays_with_its_failure(
    driver: RealDriver, topic_name: str
) -> None:
    other = f"{topic_name}-other"
    for name in (topic_name, other):
        driver.create_topic(name)
    kafka: Any = Interrupted(driver.kafka, "offsets", lambda: driver.delete_topic(topic_name))
    taken = snapshot(kafka, policy(topic_name, other))
    assert {each.name for each in taken.topics} == {topic_name, other}
    found = partitions(taken)
    assert found[TopicPartition(topic_name, 0)].failure is not None
    assert found[TopicPartition(other, 0)].failure is None


def test_a_topic_recreated_in_the_midst_of_it_keeps_the_id_that_was_read(
    driver: RealDriver, topic_name: str
) -> None:
    driver.create_topic(topic_name)

    def recreate() -> None:
        driver.delete_topic(topic_name)
        driver.create_topic(topic_name)

    kafka: Any = Interrupted(driver.kafka, "offsets", recreate)
    first = snapshot(kafka, policy(topic_name))
    only = [TopicPartition(topic_name, 0)]
    second = second_snapshot(driver.kafka, policy(topic_name), first, only)
    assert first.topics[0].topic_id != second.topics[0].topic_id


def test_a_second_reading_sees_what_has_changed_since_the_first(
    driver: RealDriver, topic_name: str
) -> None:
    at = TopicPartition(topic_name, 1)
    driver.create_topic(topic_name, 2)
    old_and_young(driver, topic_name, partition=1)
    driver.commit(topic_name, {at: 4})
    first = snapshot(driver.kafka, policy(topic_name))
    assert commits(first)[topic_name, at] == 4
    driver.commit(topic_name, {at: 2})
    taken = second_snapshot(driver.kafka, policy(topic_name), first, [at])
    assert commits(taken)[topic_name, at] == 2
    assert partitions(taken)[at] == PartitionReading(0, 1, 0, 6, 6, 4)
    unasked = partitions(taken)[TopicPartition(topic_name, 0)]
    assert unasked.failure is not None


def test_groups_of_every_kind_are_counted(new_driver: RealDriver, topic_name: str) -> None:
    driver = new_driver
    driver.create_topic(topic_name)
    names = {kind: f"{topic_name}-{kind}" for kind in GroupKind}
    with (
        driver.subscribed(names[GroupKind.CLASSIC], GroupKind.CLASSIC, [topic_name]),
        driver.subscribed(names[GroupKind.CONSUMER], GroupKind.CONSUMER, [topic_name]),
        driver.subscribed(names[GroupKind.SHARE], GroupKind.SHARE, [topic_name]),
    ):
        taken = eventually(
            lambda: snapshot(driver.kafka, policy(topic_name)),
            lambda found: len(found.readers) == 3,
        )
    found = groups(taken)
    for kind in (GroupKind.CLASSIC, GroupKind.CONSUMER, GroupKind.SHARE):
        assert found[names[kind]].kind is kind
    assert found[names[GroupKind.SHARE]].failure is None
    driver.delete_group(names[GroupKind.SHARE])


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
