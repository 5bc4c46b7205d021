"""The command in the audit log: what was asked for, on disk before the request, and the answers.

Both are rows of the table ``actions`` with the same subject, the request's id. The command's own
words are kept too; they hold names of files, and no secret.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from retentiond.delete_records.item import Item
from retentiond.kafka.deletions import KAFKAS_HIGH_WATERMARK
from retentiond.kafka.port import OffsetBound

REQUEST = "delete-records"

OUTCOME = "delete-records-outcome"


def request_detail(arguments: Sequence[str], servers: str, items: Sequence[Item]) -> str:
    """JSON: the partitions that will be asked for."""
    partitions = [
        {"topic": item.topic, "partition": item.partition, "offset": offset_of(item)}
        for item in items
        if item.is_pending
    ]
    return json.dumps(
        {"arguments": list(arguments), "bootstrap_servers": servers, "partitions": partitions}
    )


def outcome_detail(items: Sequence[Item]) -> str:
    """JSON: each partition's outcome, also of those that no request went out for."""
    return json.dumps(
        {
            "partitions": [
                {
                    "topic": item.topic,
                    "partition": item.partition,
                    "outcome": item.outcome.value,
                    "low_watermark": item.low_watermark,
                    "error": item.error,
                }
                for item in items
            ]
        }
    )


def offset_of(item: Item) -> int | None:
    """The target as the offsets file has it: -1 is the high watermark."""
    if item.target is OffsetBound.HIGH_WATERMARK:
        return KAFKAS_HIGH_WATERMARK
    return item.target
