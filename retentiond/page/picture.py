"""Pictures as plain geometry, for inline SVG: what becomes of the records, and when they went."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from retentiond.explain.keepers import YOUTH, Keeper, kept_records
from retentiond.model import PlanRow, Reason, Verdict
from retentiond.state.freed import Freed

GO, UNREAD, HELD, YOUNG = "go", "unread", "held", "young"
"""The fates of records, in the order of a log: what goes, what a group has yet to read, what
another hold keeps, what is too young."""

FATES = (GO, UNREAD, HELD, YOUNG)

LEAST_SEEN = 0.75
"""Units of a picture: a part of a thousandth is still to be seen."""


class Part(NamedTuple):
    """A stretch of a bar: from ``x`` on, in the picture's units."""

    fate: str
    x: float
    width: float
    records: int


class Column(NamedTuple):
    """One slot of a history; ``height`` up from the base line."""

    x: float
    y: float
    width: float
    height: float
    slot: int


def fate_of(keeper: Keeper) -> str:
    """What the records are, that are kept on that account."""
    if keeper == YOUTH:
        return YOUNG
    return UNREAD if keeper.reason is Reason.NOT_CONSUMED else HELD


def fates(row: PlanRow) -> dict[str, int]:
    """Records by fate; empty where the offsets are unread."""
    counts = {GO: row.records} if row.verdict is Verdict.DELETE else {}
    for keeper, records in kept_records(row).items():
        fate = fate_of(keeper)
        counts[fate] = counts.get(fate, 0) + records
    return counts


def bar(counts: Mapping[str, int], width: float, whole: int | None = None) -> tuple[Part, ...]:
    """Side by side in the order of `FATES`. ``whole``: how many records fill the width; by
    default these do."""
    total = max(1, whole if whole is not None else sum(counts.values()))
    shown = [(fate, counts[fate]) for fate in FATES if counts.get(fate, 0)]
    widths = [max(LEAST_SEEN, records / total * width) for _, records in shown]
    fit = min(1.0, width / sum(widths)) if widths else 1.0
    parts: list[Part] = []
    x = 0.0
    for (fate, records), part_width in zip(shown, widths, strict=True):
        parts.append(Part(fate, round(x, 2), round(part_width * fit, 2), records))
        x += part_width * fit
    return tuple(parts)


def mark(row: PlanRow, offset: int | None, width: float, whole: int) -> float | None:
    """Where an offset stands in the row's bar; None where it is outside, or not known."""
    start, end = row.log_start_offset, row.high_watermark
    if offset is None or start is None or end is None or not start <= offset <= end:
        return None
    return round(min(width, (offset - start) / max(1, whole) * width), 2)


def most_records(rows: Iterable[PlanRow]) -> int:
    """Of the fullest partition: the scale that makes bars comparable."""
    return max(
        (
            row.high_watermark - row.log_start_offset
            for row in rows
            if row.high_watermark is not None and row.log_start_offset is not None
        ),
        default=0,
    )


def columns(slots: Sequence[Freed], width: float, height: float) -> tuple[Column, ...]:
    """Those in which something went."""
    most = max((slot.records for slot in slots), default=0)
    step = width / max(1, len(slots))
    found = []
    for number, slot in enumerate(slots):
        if slot.records:
            tall = max(1.0, slot.records / most * height)
            found.append(
                Column(
                    round(number * step, 2),
                    round(height - tall, 2),
                    round(step * 0.8, 2),
                    round(tall, 2),
                    number,
                )
            )
    return tuple(found)
