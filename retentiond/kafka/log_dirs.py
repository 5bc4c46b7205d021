"""What is on the brokers' disks: DescribeLogDirs (KIP-113), asked of each broker.

Every folder is asked for, and not the topics of the metadata: those that nothing in the metadata
accounts for are orphans (KIP-370). One counts only if the metadata read before does not place it
on its broker, that broker's own metadata read after does not either, and it is still there
then: so a topic that is just being created or deleted, or a reassignment, makes none. A topic
that this principal may not describe is left out of the metadata, and is no orphan either.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from kafka.protocol.admin import DescribeLogDirsRequest

from retentiond.kafka import protocol_failures
from retentiond.kafka.connection import Connection
from retentiond.kafka.link import Link, metadata_request
from retentiond.kafka.port import LogDir, LogDirs, Replica
from retentiond.model import Failure, TopicPartition

NOT_ALLOWED = Failure(
    "CLUSTER_AUTHORIZATION_FAILED", "its log directories are only shown with DESCRIBE on CLUSTER"
)

UNKNOWN_TOPIC = 3

Assigned = dict[TopicPartition, tuple[int, ...]]


def log_dirs(connection: Connection) -> LogDirs:
    """The directories of each broker of the metadata, or why they are not known."""

    async def ask(link: Link) -> LogDirs:
        metadata = await link.topics(None)
        assigned = _assigned(metadata)
        nodes = [broker.node_id for broker in metadata.brokers]
        brokers = await _describe(link, nodes)
        strangers = {
            node: found
            for node in nodes
            if (found := {at for at in _shown(brokers[node]) if node not in assigned.get(at, ())})
        }
        if strangers:
            orphans = await _confirmed(link, strangers)
            brokers = {node: _marked(brokers[node], orphans.get(node, set())) for node in nodes}
        return LogDirs(brokers, assigned)

    return connection.run(ask)


def _assigned(metadata: Any) -> Assigned:
    return {
        TopicPartition(topic.name, partition.partition_index): tuple(partition.replica_nodes)
        for topic in metadata.topics
        if topic.name is not None
        for partition in topic.partitions
    }


async def _describe(link: Link, nodes: list[int]) -> dict[int, tuple[LogDir, ...] | Failure]:
    answers = await link.send_all([(node, DescribeLogDirsRequest(topics=None)) for node in nodes])
    return {node: _directories(answer) for node, answer in zip(nodes, answers, strict=True)}


def _directories(answer: Any) -> tuple[LogDir, ...] | Failure:
    """A broker has a directory at least: one that shows none does not show them to us."""
    if isinstance(answer, Exception):
        return protocol_failures.of_kafka_python(answer)
    if error := getattr(answer, "error_code", 0):
        return protocol_failures.of_error_code(error)
    return tuple(map(_directory, answer.results)) or NOT_ALLOWED


def _directory(result: Any) -> LogDir:
    if result.error_code:
        failure = protocol_failures.of_error_code(result.error_code)
        return LogDir(result.log_dir, failure=failure)
    return LogDir(
        path=result.log_dir,
        replicas=tuple(
            Replica(
                topic.name,
                partition.partition_index,
                partition.partition_size,
                _known(partition.offset_lag),
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
    link: Link, strangers: Mapping[int, Collection[TopicPartition]]
) -> dict[int, set[TopicPartition]]:
    """Those that their broker's own metadata don't know, and that are still there after it."""
    nodes = list(strangers)
    answers = await link.send_all(
        [(node, metadata_request(sorted({at.topic for at in strangers[node]}))) for node in nodes]
    )
    again = await _describe(link, nodes)
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
    sure = {topic.name for topic in metadata.topics if topic.error_code in (0, UNKNOWN_TOPIC)}
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
