"""Bars that show which records go and which stay, as plain geometry for inline SVG."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from retentiond.model import PlanRow, Reason
from retentiond.tell.figures.answers import PartitionAnswer, TopicAnswer
from retentiond.tell.figures.kept_records import KEPT_BY_AGE, KeptBecause

GO, UNREAD, HELD, YOUNG = "go", "unread", "held", "young"
"""Kinds of records, in the order of a log: records that go, records that a group has yet to read,
records that another hold keeps, and records that are too young."""

RECORD_KINDS = (GO, UNREAD, HELD, YOUNG)

LEAST_WIDTH = 0.75
"""The least width of a segment, in the picture's units, so that a tiny part can still be seen."""


class BarSegment(NamedTuple):
    """A segment of a bar, from ``x`` on, in the picture's units."""

    kind: str
    x: float
    width: float
    records: int


def kind_of(keeper: KeptBecause) -> str:
    if keeper == KEPT_BY_AGE:
        return YOUNG
    return UNREAD if keeper.reason is Reason.NOT_CONSUMED else HELD


def records_by_kind(answer: PartitionAnswer | TopicAnswer) -> Counter[str]:
    """Log records by kind; empty if the offsets are unreadable."""
    counts = Counter({GO: answer.records})
    for kept in answer.kept:
        counts[kind_of(kept.keeper)] += kept.records
    return counts


def bar(
    counts: Mapping[str, int], width: float, whole: int | None = None
) -> tuple[BarSegment, ...]:
    """The segments of a bar, in the order of `RECORD_KINDS`. ``whole``: how many records fill the
    width; by default, those in ``counts``."""
    total = max(1, whole if whole is not None else sum(counts.values()))
    shown = [(kind, counts[kind]) for kind in RECORD_KINDS if counts.get(kind, 0)]
    widths = [max(LEAST_WIDTH, records / total * width) for _, records in shown]
    fit = min(1.0, width / sum(widths)) if widths else 1.0
    segments: list[BarSegment] = []
    x = 0.0
    for (kind, records), segment_width in zip(shown, widths, strict=True):
        segments.append(BarSegment(kind, round(x, 2), round(segment_width * fit, 2), records))
        x += segment_width * fit
    return tuple(segments)


def mark(row: PlanRow, offset: int | None, width: float, whole: int) -> float | None:
    """The position of an offset in the row's bar; None if it is outside, or not known."""
    start, end = row.log_start_offset, row.high_watermark
    if offset is None or start is None or end is None or not start <= offset <= end:
        return None
    return round(min(width, (offset - start) / max(1, whole) * width), 2)
