"""What topics are: their ids, partitions and leaders, and those settings that bear on a decision.

librdkafka asks for every setting of a topic, and makes objects of them all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from kafka.protocol.admin import DescribeConfigsRequest

from retentiond.kafka import protocol_failures
from retentiond.kafka.connection import Connection
from retentiond.kafka.grants import with_topic_grant
from retentiond.kafka.leaders import Leaders
from retentiond.kafka.link import Link
from retentiond.kafka.port import TopicConfig, TopicDescription
from retentiond.kafka.topic_config import INTERNAL_TOPICS, KEYS, topic_config
from retentiond.kafka.topic_ids import as_kafka_prints_it
from retentiond.model import Failure

T = TypeVar("T")

TOPIC = 2
"""The resource type of a topic's configuration."""

UNKNOWN_TOPIC = 3

NO_TOPIC = Failure("UNKNOWN_TOPIC_OR_PART", "there is no such topic")

NO_ID = Failure(
    "NO_TOPIC_ID", "the broker tells no topic id, so one that was recreated could not be told"
)

NOT_ANSWERED = Failure("NOT_ANSWERED", "the broker left the topic out of its answer")


def describe_topics(
    connection: Connection, leaders: Leaders, names: Collection[str]
) -> Mapping[str, TopicDescription | Failure]:
    """As one broker's metadata show them; ``leaders`` learns from it."""

    async def ask(link: Link) -> dict[str, TopicDescription | Failure]:
        topics = (await leaders.read(link, names)).topics
        found = {topic.name: _read(topic, _description, topic.name, "Describe") for topic in topics}
        return {name: found.get(name, NOT_ANSWERED) for name in names}

    return connection.run(ask) if names else {}


def topic_configs(
    connection: Connection, names: Collection[str]
) -> Mapping[str, TopicConfig | Failure]:
    async def ask(link: Link) -> dict[str, TopicConfig | Failure]:
        results = (await link.send(_configs_request(names))).results
        found = {
            result.resource_name: _read(result, _config, result.resource_name, "DescribeConfigs")
            for result in results
        }
        return {name: found.get(name, NOT_ANSWERED) for name in names}

    return connection.run(ask) if names else {}


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
    failure = protocol_failures.of_error_code(answer.error_code)
    return with_topic_grant(failure, topic, operation)


def _description(topic: Any) -> TopicDescription | Failure:
    topic_id = as_kafka_prints_it(topic.topic_id)
    if topic_id is None:
        return NO_ID
    return TopicDescription(
        name=topic.name,
        topic_id=topic_id,
        is_internal=topic.is_internal or topic.name in INTERNAL_TOPICS,
        partitions=tuple(sorted(each.partition_index for each in topic.partitions)),
    )


def _config(result: Any) -> TopicConfig:
    return topic_config({config.name: config.value for config in result.configs})
