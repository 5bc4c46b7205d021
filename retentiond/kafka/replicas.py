"""Which brokers the cluster assigns each partition to, as every live broker sees it.

Topics are asked for by their names: a listing leaves out those that the principal may not see,
without a word, while a name is answered with an error then. Each broker answers from its own copy
of the metadata, and one that lags behind may not know yet what was assigned a moment ago: so all
of them are asked. Replicas that are being added or removed count as replicas (KIP-455).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from kafka.protocol.admin import DescribeClusterRequest

from retentiond.kafka import protocol_failures
from retentiond.kafka.broker_configs import request_for, settings_in
from retentiond.kafka.connection import Connection
from retentiond.kafka.link import Link, metadata_request
from retentiond.kafka.topic_ids import as_kafka_prints_it
from retentiond.model import Failure

UNKNOWN_TOPIC = 3
"""There is no such topic: said only to principals that may describe it."""

WITH_FENCED = 2
"""DescribeCluster tells of brokers that are down since this version."""

RETENTION_KEYS = {
    "log.retention.ms": 1,
    "log.retention.minutes": 60_000,
    "log.retention.hours": 3_600_000,
}
"""The first that is set counts, as in Kafka; in milliseconds."""


@dataclass(frozen=True, slots=True)
class TopicReplicas:
    """``topic_id``: base64 as Kafka prints it; None of brokers that know no ids.

    ``brokers`` by partition; ``unclear`` are the partitions whose answer had an error.
    """

    topic_id: str | None
    brokers: Mapping[int, frozenset[int]]
    unclear: frozenset[int] = frozenset()


Answer: TypeAlias = TopicReplicas | Failure | None
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
    answers: Mapping[int, Mapping[str, Answer] | Failure]


def read_replicas(connection: Connection, topics: Collection[str]) -> ClusterView:
    """Raises `KafkaUnavailable` when no broker answers."""

    async def ask(link: Link) -> ClusterView:
        await link.offsets_topic()  # today's brokers
        cluster = await link.describe_cluster()
        brokers = cluster["brokers"]
        live = [each["broker_id"] for each in brokers if not each.get("is_fenced")]
        answers = await link.send_all([(broker, metadata_request(topics)) for broker in live])
        return ClusterView(
            cluster_id=str(cluster["cluster_id"]),
            registered=frozenset(each["broker_id"] for each in brokers),
            tells_fenced=link.version_of(DescribeClusterRequest) >= WITH_FENCED,
            may_describe_cluster="DESCRIBE" in (cluster["authorized_operations"] or ()),
            answers={
                broker: protocol_failures.of_kafka_python(answer)
                if isinstance(answer, Exception)
                else _answers(answer)
                for broker, answer in zip(live, answers, strict=True)
            },
        )

    return connection.run(ask)


def read_retention_ms(connection: Connection, broker: int) -> int | Failure | None:
    """The broker's own ``log.retention.*``; None is unlimited."""

    async def ask(link: Link) -> int | Failure | None:
        (answer,) = await link.send_all([(broker, request_for(broker, RETENTION_KEYS))])
        settings = settings_in(answer)
        return settings if isinstance(settings, Failure) else _retention_ms(settings)

    return connection.run(ask)


def _answers(metadata: Any) -> dict[str, Answer]:
    return {topic.name: _answer(topic) for topic in metadata.topics}


def _answer(topic: Any) -> Answer:
    if topic.error_code == UNKNOWN_TOPIC:
        return None
    if topic.error_code:
        return protocol_failures.of_error_code(topic.error_code)
    return TopicReplicas(
        topic_id=as_kafka_prints_it(topic.topic_id),
        brokers={part.partition_index: frozenset(part.replica_nodes) for part in topic.partitions},
        unclear=frozenset(part.partition_index for part in topic.partitions if part.error_code),
    )


def _retention_ms(values: Mapping[str, str]) -> int | Failure | None:
    for key, unit_ms in RETENTION_KEYS.items():
        value = values.get(key)
        if value is not None:
            retention_ms = int(value) * unit_ms
            return None if retention_ms < 0 else retention_ms
    return Failure("NOT_ANSWERED", "the broker did not tell its log.retention.*")
