"""A topic's settings, as far as retentiond asks for them, from Kafka's texts to values."""

from __future__ import annotations

from collections.abc import Mapping

from retentiond.kafka.port import TopicConfig

INTERNAL_TOPICS = frozenset(
    {
        "__consumer_offsets",
        "__transaction_state",
        "__share_group_state",
        "__cluster_metadata",
        "__remote_log_metadata",
    }
)
"""Kafka's own topics, also those that its metadata doesn't mark as internal."""

KEYS = (
    "cleanup.policy",
    "retention.ms",
    "retention.bytes",
    "segment.bytes",
    "segment.ms",
    "file.delete.delay.ms",
)


def topic_config(texts: Mapping[str, str]) -> TopicConfig:
    """Of `KEYS`. Raises KeyError where one is missing."""
    retention_ms = int(texts["retention.ms"])
    retention_bytes = int(texts["retention.bytes"])
    return TopicConfig(
        cleanup_policy=frozenset(policy.strip() for policy in texts["cleanup.policy"].split(",")),
        retention_ms=None if retention_ms < 0 else retention_ms,
        retention_bytes=None if retention_bytes < 0 else retention_bytes,
        segment_bytes=int(texts["segment.bytes"]),
        segment_ms=int(texts["segment.ms"]),
        file_delete_delay_ms=int(texts["file.delete.delay.ms"]),
    )
