"""A whole gather from a real broker.

Single answers are the contract suite's matter (tests/contract), what becomes of them that of
tests/unit/gather; brokers that fail are test_kafka_traps.py's.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from retentiond.kafka.interface import OffsetBound
from retentiond.kafka.network_client import NetworkClient
from retentiond.model import Failure, GroupKind, TopicPartition
from tests.contract.real import RealDriver
from tests.support.brokers.cycles import Retentiond
from tests.support.brokers.gathering import policy, snapshot
from tests.support.brokers.three import OFFSETS_TOPIC
from tests.support.builders.gather_worlds import groups
from tests.support.tiers import OwnKafka

pytestmark = pytest.mark.broker


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


def test_a_cycle_lists_the_topics_once(
    driver: RealDriver, tmp_path: Path, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For their names, and for who is to hold what on disk."""
    driver.filled_topic(topic_name, {f"{topic_name}-readers": 1})
    listings: list[float] = []
    topics = NetworkClient.topics

    async def counted(network: NetworkClient, names: Iterable[str] | None) -> Any:
        if names is None:
            listings.append(time.monotonic())
        return await topics(network, names)

    monkeypatch.setattr(NetworkClient, "topics", counted)
    retentiond = Retentiond(driver.kafka, tmp_path, topic_name)
    for cycles in (1, 2):
        report = retentiond.cycle()
        assert report.disk.problems == ()
        assert report.disk.size_bytes[TopicPartition(topic_name, 0)] > 0
        assert len(listings) == cycles
    driver.kafka.log_dirs()
    assert len(listings) == 3


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
