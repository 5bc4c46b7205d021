"""Offset look-ups through librdkafka, in batches that it is quick with.

A look-up takes librdkafka a time that grows with the square of its partitions (100 ms for 4,000
in one request, 20 ms for the same in eight), so no request is large. `AdminClient.list_offsets`
would make a future, with its lock, for each partition; the class it is built upon takes one for
a whole request. That class is no public API: confluent-kafka's version is pinned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import _AdminClientImpl

from retentiond.model import TopicPartition

T = TypeVar("T")

NO_OFFSET = -1
"""No record is there, or none that young."""

PARTITIONS_PER_REQUEST = 500

REQUESTS_IN_FLIGHT = 16

GRACE_S = 5.0
"""How much longer a future is waited for than its request may take."""


def list_offsets(
    admin: AdminClient,
    asked: Mapping[TopicPartition, int],
    isolation: IsolationLevel,
    timeout_s: float,
    read: Callable[[Any], T],
) -> dict[TopicPartition, T | BaseException]:
    """What ``read`` makes of each partition's answer, or the error that came instead of one.

    ``asked`` holds a timestamp, or one of librdkafka's special values, for each partition.
    """
    found: dict[TopicPartition, T | BaseException] = {}
    for window in _parts(list(asked), PARTITIONS_PER_REQUEST * REQUESTS_IN_FLIGHT):
        sent: list[tuple[Sequence[TopicPartition], Future[dict[ConfluentPartition, Any]]]] = []
        for batch in _parts(window, PARTITIONS_PER_REQUEST):
            future: Future[dict[ConfluentPartition, Any]] = Future()
            _AdminClientImpl.list_offsets(
                admin,
                [ConfluentPartition(*partition, asked[partition]) for partition in batch],
                future,
                isolation_level_value=isolation.value,
                request_timeout=timeout_s,
            )
            sent.append((batch, future))
        for batch, future in sent:
            try:
                answers = future.result(timeout_s + GRACE_S)
            except (KafkaException, TimeoutError) as error:
                found.update(dict.fromkeys(batch, error))
            else:
                found.update(_read(answers, read))
    return found


def offset_in(answer: Any) -> int:
    """As librdkafka gives it: -1 is none, less is a leader that did not answer."""
    return int(answer.offset)


def timestamp_in(answer: Any) -> int | None:
    """Of the record that was found, milliseconds; -1: there is none; None: the leader did not
    answer."""
    return None if answer.offset < NO_OFFSET else int(answer.timestamp)


def _read(
    answers: Mapping[ConfluentPartition, Any], read: Callable[[Any], T]
) -> dict[TopicPartition, T | BaseException]:
    return {
        TopicPartition(key.topic, key.partition): KafkaException(answer)
        if isinstance(answer, KafkaError)
        else read(answer)
        for key, answer in answers.items()
    }


def _parts(partitions: Sequence[TopicPartition], size: int) -> Iterator[Sequence[TopicPartition]]:
    for start in range(0, len(partitions), size):
        yield partitions[start : start + size]
