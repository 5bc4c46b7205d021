"""What topics are: ids, partitions and leaders, the settings that bear on a decision, and rights.

librdkafka asks for every setting of a topic, and makes objects of them all.

Leaders are remembered for a while. Kafka makes that safe: a request names the leader epoch that it
believes in (KIP-320), and a broker that no longer leads, or leads again, says so instead of
answering. One that was cut off and does not know yet that it no longer leads answers with offsets
that were true: lower ones.
"""

from __future__ import annotations

import base64
import math
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from kafka.protocol.admin import DescribeConfigsRequest

from retentiond.kafka.client import Client
from retentiond.kafka.interface import (
    INTERNAL_TOPICS,
    NO_SUCH_TOPIC,
    NOT_ANSWERED,
    TopicConfig,
    TopicDescription,
)
from retentiond.kafka.network_client import (
    METADATA_FRESH_S,
    UNKNOWN_TOPIC,
    NetworkClient,
    failure_of_code,
    metadata_request,
    operations_in,
)
from retentiond.kafka.remedies import with_topic_grant
from retentiond.model import Failure, TopicPartition

T = TypeVar("T")

TOPIC = 2
"""The resource type of a topic's configuration."""

NO_TOPIC = Failure(NO_SUCH_TOPIC, "there is no such topic")


def list_topics(client: Client) -> Any:
    """The metadata of all topics that are visible."""
    return client.run(lambda network: network.topics(None))


def describe_topics(
    client: Client, leaders: Leaders, names: Collection[str]
) -> Mapping[str, TopicDescription | Failure]:
    """``leaders`` learns from it."""

    async def ask(network: NetworkClient) -> dict[str, TopicDescription | Failure]:
        topics = (await leaders.read(network, names)).topics
        descriptions = {
            topic.name: _read(topic, _description, topic.name, "Describe") for topic in topics
        }
        return {name: descriptions.get(name, NOT_ANSWERED) for name in names}

    return client.run(ask) if names else {}


def topic_configs(client: Client, names: Collection[str]) -> Mapping[str, TopicConfig | Failure]:
    async def ask(network: NetworkClient) -> dict[str, TopicConfig | Failure]:
        resource = DescribeConfigsRequest.DescribeConfigsResource
        resources = [
            resource(resource_type=TOPIC, resource_name=name, configuration_keys=list(KEYS))
            for name in names
        ]
        results = (await network.send(DescribeConfigsRequest(resources=resources))).results
        configs = {
            result.resource_name: _read(result, _config, result.resource_name, "DescribeConfigs")
            for result in results
        }
        return {name: configs.get(name, NOT_ANSWERED) for name in names}

    return client.run(ask) if names else {}


def _read(
    answer: Any, read: Callable[[Any], T | Failure], topic: str, operation: str
) -> T | Failure:
    """``operation``: the right on the topic that is needed for it."""
    if not answer.error_code:
        return read(answer)
    if answer.error_code == UNKNOWN_TOPIC:
        return NO_TOPIC
    return with_topic_grant(failure_of_code(answer.error_code), topic, operation)


def _description(topic: Any) -> TopicDescription:
    return TopicDescription(
        name=topic.name,
        topic_id=as_kafka_prints_it(topic.topic_id),
        is_internal=topic.is_internal or topic.name in INTERNAL_TOPICS,
        partitions=tuple(sorted(partition.partition_index for partition in topic.partitions)),
    )


def as_kafka_prints_it(topic_id: uuid.UUID | None) -> str | None:
    """See `TopicDescription`: in base64's URL-safe alphabet."""
    if topic_id is None or not topic_id.int:
        return None
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


KEYS = (
    "cleanup.policy",
    "retention.ms",
    "retention.bytes",
    "segment.bytes",
    "segment.ms",
    "remote.storage.enable",  # not before Kafka 3.6
)


