"""What a release, or a setting of its brokers, keeps retentiond from reading."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from devkit.embedded import EmbeddedKafka
from retentiond.model import Failure, TopicPartition
from retentiond.tools.doctor.finding import Level
from tests.contract.real import TIMEOUT_S, RealDriver
from tests.support.brokers.cycles import Retentiond, told
from tests.support.brokers.examined import bad, examined
from tests.support.builders.gather_worlds import HOUR_MS
from tests.support.releases import OLDEST
from tests.support.tiers import OwnKafka
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker


@pytest.fixture
def driver(kafka: EmbeddedKafka) -> Iterator[RealDriver]:
    with closing(RealDriver(kafka)) as made:
        yield made


@pytest.mark.parametrize("ago_ms", [HOUR_MS, -HOUR_MS])
def test_records_that_the_broker_does_not_unpack_name_the_limit_that_is_too_low(
    driver: RealDriver, topic_name: str, ago_ms: int
) -> None:
    """Also where it would find none that young: then it is the newest that it does not tell."""
    driver.create_topic(topic_name)
    producer = Producer(
        {
            "bootstrap.servers": driver.broker.bootstrap_servers,
            "compression.type": "gzip",
            "log_level": 0,
        }
    )
    for _ in range(3):
        producer.produce(topic_name, b"x" * 100_000)
    assert producer.flush(TIMEOUT_S) == 0
    limit = ConfigEntry(
        "max.decompressed.message.bytes", "10000", incremental_operation=AlterConfigOpType.SET
    )
    of_topic = ConfigResource(ConfigResource.Type.TOPIC, topic_name, incremental_configs=[limit])
    admin = driver.broker.admin()
    admin.incremental_alter_configs([of_topic])[of_topic].result(TIMEOUT_S)
    at = TopicPartition(topic_name, 0)

    refused = eventually(
        lambda: driver.kafka.offsets_at({at: driver.now_ms - ago_ms})[at],
        lambda found: isinstance(found, Failure),
    )

    assert isinstance(refused, Failure)
    assert refused.code == "INVALID_RECORD"
    assert "raise max.decompressed.message.bytes" in refused.message


def test_topics_without_an_id_are_held_and_say_what_gives_them_one(
    own_kafka: OwnKafka, tmp_path: Path
) -> None:
    """Kafka gives none while the brokers speak with each other as before 2.8."""
    before = {"inter.broker.protocol.version": "2.7"}
    with (
        own_kafka(version=OLDEST.version, zookeeper=True, config=before) as kafka,
        closing(RealDriver(kafka)) as driver,
    ):
        driver.create_topic("orders", partitions=2)
        driver.produce("orders", [driver.now_ms] * 3)
        driver.commit("billing", {("orders", 0): 3})
        report = Retentiond(driver.kafka, tmp_path, "orders").cycle()
        found = examined(kafka.bootstrap_servers, tmp_path, ["orders"])

    assert [(row.partition, row.topic_id) for row in report.plan.rows] == [(0, None), (1, None)]
    for partition in (0, 1):
        held = told(report, "orders", partition)
        assert (held.verdict, held.reason) == ("hold", "offset_unreadable")
        assert "inter.broker.protocol.version" in (held.sentence or "")
    assert (Level.PROBLEM, "topic orders") in bad(found)
