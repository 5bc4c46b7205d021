"""What is on the brokers' disks (DescribeLogDirs, KIP-113), and what the cluster assigns to them.

Every folder is asked for, and not the topics of the metadata: those that nothing in the metadata
accounts for are orphans (KIP-370). One counts only if the metadata read before does not place it
on its broker, that broker's own metadata read after does not either, and it is still there
then: so a topic that is just being created or deleted, or a reassignment, makes none. A topic
that this principal may not describe is left out of the metadata, and is no orphan either.

Each broker answers from its own copy of the metadata, and one that lags behind may not know yet
what was assigned a moment ago: so all of them are asked, about topics by their names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from kafka.protocol.admin import DescribeClusterRequest, DescribeLogDirsRequest

from retentiond.formatting import HOUR_MS, MINUTE_MS
from retentiond.kafka.broker_errors import BrokerError
from retentiond.kafka.brokers import request_for, settings_in
from retentiond.kafka.client import Client
from retentiond.kafka.interface import LogDir, LogDirs, Replica
from retentiond.kafka.network_client import (
    NO_ERROR,
    UNKNOWN_TOPIC,
    NetworkClient,
    failure_of_code,
    failure_of_exception,
    metadata_request,
)
from retentiond.kafka.topics import as_kafka_prints_it
from retentiond.model import Failure, TopicPartition

NOT_ALLOWED = Failure(
    BrokerError.CLUSTER_AUTHORIZATION_FAILED.name,
    "its log directories are only shown with DESCRIBE on CLUSTER",
)

NOT_YET = Failure("REQUEST_TIMED_OUT", "it has not answered yet; the next cycle asks again")


def log_dirs(
    client: Client, give_up: Callable[[], bool] = lambda: False, listing: Any = None
) -> LogDirs:
    """`NOT_YET` of brokers that have not answered when ``give_up`` says so. ``listing``: the
    metadata of all topics, where another client has just read them."""

    async def ask(network: NetworkClient) -> LogDirs:
        if listing is None:
            metadata = await network.topics(None)
        else:
            metadata = listing
            network.learn(metadata)
        assigned = _assigned(metadata)
        nodes = [broker.node_id for broker in metadata.brokers]
        brokers = await _describe(network, nodes, give_up)
        strangers = {
            node: extra
            for node in nodes
            if (extra := {at for at in _shown(brokers[node]) if node not in assigned.get(at, ())})
        }
        if strangers:
            orphans = await _confirmed(network, strangers)
            brokers = {node: _marked(brokers[node], orphans.get(node, set())) for node in nodes}
        return LogDirs(brokers, assigned)

    return client.run(ask)


def _assigned(metadata: Any) -> dict[TopicPartition, tuple[int, ...]]:
    return {
        TopicPartition(topic.name, partition.partition_index): tuple(partition.replica_nodes)
        for topic in metadata.topics
        if topic.name is not None
        for partition in topic.partitions
    }


async def _describe(
    network: NetworkClient, nodes: list[int], give_up: Callable[[], bool] | None = None
) -> dict[int, tuple[LogDir, ...] | Failure]:
    answers = await network.send_all(
        [(node, DescribeLogDirsRequest(topics=None)) for node in nodes], give_up=give_up
    )
    return {node: _directories(answer) for node, answer in zip(nodes, answers, strict=True)}


def _directories(answer: Any) -> tuple[LogDir, ...] | Failure:
    """A broker has a directory at least: one that shows none does not show them to us."""
    if answer is None:
        return NOT_YET
    if isinstance(answer, Exception):
        return failure_of_exception(answer)
    if error := getattr(answer, "error_code", 0):
        return failure_of_code(error)
    return tuple(map(_directory, answer.results)) or NOT_ALLOWED


def _directory(result: Any) -> LogDir:
    if result.error_code:
        return LogDir(result.log_dir, failure=failure_of_code(result.error_code))
    return LogDir(
        path=result.log_dir,
        replicas=tuple(
            Replica(
                topic.name,
                partition.partition_index,
                partition.partition_size,
                partition.is_future_key,
            )
            for topic in result.topics
            for partition in topic.partitions
        ),
        total_bytes=_known(result.total_bytes),
        usable_bytes=_known(result.usable_bytes),
    )


def _known(figure: int | None) -> int | None:
    """Kafka's -1 is "not known"."""
    return None if figure is None or figure < 0 else figure


def _shown(directories: Iterable[LogDir] | Failure) -> set[TopicPartition]:
    if isinstance(directories, Failure):
        return set()
    return {
        TopicPartition(replica.topic, replica.partition)
        for directory in directories
        for replica in directory.replicas
    }


