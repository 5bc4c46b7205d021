"""Predicts how many bytes the deletions free, from the brokers' disks.

A preview works without the disks: if they can't be read, the bytes stay unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from retentiond.disks.log_dirs import Folders, disk_reading
from retentiond.disks.predictions import DeletedRange, SegmentRules, freed_bytes
from retentiond.errors import RetentiondError
from retentiond.kafka.interface import Kafka, OffsetBound, TopicConfig
from retentiond.model import Failure, TopicPartition
from retentiond.tools.delete_records.partitions import Item


def with_bytes(kafka: Kafka, items: Sequence[Item]) -> list[Item]:
    """The previewed items; pending ones with the bytes that they free, if these are known."""
    pending = [item for item in items if item.is_pending]
    if not pending:
        return list(items)
    try:
        disks = disk_reading(kafka.log_dirs(), [item.at for item in pending])
        configs = kafka.topic_configs({item.topic for item in pending})
        tiered = [item.at for item in pending if _is_tiered(configs.get(item.topic))]
        local_starts = kafka.offsets(tiered, OffsetBound.LOCAL_START)
    except RetentiondError:
        return list(items)
    return [
        _predicted(item, disks.replicas(item.at), configs.get(item.topic), local_starts)
        if item.is_pending
        else item
        for item in items
    ]


def _is_tiered(config: TopicConfig | Failure | None) -> bool:
    return isinstance(config, TopicConfig) and config.remote_storage


def _predicted(
    item: Item,
    replicas: Folders | None,
    config: TopicConfig | Failure | None,
    local_starts: Mapping[TopicPartition, int | Failure],
) -> Item:
    """``local_starts``: the first local offsets of tiered partitions."""
    start, end, cutoff = item.log_start_offset, item.high_watermark, item.cutoff
    local_start = local_starts.get(item.at) if _is_tiered(config) else start
    if replicas is None or not isinstance(config, TopicConfig) or config.segment_bytes is None:
        return item
    if start is None or end is None or cutoff is None or not isinstance(local_start, int):
        return item
    cut = DeletedRange(max(start, local_start), cutoff, end)
    rules = SegmentRules(config.segment_bytes, config.segment_ms, config.retention_bytes)
    freed = [freed_bytes(replica.size_bytes, cut, rules) for replica in replicas]
    return replace(item, predicted_bytes=sum(freed))
