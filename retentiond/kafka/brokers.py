"""The brokers one by one: which there are, which of them answer, and what requests each speaks.

A dead broker leaves the cluster's list within seconds. It still shows: in Kafka 4 as a fenced
broker (KIP-1073), before that in the partitions that are assigned to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka.errors import IncompatibleBrokerVersion, UnrecognizedBrokerVersion
from kafka.protocol.admin import DescribeClusterRequest
from kafka.protocol.api_key import ApiKey
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.metadata import ApiVersionsRequest

from retentiond import __version__
from retentiond.errors import KafkaUnavailable
from retentiond.kafka import protocol_failures
from retentiond.kafka.connection import Connection
from retentiond.kafka.link import Link, metadata_request
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
        node, metadata = await _metadata(link)
        fenced = await _fenced(link, node)
        alive = {each.node_id: f"{each.host}:{each.port}" for each in metadata.brokers}
        partitions = [each for topic in metadata.topics for each in topic.partitions]
        assigned = {replica for each in partitions for replica in each.replica_nodes}
        answers = await link.send_all([(each, _request()) for each in alive])
        spoken = dict(zip(alive, map(_spoken, answers), strict=True))
        addresses = fenced | alive
        return Brokers(
            cluster_id=str(metadata.cluster_id),
            brokers=tuple(
                Broker(each, addresses.get(each), each in alive, spoken.get(each, NOT_ALIVE))
                for each in sorted({*addresses, *assigned})
            ),
            leaderless=tuple(
                TopicPartition(topic.name, each.partition_index)
                for topic in metadata.topics
                for each in topic.partitions
                if each.leader_id < 0
            ),
        )

    return connection.run(ask)


async def _metadata(link: Link) -> tuple[int, Any]:
    """All topics as the first broker shows them that answers, and its id: one that is frozen
    must not be the one that is asked about its fellows."""
    nodes = link.known_brokers()
    answers = await link.send_all([(node, metadata_request(None)) for node in nodes])
    for node, answer in zip(nodes, answers, strict=True):
        if not isinstance(answer, Exception):
            return node, answer
    raise KafkaUnavailable(
        f"none of the {len(nodes)} brokers answers; see that they are up, and that this host "
        "reaches the addresses that they advertise"
    )


async def _fenced(link: Link, node: int) -> dict[int, str]:
    """The addresses of brokers that the cluster knows and does not count among the living."""
    request = DescribeClusterRequest(include_fenced_brokers=True)
    try:
        described = await link.send(request, node)
    except IncompatibleBrokerVersion:  # before Kafka 2.8; and before 4.0 none is shown
        return {}
    return {
        each.broker_id: f"{each.host}:{each.port}" for each in described.brokers if each.is_fenced
    }


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
