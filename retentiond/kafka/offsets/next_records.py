"""The next record at or behind an offset that a reader of committed records gets.

A log's last offsets may be no record: markers of transactions, and what was aborted. Both are
fetched, which takes READ on the topic.
"""

from __future__ import annotations

from typing import Any

from kafka.consumer.fetcher import Fetcher
from kafka.errors import KafkaError
from kafka.protocol.consumer import IsolationLevel
from kafka.record import MemoryRecords
from kafka.structs import TopicPartition as PartitionOfClient

from retentiond.kafka.network_client import failure_of_exception
from retentiond.kafka.wire.codecs import add_codecs
from retentiond.model import Failure, TopicPartition

add_codecs()

FURTHER_ON = Failure("NOT_ANSWERED", "what the leader has sent ends before the log does")


def next_record(at: TopicPartition, offset: int, part: Any) -> int | Failure | None:
    """``part``: the partition's part of a Fetch response with READ_COMMITTED. None: there is no
    record up to the high watermark."""
    end = part.high_watermark
    if not part.records:  # what a quota lets through has no end either
        return None if offset < end == part.last_stable_offset else FURTHER_ON
    batches = Fetcher.PartitionRecords(
        offset,
        PartitionOfClient(*at),
        MemoryRecords(part.records),
        isolation_level=IsolationLevel.READ_COMMITTED,
        aborted_transactions=part.aborted_transactions,
    )
    try:
        for record in batches.take():
            return int(record.offset)
    except (KafkaError, ValueError, AssertionError) as error:
        return failure_of_exception(error)
    return None if batches.next_fetch_offset >= end else FURTHER_ON
