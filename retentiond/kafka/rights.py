"""What this principal may do, as the brokers say it: operations by the names of Kafka's ACLs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.admin import ACLOperation
from kafka.protocol.metadata import MetadataRequest

from retentiond.kafka import protocol_failures
from retentiond.kafka.connection import Connection, Link
from retentiond.model import Failure

NOT_TOLD = Failure("NOT_TOLD", "the broker does not tell what this principal may do there")

NAMES = {operation.value: operation.name for operation in ACLOperation}

Operations = frozenset[str]


@dataclass(frozen=True, slots=True)
class Rights:
    """``DESCRIBE``, ``DELETE``, …; without an authorizer everything is allowed.

    A topic that may not be seen is a `Failure` with Kafka's TOPIC_AUTHORIZATION_FAILED, whether
    it exists or not; one that does not exist with UNKNOWN_TOPIC_OR_PARTITION.
    """

    cluster: Operations | Failure
    topics: Mapping[str, Operations | Failure]


def rights(connection: Connection, topics: Collection[str]) -> Rights:
    """On the cluster, and on each of those topics."""

    async def ask(link: Link) -> Rights:
        cluster = await link.describe_cluster()
        told = cluster["authorized_operations"]
        metadata = await link.send(_request(topics)) if topics else None
        return Rights(
            cluster=NOT_TOLD if told is None else frozenset(told),
            topics={topic.name: _of_topic(topic) for topic in metadata.topics} if metadata else {},
        )

    return connection.run(ask)


def _request(topics: Collection[str]) -> Any:
    asked = [MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(topics)]
    return MetadataRequest(
        topics=asked,
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )


def _of_topic(topic: Any) -> Operations | Failure:
    if topic.error_code:
        return protocol_failures.of_error_code(topic.error_code)
    if topic.authorized_operations is None:
        return NOT_TOLD
    return frozenset(
        NAMES[operation] for operation in topic.authorized_operations if operation in NAMES
    )
