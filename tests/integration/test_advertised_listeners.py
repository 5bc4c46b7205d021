"""A broker that sends its clients to an address where it can't be reached."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from devkit.embedded import EmbeddedKafka
from retentiond.errors import KafkaUnavailable
from retentiond.kafka.cluster import KafkaCluster
from retentiond.kafka.settings.properties import translate
from tests.support.tiers import OwnKafka

pytestmark = pytest.mark.broker

REQUEST_S = 5.0


@pytest.fixture(scope="module")
def nowhere() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@pytest.fixture(scope="module")
def misled(own_kafka: OwnKafka, nowhere: int) -> Iterator[EmbeddedKafka]:
    with own_kafka(
        further_listeners={"ELSEWHERE": "PLAINTEXT"}, advertised_ports={"ELSEWHERE": [nowhere]}
    ) as kafka:
        yield kafka


def test_both_clients_name_the_address_that_was_asked_and_the_one_that_was_given(
    misled: EmbeddedKafka, nowhere: int
) -> None:
    asked = misled.servers_of("ELSEWHERE")
    settings = replace(
        translate({"bootstrap.servers": asked, "socket.timeout.ms": "5000"}),
        request_timeout_s=REQUEST_S,
    )
    with closing(KafkaCluster(settings, lambda *_: None)) as kafka:
        for call in (
            lambda: kafka.describe_topics(["orders"]),  # confluent-kafka
            kafka.cluster_id,  # kafka-python
            kafka.list_groups,
        ):
            with pytest.raises(KafkaUnavailable) as refused:
                call()
            assert str(refused.value) == (
                f"127.0.0.1:{nowhere}, where {asked} sends its clients (advertised.listeners), "
                "can't be asked: the connection is refused; check the broker's "
                "advertised.listeners, and that the broker is up"
            )
