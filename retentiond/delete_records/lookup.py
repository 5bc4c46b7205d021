"""One look at the metadata before anything is asked for.

Kafka's own tool asks for an unknown topic again and again for a minute. And only names that can
be a topic's reach librdkafka: it cuts one off at a NUL, which would make it another topic's.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from retentiond.delete_records.cluster import Cluster
from retentiond.delete_records.item import Item
from retentiond.errors import KafkaUnavailable
from retentiond.kafka.port import TopicDescription
from retentiond.model import Failure

LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}")

ILLEGAL = Failure(
    "INVALID_TOPIC_EXCEPTION", "no topic can have this name (letters, digits, dot, _ and -)"
)

UNKNOWN = "UNKNOWN_TOPIC_OR_PART"

Described = Mapping[str, TopicDescription | Failure]


def describe(cluster: Cluster, names: Collection[str]) -> Described:
    """Each topic, or why it can't be deleted from. Raises `KafkaUnavailable`."""
    legal = sorted(name for name in set(names) if LEGAL.fullmatch(name))
    described = cluster.describe_topics(legal)
    _raise_if_unreachable(list(described.values()))
    return {name: _explained(described.get(name, ILLEGAL)) for name in names}


def find(cluster: Cluster, items: Sequence[Item]) -> list[Item]:
    """The items, those without a partition failed. Raises `KafkaUnavailable`."""
    described = describe(cluster, {item.topic for item in items})
    return [_found(item, described[item.topic]) for item in items]


def _found(item: Item, topic: TopicDescription | Failure) -> Item:
    if isinstance(topic, Failure):
        return item.failed(str(topic))
    if item.partition not in topic.partitions:
        count = len(topic.partitions)
        has = "only partition 0" if count == 1 else f"{count} partitions, from 0 to {count - 1}"
        return item.failed(f"UNKNOWN_TOPIC_OR_PARTITION: the topic has {has}")
    return replace(item, topic_id=topic.topic_id)


def _explained(topic: TopicDescription | Failure) -> TopicDescription | Failure:
    if isinstance(topic, TopicDescription):
        if topic.is_internal:
            return Failure("INVALID_TOPIC_EXCEPTION", "Kafka's own topic is never deleted from")
        return topic
    if topic.code == UNKNOWN:
        return Failure(
            "UNKNOWN_TOPIC_OR_PARTITION", "there is no such topic, or you may not describe it"
        )
    return topic


def _raise_if_unreachable(answers: Sequence[TopicDescription | Failure]) -> None:
    """Where no topic got an answer, and it is the client that says so (its codes begin with _)."""
    failures = [each for each in answers if isinstance(each, Failure)]
    if failures and len(failures) == len(answers) and all(f.code[0] == "_" for f in failures):
        raise KafkaUnavailable(
            f"the cluster can't be asked: {failures[0]}; check --bootstrap-server, the network "
            "and the credentials in --command-config"
        )
