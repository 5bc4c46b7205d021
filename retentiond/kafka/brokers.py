"""The brokers one by one: which there are, what they speak, their settings and their clock.

A dead broker leaves the cluster's list within seconds. It still shows: in Kafka 4 as a fenced
broker (KIP-1073), before that in the partitions that are assigned to it.

Kafka has no request for the time. But the active controller answers DescribeQuorum with its own
time as that of its last fetch (KIP-836, Kafka 3.3).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import confluent_kafka
from kafka.errors import IncompatibleBrokerVersion, UnrecognizedBrokerVersion
from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeQuorumRequest,
)
from kafka.protocol.api_key import ApiKey
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.metadata import ApiVersionsRequest

from retentiond import __version__
from retentiond.errors import KafkaUnavailable
from retentiond.kafka.broker_errors import BrokerError
from retentiond.kafka.client import Client
from retentiond.kafka.network_client import (
    NetworkClient,
    failure_of_code,
    failure_of_exception,
    metadata_request,
)
from retentiond.model import Failure, TopicPartition

NEWEST_RELEASE = (4, 4)
"""The newest release that is recognized here; kafka-python recognizes the older ones."""

SINCE_NEWEST = (ApiKey.StreamsGroupDescribe, 1)
"""A request and its version that came with it."""

METADATA_VERSION, SINCE_3_4 = "metadata.version", 8
"""A feature, and the level that 3.4 brought: its requests are those of 3.3 without ZooKeeper."""


Release: TypeAlias = tuple[int, ...]
"""The Kafka release that first spoke all that a broker speaks, (major, minor), `NEWEST_RELEASE`
also for later ones, `UNKNOWN_RELEASE` for older ones than are known. No request tells a broker's
version itself."""

UNKNOWN_RELEASE: Release = (0,)


@dataclass(frozen=True, slots=True)
class Broker:
    """``address`` is HOST:PORT as it advertises itself; None where only assignments name it.

    ``is_alive``: the cluster counts it among its living brokers.
    """

    broker_id: int
    address: str | None
    is_alive: bool
    release: Release | Failure


@dataclass(frozen=True, slots=True)
class Brokers:
    """``brokers`` ascending by id; ``leaderless``: the visible partitions that nobody leads."""

    cluster_id: str
    brokers: tuple[Broker, ...]
    leaderless: tuple[TopicPartition, ...]


class Distance(NamedTuple):
    """How long a broker takes: for a connection with its login, for next to no request, and until
    its name is looked up before the connection."""

    connect_s: float
    request_s: float
    look_up_s: float = 0.0


def distances(client: Client) -> Mapping[int, Distance]:
    """Of each living broker that answers. Raises `KafkaUnavailable` where none does."""

    async def ask(network: NetworkClient) -> dict[int, Distance]:
        await network.brokers()
        looked_up = await network.look_up_times()
        network.disconnect()
        first, second = await network.answer_times(), await network.answer_times()
        return {
            node: Distance(max(0.0, first[node] - second[node]), second[node], looked_up[node])
            for node in sorted(first.keys() & second.keys())
        }

    return client.run(ask)


NOT_ALIVE = Failure("BROKER_NOT_AVAILABLE", "the cluster does not count it among its brokers")


def brokers(client: Client) -> Brokers:
    """Raises `KafkaUnavailable` where no broker answers."""

    async def ask(network: NetworkClient) -> Brokers:
        node, metadata = await _metadata(network)
        fenced = await _fenced(network, node)
        living = {broker.node_id: f"{broker.host}:{broker.port}" for broker in metadata.brokers}
        partitions = [partition for topic in metadata.topics for partition in topic.partitions]
        assigned = {replica for partition in partitions for replica in partition.replica_nodes}
        about_us = {"client_software_name": "retentiond", "client_software_version": __version__}
        answers = await network.send_all(
            [(broker, ApiVersionsRequest(**about_us)) for broker in living]
        )
        releases = dict(zip(living, map(_release_told, answers), strict=True))
        addresses = fenced | living
        return Brokers(
            cluster_id=str(metadata.cluster_id),
            brokers=tuple(
                Broker(
                    broker, addresses.get(broker), broker in living, releases.get(broker, NOT_ALIVE)
                )
                for broker in sorted({*addresses, *assigned})
            ),
            leaderless=tuple(
                TopicPartition(topic.name, partition.partition_index)
                for topic in metadata.topics
                for partition in topic.partitions
                if partition.leader_id < 0
            ),
        )

    return client.run(ask)


async def _metadata(network: NetworkClient) -> tuple[int, Any]:
    """All topics as the first broker shows them that answers, and its id: one that is frozen
    must not be the one that is asked about its fellows."""
    nodes = network.known_brokers()
    answers = await network.send_all([(node, metadata_request(None)) for node in nodes])
    for node, answer in zip(nodes, answers, strict=True):
        if not isinstance(answer, Exception):
            return node, answer
    raise KafkaUnavailable(
        f"none of the {len(nodes)} brokers answers; see that they are up, and that this host "
        "reaches the addresses that they advertise"
    )


async def _fenced(network: NetworkClient, node: int) -> dict[int, str]:
    """The addresses of brokers that the cluster knows and does not count among the living."""
    request = DescribeClusterRequest(include_fenced_brokers=True)
    try:
        described = await network.send(request, node)
    except IncompatibleBrokerVersion:  # before Kafka 2.8; and before 4.0 none is shown
        return {}
    return {
        broker.broker_id: f"{broker.host}:{broker.port}"
        for broker in described.brokers
        if broker.is_fenced
    }


def _release_told(answer: Any) -> Release | Failure:
    if isinstance(answer, Exception):
        return failure_of_exception(answer)
    if answer.error_code:
        return failure_of_code(answer.error_code)
    versions = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}
    features = {feature.name: feature.max_version for feature in answer.supported_features or ()}
    request, version = SINCE_NEWEST
    if versions.get(request.value, (0, -1))[1] >= version:
        return NEWEST_RELEASE
    try:
        release: Release = BrokerVersionData(api_versions=versions).broker_version
    except UnrecognizedBrokerVersion:
        return UNKNOWN_RELEASE
    if release == (3, 3) and features.get(METADATA_VERSION, 0) >= SINCE_3_4:
        return (3, 4)
    return release


BROKER = 4
"""The resource type of a broker's configuration."""


