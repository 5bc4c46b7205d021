"""What this principal may do on topics, as the brokers say: operations by Kafka's names."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kafka.admin import ACLOperation

from retentiond.kafka import protocol_failures
from retentiond.kafka.connection import Connection
from retentiond.kafka.link import Link, metadata_request
from retentiond.model import Failure

NOT_TOLD = Failure("NOT_TOLD", "the broker does not tell what this principal may do there")

NAMES = {operation.value: operation.name for operation in ACLOperation}

Operations = frozenset[str]


def topic_rights(
    connection: Connection, topics: Collection[str]
) -> Mapping[str, Operations | Failure]:
    """``DESCRIBE``, ``DELETE``, … on each; without an authorizer everything is allowed.

    A topic that may not be seen is a `Failure` with Kafka's TOPIC_AUTHORIZATION_FAILED, whether
    it exists or not; one that does not exist with UNKNOWN_TOPIC_OR_PARTITION.
    """

    async def ask(link: Link) -> dict[str, Operations | Failure]:
        request = metadata_request(sorted(topics), include_topic_authorized_operations=True)
        metadata = await link.send(request)
        return {topic.name: _of_topic(topic) for topic in metadata.topics}

    return connection.run(ask) if topics else {}


def _of_topic(topic: Any) -> Operations | Failure:
    if topic.error_code:
        return protocol_failures.of_error_code(topic.error_code)
    if topic.authorized_operations is None:
        return NOT_TOLD
    return frozenset(
        NAMES[operation] for operation in topic.authorized_operations if operation in NAMES
    )
