"""Brokers that are half a second away, and ask for a login in TLS."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import retentiond.cycle
from retentiond.act.delete import MAX_EVIDENCE_AGE_S
from retentiond.kafka.brokers import distances
from retentiond.kafka.client import Client
from retentiond.kafka.cluster import KafkaCluster
from retentiond.kafka.settings.properties import translate
from retentiond.model import TopicPartition
from tests.contract.real import RealDriver
from tests.faults import plain_plan
from tests.support.brokers.command import consumed
from tests.support.brokers.cycles import Retentiond
from tests.support.brokers.far import FarKafka, far_kafka

pytestmark = [pytest.mark.broker, pytest.mark.thorough("a cluster of its own")]

ROUND_TRIP_S = 0.5

DAY_MS, HOUR_MS = 86_400_000, 3_600_000


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FarKafka]:
    with far_kafka(tmp_path_factory.mktemp("far")) as far:
        yield far


@pytest.fixture
def topic(far: FarKafka, topic_name: str) -> str:
    """Of which each broker leads a partition; its old records are read but for the last one."""
    far.move(0)
    far.kafka.create_topic(topic_name, 2, replication_factor=1)
    with closing(RealDriver(far.kafka, far.kafka.internal_servers)) as driver:
        for partition in (0, 1):
            driver.produce(topic_name, [driver.now_ms - DAY_MS] * 3, partition)
            driver.commit(f"readers-of-{topic_name}", {(topic_name, partition): 2})
    far.move(ROUND_TRIP_S)
    return topic_name


def test_a_cycle_deletes_with_evidence_that_is_young_enough(
    far: FarKafka, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retentiond.cycle, "decide", plain_plan.decide)
    entry = consumed(topic) | {"retention.commitoffset.ms": HOUR_MS}
    spark: object = plain_plan.NoSpark()
    with closing(KafkaCluster(translate(far.section), lambda *_: None)) as kafka:
        report = Retentiond(kafka, spark, tmp_path, entry).cycle()  # type: ignore[arg-type]

    assert (report.result, report.records_deleted) == ("ok", 4)
    assert 0 < max(report.evidence_ages_s) < MAX_EVIDENCE_AGE_S


def test_a_deletion_by_hand_reaches_both_leaders(far: FarKafka, topic: str) -> None:
    targets = {TopicPartition(topic, partition): 1 for partition in (0, 1)}
    with closing(KafkaCluster(translate(far.section), lambda *_: None)) as kafka:
        assert topic in kafka.topic_names()
        kafka.get_ready(list(targets))
        assert kafka.look_before_deleting(list(targets)).keys() == {topic}
        assert kafka.delete_up_to(targets, 5.0) == targets


def test_how_far_each_broker_is_can_be_measured(far: FarKafka) -> None:
    far.move(ROUND_TRIP_S)
    with closing(Client(translate(far.section))) as client:
        found = distances(client)
    assert found.keys() == {1, 2}
    assert all(each.request_s >= ROUND_TRIP_S for each in found.values())
    assert all(each.connect_s >= 4 * ROUND_TRIP_S for each in found.values())  # TLS and the login