async def _confirmed(
    network: NetworkClient, strangers: Mapping[int, Collection[TopicPartition]]
) -> dict[int, set[TopicPartition]]:
    """Those that their broker's own metadata don't know, and that are still there after it."""
    nodes = list(strangers)
    answers = await network.send_all(
        [(node, metadata_request(sorted({at.topic for at in strangers[node]}))) for node in nodes]
    )
    again = await _describe(network, nodes)
    return {
        node: _nowhere(answer, strangers[node], node) & _shown(again[node])
        for node, answer in zip(nodes, answers, strict=True)
        if not isinstance(answer, Exception)
    }


def _nowhere(
    metadata: Any, partitions: Collection[TopicPartition], node: int
) -> set[TopicPartition]:
    """Those that the metadata are sure are not the broker's."""
    assigned = _assigned(metadata)
    sure = {
        topic.name for topic in metadata.topics if topic.error_code in (NO_ERROR, UNKNOWN_TOPIC)
    }
    return {at for at in partitions if at.topic in sure and node not in assigned.get(at, ())}


def _marked(
    directories: tuple[LogDir, ...] | Failure, orphans: Collection[TopicPartition]
) -> tuple[LogDir, ...] | Failure:
    if isinstance(directories, Failure) or not orphans:
        return directories
    return tuple(
        replace(
            directory,
            replicas=tuple(
                replica._replace(is_orphan=(replica.topic, replica.partition) in orphans)
                for replica in directory.replicas
            ),
        )
        for directory in directories
    )


CLUSTER_WITH_FENCED_BROKERS = 2
"""DescribeCluster tells of brokers that are down since this version."""

RETENTION_KEYS = {
    "log.retention.ms": 1,
    "log.retention.minutes": MINUTE_MS,
    "log.retention.hours": HOUR_MS,
}
"""The first that is set counts, as in Kafka; in milliseconds."""


@dataclass(frozen=True, slots=True)
class TopicReplicas:
    """``topic_id``: as in `TopicDescription`. ``brokers`` by partition. ``unclear`` are the
    partitions whose answer had an error."""

    topic_id: str | None
    brokers: Mapping[int, frozenset[int]]
    unclear: frozenset[int] = frozenset()


TopicReplicasAnswer: TypeAlias = TopicReplicas | Failure | None
"""None: there is no such topic."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """``registered``: the brokers that the cluster knows, and, where it ``tells_fenced``, also
    those that are down (KIP-1073, Kafka 4.0).

    ``answers``: by live broker, of each topic that was asked for, or why the broker gave none.
    """

    cluster_id: str
    registered: frozenset[int]
    tells_fenced: bool
    may_describe_cluster: bool
    answers: Mapping[int, Mapping[str, TopicReplicasAnswer] | Failure]


def read_replicas(client: Client, topics: Collection[str]) -> ClusterView:
    """Raises `KafkaUnavailable` when no broker answers."""

    async def ask(network: NetworkClient) -> ClusterView:
        await network.offsets_topic()  # today's brokers
        cluster = await network.describe_cluster()
        brokers = cluster["brokers"]
        live = [node["broker_id"] for node in brokers if not node.get("is_fenced")]
        answers = await network.send_all([(broker, metadata_request(topics)) for broker in live])
        return ClusterView(
            cluster_id=str(cluster["cluster_id"]),
            registered=frozenset(node["broker_id"] for node in brokers),
            tells_fenced=network.version_of(DescribeClusterRequest) >= CLUSTER_WITH_FENCED_BROKERS,
            may_describe_cluster="DESCRIBE" in (cluster["authorized_operations"] or ()),
            answers={
                broker: failure_of_exception(answer)
                if isinstance(answer, Exception)
                else {topic.name: _answer(topic) for topic in answer.topics}
                for broker, answer in zip(live, answers, strict=True)
            },
        )

    return client.run(ask)


def read_retention_ms(client: Client, broker: int) -> int | Failure | None:
    """The broker's own ``log.retention.*``; None is unlimited."""

    async def ask(network: NetworkClient) -> int | Failure | None:
        (answer,) = await network.send_all([(broker, request_for(broker, RETENTION_KEYS))])
        settings = settings_in(answer)
        if isinstance(settings, Failure):
            return settings
        for key, unit_ms in RETENTION_KEYS.items():
            if key in settings:
                retention_ms = int(settings[key]) * unit_ms
                return None if retention_ms < 0 else retention_ms
        return Failure("NOT_ANSWERED", "the broker did not tell its log.retention.*")

    return client.run(ask)


def _answer(topic: Any) -> TopicReplicasAnswer:
    if topic.error_code == UNKNOWN_TOPIC:
        return None
    if topic.error_code:
        return failure_of_code(topic.error_code)
    return TopicReplicas(
        topic_id=as_kafka_prints_it(topic.topic_id),
        brokers={part.partition_index: frozenset(part.replica_nodes) for part in topic.partitions},
        unclear=frozenset(part.partition_index for part in topic.partitions if part.error_code),
    )
