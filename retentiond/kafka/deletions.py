"""DeleteRecords (KIP-107) through librdkafka: one request to each leader, an answer a partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, TypeAlias

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient

from retentiond.kafka import failures
from retentiond.kafka.grants import with_topic_grant
from retentiond.kafka.librdkafka_offsets import GRACE_S
from retentiond.kafka.port import DeleteFailure, OffsetBound
from retentiond.model import TopicPartition

Target: TypeAlias = int | Literal[OffsetBound.HIGH_WATERMARK]
"""First offset that is kept, or all that is below the high watermark when the leader is asked."""

Answers: TypeAlias = "dict[TopicPartition, int | DeleteFailure]"

KAFKAS_HIGH_WATERMARK = -1


def request(admin: AdminClient, offsets: Mapping[TopicPartition, int], timeout_s: float) -> Answers:
    """The low watermark of each partition, or why there is none.

    ``timeout_s``: how long a leader may wait for its followers. The offsets go out as they are.
    """
    if not offsets:
        return {}
    futures = admin.delete_records(
        [ConfluentPartition(*partition, offset) for partition, offset in offsets.items()],
        request_timeout=timeout_s + GRACE_S / 2,
        operation_timeout=timeout_s,
    )
    answers: Answers = {}
    for key, future in futures.items():
        try:
            low_watermark: int = future.result(timeout_s + GRACE_S).low_watermark
            answers[TopicPartition(key.topic, key.partition)] = low_watermark
        except (KafkaException, TimeoutError) as error:
            failed = failures.of_deletion(error)
            explained = with_topic_grant(failed.failure, key.topic, "Delete")
            answers[TopicPartition(key.topic, key.partition)] = replace(failed, failure=explained)
    return answers


def request_targets(
    admin: AdminClient, targets: Mapping[TopicPartition, Target], timeout_s: float
) -> Answers:
    """As `request`; here alone a high watermark becomes Kafka's -1.

    Raises ValueError for a negative offset.
    """
    return request(admin, {at: _offset(at, target) for at, target in targets.items()}, timeout_s)


def _offset(at: TopicPartition, target: Target) -> int:
    if target is OffsetBound.HIGH_WATERMARK:
        return KAFKAS_HIGH_WATERMARK
    if target < 0:
        raise ValueError(f"refusing to delete {at} up to {target}")
    return target