def _config(result: Any) -> TopicConfig | Failure:
    texts = {config.name: config.value for config in result.configs}
    try:
        retention_ms = int(texts["retention.ms"])
        retention_bytes = int(texts["retention.bytes"])
        cleanup_policy = texts["cleanup.policy"].split(",")
    except KeyError as missing:
        return Failure("NOT_ANSWERED", f"the broker left {missing} out of the topic's settings")
    return TopicConfig(
        cleanup_policy=frozenset(policy.strip() for policy in cleanup_policy),
        retention_ms=None if retention_ms < 0 else retention_ms,
        retention_bytes=None if retention_bytes < 0 else retention_bytes,
        segment_bytes=_number(texts, "segment.bytes"),
        segment_ms=_number(texts, "segment.ms"),
        remote_storage=texts.get("remote.storage.enable") == "true",
    )


def _number(texts: Mapping[str, str], key: str) -> int | None:
    return int(texts[key]) if key in texts else None


NOT_TOLD = Failure("NOT_TOLD", "the broker does not tell what this principal may do there")

Operations = frozenset[str]


def topic_rights(client: Client, topics: Collection[str]) -> Mapping[str, Operations | Failure]:
    """On each, as in `operations_in`.

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
    told = operations_in(topic)
    return NOT_TOLD if told is None else told


NO_LEADER = Failure("LEADER_NOT_AVAILABLE", "nobody leads the partition")

NO_PARTITION = Failure(NO_SUCH_TOPIC, "there is no such partition")


class Leader(NamedTuple):
    node: int
    epoch: int


class Leaders:
    """Knows the leaders of all partitions that were asked about; for coroutines of one `Client`."""

    def __init__(self) -> None:
        self._topics: dict[str, dict[int, Leader | Failure] | Failure] = {}
        self._read_at: dict[str, float] = {}
        self._ids: dict[str, object] = {}
        self._listed: frozenset[str] | None = None  # since then, all topics

    async def of(
        self, network: NetworkClient, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Leader | Failure]:
        """Raises an error of the client where no broker tells."""
        listed, self._listed = self._listed, None
        if listed is not None:
            for remembered in (self._topics, self._read_at, self._ids):
                for name in remembered.keys() - listed:
                    del remembered[name]
        wanted = list(partitions)
        since = time.monotonic() - METADATA_FRESH_S
        topics = {partition.topic for partition in wanted}
        stale = {name for name in topics if self._read_at.get(name, -math.inf) < since}
        if stale:
            await self.read(network, stale)
        return {partition: self._leader(partition) for partition in wanted}

    async def read(self, network: NetworkClient, topics: Collection[str]) -> Any:
        """Anew, whatever is remembered; the metadata of those topics."""
        read_at = time.monotonic()
        metadata = await network.topics(topics)
        self._read_at |= dict.fromkeys(topics, read_at)
        self._topics |= dict.fromkeys(topics, NO_PARTITION)
        self._topics |= {topic.name: _leaders(topic) for topic in metadata.topics}
        self._ids |= {topic.name: topic.topic_id for topic in metadata.topics}
        return metadata

    def topic_id(self, topic: str) -> object:
        """By the last metadata."""
        return self._ids.get(topic)

    def forget(self) -> None:
        """From any thread."""
        self._read_at = {}

    def keep(self, listed: Collection[str]) -> None:
        """Nothing is remembered of other topics, from the next question on. From any thread."""
        self._listed = frozenset(listed)

    def _leader(self, partition: TopicPartition) -> Leader | Failure:
        topic = self._topics[partition.topic]
        return topic if isinstance(topic, Failure) else topic.get(partition.partition, NO_PARTITION)


def _leaders(topic: Any) -> dict[int, Leader | Failure] | Failure:
    if topic.error_code:
        return failure_of_code(topic.error_code)
    return {
        partition.partition_index: NO_LEADER
        if partition.leader_id < 0
        else Leader(partition.leader_id, partition.leader_epoch)
        for partition in topic.partitions
    }
