"""What a deletion would free on disk. kafka-python reads the disks, so this is imported late.

It is a preview's ornament: where the disks can't be read, the bytes stay unknown, without a word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from retentiond.command_config import pem
from retentiond.delete_records.item import Item
from retentiond.disk.predict import Cut, SegmentRules, freed_bytes
from retentiond.disk.reading import NOTHING_READ, DiskReading, sorted_out
from retentiond.errors import RetentiondError
from retentiond.kafka.connection import Connection
from retentiond.kafka.log_dirs import log_dirs
from retentiond.kafka.port import TopicConfig
from retentiond.kafka.properties import ClientSettings
from retentiond.kafka.topics import topic_configs
from retentiond.model import Failure

Configs = Mapping[str, TopicConfig | Failure]


def with_bytes(settings: ClientSettings, items: Sequence[Item]) -> list[Item]:
    """The previewed items that are pending with what they free, where it is known."""
    reading, configs = _read(settings, [item for item in items if item.is_pending])
    return [
        replace(item, predicted_bytes=_predicted(item, reading, configs.get(item.topic)))
        if item.is_pending
        else item
        for item in items
    ]


def _read(settings: ClientSettings, pending: Sequence[Item]) -> tuple[DiskReading, Configs]:
    if not pending or any(name in settings.confluent for name in pem.INLINE):
        return NOTHING_READ, {}  # kafka-python takes no PEM but in files
    connection = Connection(settings)
    try:
        reading = sorted_out(log_dirs(connection), [item.at for item in pending])
        return reading, topic_configs(connection, {item.topic for item in pending})
    except RetentiondError:
        return NOTHING_READ, {}
    finally:
        connection.close()


def _predicted(
    item: Item, reading: DiskReading, config: TopicConfig | Failure | None
) -> int | None:
    replicas = reading.replicas(item.at)
    if replicas is None or not isinstance(config, TopicConfig) or config.segment_bytes is None:
        return None
    if item.log_start_offset is None or item.cutoff is None or item.high_watermark is None:
        return None
    cut = Cut(item.log_start_offset, item.cutoff, item.high_watermark)
    rules = SegmentRules(config.segment_bytes, config.segment_ms, config.retention_bytes)
    return sum(freed_bytes(each.size_bytes, cut, rules) for each in replicas)
