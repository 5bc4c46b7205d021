"""A broker's quota: requests wait as it asks for, and nothing fails on its account (KIP-219)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest
from kafka.protocol.admin import AlterClientQuotasRequest

from devkit.embedded import EmbeddedKafka
from retentiond.act.delete import Throttling
from retentiond.config import Config
from retentiond.daemon.engine import Engine
from retentiond.kafka.client import Client
from retentiond.kafka.cluster import KafkaCluster
from retentiond.kafka.interface import THROTTLED, OffsetBound, TopicDescription
from retentiond.kafka.settings.properties import translate
from retentiond.model import TopicPartition
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker

CLIENT = "under-a-quota"

PERCENTAGE = 0.01
"""Of one of the broker's threads: any request takes more."""


def set_quota(kafka: EmbeddedKafka, percentage: float | None) -> None:
    """None: the client has none any more."""
    entry = AlterClientQuotasRequest.EntryData
    request = AlterClientQuotasRequest(
        entries=[
            entry(
                entity=[entry.EntityData(entity_type="client-id", entity_name=CLIENT)],
                ops=[
                    entry.OpData(
                        key="request_percentage", value=percentage or 0.0, remove=percentage is None
                    )
                ],
            )
        ],
        validate_only=False,
    )
    settings = translate({"bootstrap.servers": kafka.bootstrap_servers})
    with closing(Client(settings)) as connection:
        answer = connection.run(lambda link: link.send(request))
    assert [each.error_code for each in answer.entries] == [0]


@pytest.fixture
def hurried(kafka: EmbeddedKafka) -> Iterator[EmbeddedKafka]:
    set_quota(kafka, PERCENTAGE)
    yield kafka
    set_quota(kafka, None)


def test_every_request_waits_its_turn_and_none_fails(
    hurried: EmbeddedKafka, topic_name: str
) -> None:
    hurried.create_topic(topic_name, 1)
    at = TopicPartition(topic_name, 0)
    waited: list[float] = []

    def note(api: str, result: str, seconds: float) -> None:
        assert result == "ok", api
        if api == THROTTLED:
            waited.append(seconds)

    def ask(cluster: KafkaCluster) -> list[float]:
        assert not cluster.coordinator_state().not_at_work
        cluster.list_groups()
        assert isinstance(cluster.describe_topics([topic_name])[topic_name], TopicDescription)
        for bound in OffsetBound:
            assert cluster.offsets([at], bound) == {at: 0}
        return waited

    properties = {"bootstrap.servers": hurried.bootstrap_servers, "client.id": CLIENT}
    with closing(KafkaCluster(translate(properties), note)) as cluster:
        eventually(lambda: ask(cluster))

    assert 0 < max(waited) <= 1.5  # a broker asks for its quota's window at most, a second


def test_a_cycle_knows_how_long_the_brokers_quota_let_its_requests_wait(
    hurried: EmbeddedKafka, tmp_path: Path
) -> None:
    """So that evidence that became too old meanwhile says why."""
    config = Config.model_validate(
        {
            "kafka": {"bootstrap.servers": hurried.bootstrap_servers, "client.id": CLIENT},
            "state_dir": str(tmp_path),
            "topics": [{"name": "orders", "retention.commitoffset.enable": True}],
        }
    )
    engine = Engine(config, Event(), lambda *_: None)
    try:
        assert engine.context.throttling() == Throttling()

        def ask() -> Throttling:
            engine.context.kafka.list_groups()
            return engine.context.throttling()

        waits, last_s = eventually(ask, lambda throttling: throttling.waits > 0)
        assert waits > 0
        assert 0 < last_s <= 1.5
    finally:
        engine.close()
