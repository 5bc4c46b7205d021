"""What the operator has agreed to at the prompt, and whether it still holds when the answer comes.

Invariant: never more is deleted than was shown. The answer may come hours after the question.
Meanwhile a topic may be recreated or deleted, or records be deleted by somebody else. So
everything is read and judged once more. If some of the shown records may no longer be deleted, the
agreement is void.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from retentiond.kafka.interface import OffsetBound
from retentiond.tools.delete_records.partitions import Item


def as_shown(items: Sequence[Item]) -> list[Item]:
    """The previewed items. The high watermark that is shown takes the place of the target "the high
    watermark"."""
    return [_with_shown_end(item) if item.is_pending else item for item in items]


def _with_shown_end(item: Item) -> Item:
    if item.target is not OffsetBound.HIGH_WATERMARK:
        return item
    if item.high_watermark is None:
        return item.failed("its high watermark can't be read now; check its leader")
    return replace(item, target=item.high_watermark)


def limit_to_shown(shown: Sequence[Item], now: Sequence[Item]) -> list[Item] | None:
    """The items that can be deleted ``now``, with the targets that were ``shown``; None if some
    of the shown records can no longer be deleted. Both lists come from `as_shown`."""
    agreed = {item.at: item for item in shown if item.is_pending}
    present = {item.at: item for item in now}
    if not all(at in present and _still_holds(item, present[at]) for at, item in agreed.items()):
        return None
    return [_limited(item, agreed.get(item.at)) if item.is_pending else item for item in now]


def withdraw(shown: Sequence[Item], now: Sequence[Item]) -> list[Item]:
    """The items of ``now``. A partition fails if records of it were shown and none of them can be
    deleted now."""
    agreed = {item.at: item for item in shown if item.is_pending}
    return [
        item.failed(f"no longer: {item.error}; nothing was deleted")
        if not (item.is_pending or item.has_failed)
        and item.at in agreed
        and not _is_gone(agreed[item.at], item)
        else item
        for item in now
    ]


def _still_holds(shown: Item, now: Item) -> bool:
    """Whether all records that were shown may still go, or are gone already."""
    if now.topic_id != shown.topic_id or now.has_failed:  # another id: other records
        return False
    if not now.is_pending:
        return _is_gone(shown, now)
    return now.cutoff is not None and shown.cutoff is not None and now.cutoff >= shown.cutoff


def _is_gone(shown: Item, now: Item) -> bool:
    """Whether the shown records have been deleted meanwhile by something else."""
    return (
        now.topic_id == shown.topic_id
        and now.log_start_offset is not None
        and shown.cutoff is not None
        and now.log_start_offset >= shown.cutoff
    )


def _limited(now: Item, shown: Item | None) -> Item:
    if shown is None:
        return now.left_out("it was not among what was shown; run the command again")
    return replace(now, target=shown.target)
