"""Brokers that are half a second away, each behind a forwarder, and ask for a login in TLS."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from devkit.embedded import EmbeddedKafka
from devkit.forwarder import Forwarder
from retentiond.act.delete import MAX_EVIDENCE_AGE_S
from retentiond.kafka.brokers import distances
from retentiond.kafka.client import Client
from retentiond.kafka.cluster import KafkaCluster
from retentiond.kafka.settings.properties import translate
from retentiond.model import TopicPartition
from tests.contract.real import RealDriver
from tests.support.brokers.command import consumed
from tests.support.brokers.cycles import Retentiond
from tests.support.brokers.secured import KAFKAS_MODULES, PASSWORD, USER, Section
from tests.support.certificates import Authority

pytestmark = pytest.mark.broker

ROUND_TRIP_S = 0.5

DAY_MS, HOUR_MS = 86_400_000, 3_600_000


class FarKafka(NamedTuple):
    """``section`` is its ``kafka`` section. All brokers may move further away."""

    kafka: EmbeddedKafka
    section: Section
    forwarders: list[Forwarder]

    def move(self, round_trip_s: float) -> None:
        for each in self.forwarders:
            each.round_trip_s = round_trip_s


@contextmanager
def far_kafka(folder: Path, brokers: int = 2) -> Iterator[FarKafka]:
    """Clients log in by SASL/PLAIN in TLS. At first it is near."""
    authority = Authority(folder / "authority")
    login = (
        f"{KAFKAS_MODULES}.plain.PlainLoginModule required username=x password=x "
        f'user_{USER}="{PASSWORD}";'
    )
    config = {
        "listener.name.client.ssl.keystore.type": "PEM",
        "listener.name.client.ssl.keystore.location": str(authority.issue("broker").both),
        "listener.name.client.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.client.plain.sasl.jaas.config": login,
    }
    with ExitStack() as stack:
        forwarders = [stack.enter_context(closing(Forwarder())) for _ in range(brokers)]
        kafka = stack.enter_context(
            EmbeddedKafka(
                nodes=brokers,
                security_protocol="SASL_SSL",
                config=config,
                advertised_ports={"CLIENT": [each.port for each in forwarders]},
            )
        )
        for node, each in zip(kafka.nodes, forwarders, strict=True):
            each.target = node.bootstrap_server
        section = {
            "bootstrap.servers": ",".join(each.address for each in forwarders),
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(authority.certificate),
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }
        yield FarKafka(kafka, section, forwarders)


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
    far: FarKafka, topic: str, tmp_path: Path
) -> None:
    entry = consumed(topic) | {"retention.commitoffset.ms": HOUR_MS}
    with closing(KafkaCluster(translate(far.section), lambda *_: None)) as kafka:
        report = Retentiond(kafka, tmp_path, entry).cycle()

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