def broker_configs(
    client: Client, names: Collection[str]
) -> Mapping[int, Mapping[str, str] | Failure]:
    async def ask(network: NetworkClient) -> Mapping[int, Mapping[str, str] | Failure]:
        described = await network.describe_cluster()
        live = [node["broker_id"] for node in described["brokers"] if not node.get("is_fenced")]
        answers = await network.send_all([(broker, request_for(broker, names)) for broker in live])
        return dict(zip(live, map(settings_in, answers), strict=True))

    return client.run(ask)


def request_for(broker: int, names: Collection[str]) -> Any:
    """A request that must go to that very broker."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=BROKER, resource_name=str(broker), configuration_keys=list(names)
    )
    return DescribeConfigsRequest(resources=[resource])


def settings_in(answer: Any) -> Mapping[str, str] | Failure:
    """``answer`` is the response, or the error that came instead."""
    if isinstance(answer, Exception):
        return failure_of_exception(answer)
    (result,) = answer.results
    if result.error_code:
        return failure_of_code(result.error_code, result.error_message)
    return {config.name: config.value for config in result.configs if config.value is not None}


METADATA_TOPIC = "__cluster_metadata"

WITH_TIMES = 1

NO_LEADER = Failure("LEADER_NOT_AVAILABLE", "the cluster's controllers have no leader just now")


def cluster_time(client: Client) -> int | Failure | None:
    """None where this cluster does not tell, or not this principal."""

    async def ask(network: NetworkClient) -> int | Failure | None:
        try:
            if network.version_of(DescribeQuorumRequest) < WITH_TIMES:
                return None
        except IncompatibleBrokerVersion:
            return None
        topic = DescribeQuorumRequest.TopicData
        partition = topic.PartitionData(partition_index=0)
        topics = [topic(topic_name=METADATA_TOPIC, partitions=[partition])]
        return _time_of_controller(await network.send(DescribeQuorumRequest(topics=topics)))

    return client.run(ask)


def _time_of_controller(answer: Any) -> int | Failure | None:
    if answer.error_code == BrokerError.CLUSTER_AUTHORIZATION_FAILED.code:
        return None
    if answer.error_code:
        return failure_of_code(answer.error_code)
    ((partition,),) = (topic.partitions for topic in answer.topics)
    if partition.error_code:
        return failure_of_code(partition.error_code)
    for voter in partition.current_voters:
        if voter.replica_id == partition.leader_id:
            time_ms: int = voter.last_fetch_timestamp
            return time_ms if time_ms > 0 else None
    return NO_LEADER


def librdkafka_version() -> str:
    return str(confluent_kafka.libversion()[0])
