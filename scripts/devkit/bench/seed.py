"""Makes a `Layout` on a broker: topics, records and commits."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any

import numpy as np
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from devkit.bench.layouts import RECORDS, Integers, Layout
from devkit.embedded import EmbeddedKafka

TIMEOUT_S = 600.0
IN_FLIGHT = 32
POLL_S = 0.05
TOPICS_AT_A_TIME = 100

TOPICS_AT_ONCE = 50
"""A producer looks through all partitions that it has ever written to, whenever it sends."""

COMMITS_AT_A_TIME = 2000
"""Of one request: the broker writes each into one batch, below its ``max.message.bytes``."""

NOT_YET = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}

Sent = tuple[ConsumerGroupTopicPartitions, "Future[Any]"]
"""A request, and its answer."""

Committed = Callable[[int, int, Integers], Integers | int]
"""The offsets that a group has committed on a topic's partitions, all by their numbers."""


def seed(kafka: EmbeddedKafka, layout: Layout) -> None:
    """Returns when every record and every commit is there."""
    names = [layout.topic(number) for number in range(layout.topics)]
    admin = kafka.admin()
    for start in range(0, len(names), TOPICS_AT_A_TIME):
        some = names[start : start + TOPICS_AT_A_TIME]
        for future in admin.create_topics(
            [NewTopic(name, layout.partitions, replication_factor=1) for name in some]
        ).values():
            future.result(TIMEOUT_S)
    for start in range(0, len(names), TOPICS_AT_ONCE):
        _produce(kafka.bootstrap_servers, layout, names[start : start + TOPICS_AT_ONCE])
    commit(kafka.bootstrap_servers, layout, layout.committed)


def _produce(servers: str, layout: Layout, names: list[str]) -> None:
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "linger.ms": 50,
            "queue.buffering.max.messages": 1_000_000,
            "log_level": 0,
        }
    )
    for name in names:
        for partition in range(layout.partitions):
            for _ in range(RECORDS):
                producer.produce(name, b"x", partition=partition)
        producer.poll(0)
    if producer.flush(TIMEOUT_S):
        raise TimeoutError(f"the broker took longer than {TIMEOUT_S:g} s for the records")


def commit(
    servers: str, layout: Layout, committed: Committed, groups: Iterable[int] | None = None
) -> None:
    """The commits of all groups, or of some, as consumers without a member send them."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    sent: deque[Sent] = deque()
    for group in range(layout.groups) if groups is None else groups:
        for offsets in _parts(layout, group, committed):
            if len(sent) >= IN_FLIGHT:
                _settle(admin, sent)
            sent.append(_send(admin, ConsumerGroupTopicPartitions(layout.group(group), offsets)))
    while sent:
        _settle(admin, sent)


def _send(admin: AdminClient, request: ConsumerGroupTopicPartitions) -> Sent:
    (answer,) = admin.alter_consumer_group_offsets([request], request_timeout=TIMEOUT_S).values()
    return request, answer


def _settle(admin: AdminClient, sent: deque[Sent]) -> None:
    """Wait for the first; one whose coordinator is not there yet is sent again. The first of all
    makes ``__consumer_offsets``, which then needs its leaders."""
    request, answer = sent.popleft()
    try:
        made = answer.result(TIMEOUT_S).topic_partitions
        errors = {each.error.code() for each in made if each.error is not None}
    except KafkaException as error:
        errors = {error.args[0].code()}
    if errors and not errors <= NOT_YET:
        raise ValueError(f"{request.group_id} could not commit: error codes {errors}")
    if errors:
        time.sleep(POLL_S)
        sent.append(_send(admin, request))


def _parts(layout: Layout, group: int, committed: Committed) -> Iterator[list[TopicPartition]]:
    """Of one request each."""
    partitions = np.arange(layout.partitions)
    topics = list(layout.topics_of(group))
    at_a_time = max(1, COMMITS_AT_A_TIME // layout.partitions)
    for start in range(0, len(topics), at_a_time):
        yield [
            TopicPartition(layout.topic(topic), partition, offset)
            for topic in topics[start : start + at_a_time]
            for partition, offset in enumerate(
                np.broadcast_to(committed(group, topic, partitions), layout.partitions).tolist()
            )
        ]
