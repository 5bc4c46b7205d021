"""What a deletion would do: from where to where, and how many records that spans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from retentiond.delete_records.cluster import Cluster
from retentiond.delete_records.item import Item
from retentiond.kafka.port import OffsetBound
from retentiond.model import Failure


def preview(cluster: Cluster, items: Sequence[Item]) -> list[Item]:
    """The pending items with log start offset and high watermark, where they can be read."""
    pending = [item.at for item in items if item.is_pending]
    if not pending:
        return list(items)
    starts = cluster.offsets(pending, OffsetBound.LOG_START)
    ends = cluster.offsets(pending, OffsetBound.HIGH_WATERMARK)
    return [
        replace(
            item,
            log_start_offset=_known(starts[item.at]),
            high_watermark=_known(ends[item.at]),
        )
        if item.is_pending
        else item
        for item in items
    ]


def refuse_hopeless(items: Sequence[Item]) -> list[Item]:
    """In a dry run, where no broker is asked: what one would refuse, or can't be seen."""
    return [_refused(item) if item.is_pending else item for item in items]


def _refused(item: Item) -> Item:
    if item.log_start_offset is None or item.high_watermark is None:
        return item.failed("its offsets can't be read now; see to its leader")
    if isinstance(item.target, int) and item.target > item.high_watermark:
        return item.failed(
            f"OFFSET_OUT_OF_RANGE: offset {item.target} is beyond the high watermark "
            f"{item.high_watermark}; nothing would be deleted"
        )
    return item


def _known(answer: int | Failure) -> int | None:
    return None if isinstance(answer, Failure) else answer
