"""The brokers one by one: which there are, which of them answer, and what requests each speaks.

A dead broker leaves the cluster's list within seconds. It still shows: in Kafka 4 as a fenced
broker (KIP-1073), before that in the partitions that are assigned to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka.errors import UnrecognizedBrokerVersion
from kafka.protocol.api_key import ApiKey
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.metadata import ApiVersionsRequest

from retentiond import __version__
from retentiond.kafka import protocol_failures
from retentiond.kafka.connection import Connection, Link
from retentiond.model import Failure, TopicPartition

NAMES = {key.value: key.name for key in ApiKey}


@dataclass(frozen=True, slots=True)
class Spoken:
    """What a broker speaks: the highest version of each request, by the request's name.

    ``release``: the Kafka release that first spoke all of it, (major, minor); None where it is
    older than any that is known. No request tells a broker's version itself.
    """

    versions: Mapping[str, int]
    release: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Broker:
    """``address`` is HOST:PORT as it advertises itself; None where only assignments name it.

    ``is_alive``: the cluster counts it among its living brokers.
    """

    broker_id: int
    address: str | None
    is_alive: bool
    spoken: Spoken | Failure


@dataclass(frozen=True, slots=True)
class Brokers:
    """``brokers`` ascending by id; ``leaderless``: the visible partitions that nobody leads."""

    cluster_id: str
    brokers: tuple[Broker, ...]
    leaderless: tuple[TopicPartition, ...]


NOT_ALIVE = Failure("BROKER_NOT_AVAILABLE", "the cluster does not count it among its brokers")


def brokers(connection: Connection) -> Brokers:
    """Every broker that the cluster knows of. Raises `KafkaUnavailable` where none answers."""

    async def ask(link: Link) -> Brokers:
        described = await link.describe_cluster()
        metadata = await link.every_topic()
        addresses = {
            each["broker_id"]: f"{each['host']}:{each['port']}" for each in described["brokers"]
        }
        alive = [each.node_id for each in metadata.brokers]
        partitions = [each for topic in metadata.topics for each in topic.partitions]
        assigned = {node for each in partitions for node in each.replica_nodes}
        answers = await link.send_all([(node, _request()) for node in alive])
        spoken = dict(zip(alive, map(_spoken, answers), strict=True))
        return Brokers(
            cluster_id=str(described["cluster_id"]),
            brokers=tuple(
                Broker(node, addresses.get(node), node in spoken, spoken.get(node, NOT_ALIVE))
                for node in sorted({*addresses, *alive, *assigned})
            ),
            leaderless=tuple(
                TopicPartition(topic.name, each.partition_index)
                for topic in metadata.topics
                for each in topic.partitions
                if each.leader_id < 0
            ),
        )

    return connection.run(ask)


def _request() -> Any:
    return ApiVersionsRequest(
        client_software_name="retentiond", client_software_version=__version__
    )


def _spoken(answer: Any) -> Spoken | Failure:
    if isinstance(answer, Exception):
        return protocol_failures.of_kafka_python(answer)
    if answer.error_code:
        return protocol_failures.of_error_code(answer.error_code)
    versions = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    return Spoken(
        {NAMES[key]: highest for key, (_, highest) in versions.items() if key in NAMES},
        _release(versions),
    )


def _release(versions: Mapping[int, tuple[int, int]]) -> tuple[int, ...] | None:
    try:
        release: tuple[int, ...] = BrokerVersionData(api_versions=versions).broker_version
    except UnrecognizedBrokerVersion:
        return None
    return release
