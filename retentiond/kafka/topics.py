"""What topics are: their ids, partitions and leaders, those settings that bear on a decision, and
what this principal may do on them.

librdkafka asks for every setting of a topic, and makes objects of them all.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from kafka.admin import ACLOperation
from kafka.protocol.admin import DescribeConfigsRequest

from retentiond.kafka.client import Client
from retentiond.kafka.errors.kafka_python import failure_of_code
from retentiond.kafka.errors.remedies import with_topic_grant
from retentiond.kafka.interface import INTERNAL_TOPICS, TopicConfig, TopicDescription
from retentiond.kafka.network_client import NetworkClient, metadata_request
from retentiond.kafka.offsets.leaders import Leaders
from retentiond.model import Failure

T = TypeVar("T")

TOPIC = 2
"""The resource type of a topic's configuration."""

UNKNOWN_TOPIC = 3

NO_TOPIC = Failure("UNKNOWN_TOPIC_OR_PART", "there is no such topic")

NOT_ANSWERED = Failure("NOT_ANSWERED", "the broker left the topic out of its answer")


def describe_topics(
    client: Client, leaders: Leaders, names: Collection[str]
) -> Mapping[str, TopicDescription | Failure]:
    """As one broker's metadata show them; ``leaders`` learns from it."""

    async def ask(network: NetworkClient) -> dict[str, TopicDescription | Failure]:
        topics = (await leaders.read(network, names)).topics
        found = {topic.name: _read(topic, _description, topic.name, "Describe") for topic in topics}
        return {name: found.get(name, NOT_ANSWERED) for name in names}

    return client.run(ask) if names else {}


def topic_configs(client: Client, names: Collection[str]) -> Mapping[str, TopicConfig | Failure]:
    async def ask(network: NetworkClient) -> dict[str, TopicConfig | Failure]:
        results = (await network.send(_configs_request(names))).results
        found = {
            result.resource_name: _read(result, _config, result.resource_name, "DescribeConfigs")
            for result in results
        }
        return {name: found.get(name, NOT_ANSWERED) for name in names}

    return client.run(ask) if names else {}


def _configs_request(names: Collection[str]) -> Any:
    resource = DescribeConfigsRequest.DescribeConfigsResource
    return DescribeConfigsRequest(
        resources=[
            resource(resource_type=TOPIC, resource_name=name, configuration_keys=list(KEYS))
            for name in names
        ]
    )


def _read(
    answer: Any, read: Callable[[Any], T | Failure], topic: str, operation: str
) -> T | Failure:
    """``operation``: the right on the topic that is needed for it."""
    if not answer.error_code:
        return read(answer)
    if answer.error_code == UNKNOWN_TOPIC:
        return NO_TOPIC
    failure = failure_of_code(answer.error_code)
    return with_topic_grant(failure, topic, operation)


def _description(topic: Any) -> TopicDescription:
    return TopicDescription(
        name=topic.name,
        topic_id=as_kafka_prints_it(topic.topic_id),
        is_internal=topic.is_internal or topic.name in INTERNAL_TOPICS,
        partitions=tuple(sorted(each.partition_index for each in topic.partitions)),
    )


def _config(result: Any) -> TopicConfig | Failure:
    try:
        return topic_config({config.name: config.value for config in result.configs})
    except KeyError as missing:
        return Failure("NOT_ANSWERED", f"the broker left {missing} out of the topic's settings")


def as_kafka_prints_it(topic_id: uuid.UUID | None) -> str | None:
    """Base64 in the URL-safe alphabet; None of brokers that know no ids."""
    if topic_id is None or not topic_id.int:
        return None
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


KEYS = (
    "cleanup.policy",
    "retention.ms",
    "retention.bytes",
    "segment.bytes",
    "segment.ms",
    "file.delete.delay.ms",
    "remote.storage.enable",  # not before Kafka 3.6
)


def topic_config(texts: Mapping[str, str]) -> TopicConfig:
    """Of `KEYS`. Raises KeyError where one is missing that decides what may be deleted."""
    retention_ms = int(texts["retention.ms"])
    retention_bytes = int(texts["retention.bytes"])
    return TopicConfig(
        cleanup_policy=frozenset(policy.strip() for policy in texts["cleanup.policy"].split(",")),
        retention_ms=None if retention_ms < 0 else retention_ms,
        retention_bytes=None if retention_bytes < 0 else retention_bytes,
        segment_bytes=_number(texts, "segment.bytes"),
        segment_ms=_number(texts, "segment.ms"),
        file_delete_delay_ms=_number(texts, "file.delete.delay.ms"),
        remote_storage=texts.get("remote.storage.enable") == "true",
    )


def _number(texts: Mapping[str, str], key: str) -> int | None:
    return int(texts[key]) if key in texts else None


NOT_TOLD = Failure("NOT_TOLD", "the broker does not tell what this principal may do there")

NAMES = {operation.value: operation.name for operation in ACLOperation}

Operations = frozenset[str]


def topic_rights(client: Client, topics: Collection[str]) -> Mapping[str, Operations | Failure]:
    """``DESCRIBE``, ``DELETE``, … on each; without an authorizer everything is allowed.

    A topic that may not be seen is a `Failure` with Kafka's TOPIC_AUTHORIZATION_FAILED, whether
    it exists or not; one that does not exist with UNKNOWN_TOPIC_OR_PARTITION.
    """

    async def ask(network: NetworkClient) -> dict[str, Operations | Failure]:
        request = metadata_request(sorted(topics), include_topic_authorized_operations=True)
        metadata = await network.send(request)
        return {topic.name: _of_topic(topic) for topic in metadata.topics}

    return client.run(ask) if topics else {}


def _of_topic(topic: Any) -> Operations | Failure:
    if topic.error_code:
        return failure_of_code(topic.error_code)
    if topic.authorized_operations is None:
        return NOT_TOLD
    return frozenset(
        NAMES[operation] for operation in topic.authorized_operations if operation in NAMES
    )
