"""Pictures as plain geometry, for inline SVG: what becomes of the records, and when they went.

When they went is read from the audit log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from retentiond.formatting import DAY_MS, HOUR_MS
from retentiond.model import PlanRow, Reason
from retentiond.state.audit_figures import FreedInSlot, Slots, freed_over_time
from retentiond.tell.answers import YOUTH, KeptBecause, PartitionAnswer, TopicAnswer

GO, UNREAD, HELD, YOUNG = "go", "unread", "held", "young"
"""The fates of records, in the order of a log: what goes, what a group has yet to read, what
another hold keeps, what is too young."""

FATES = (GO, UNREAD, HELD, YOUNG)

LEAST_SEEN = 0.75
"""Units of a picture: a part of a thousandth is still to be seen."""


class BarSegment(NamedTuple):
    """A stretch of a bar: from ``x`` on, in the picture's units."""

    fate: str
    x: float
    width: float
    records: int


class HistoryColumn(NamedTuple):
    """One slot of a history; ``height`` up from the base line."""

    x: float
    y: float
    width: float
    height: float
    slot: int


def fate_of(keeper: KeptBecause) -> str:
    """What the records are, that are kept on that account."""
    if keeper == YOUTH:
        return YOUNG
    return UNREAD if keeper.reason is Reason.NOT_CONSUMED else HELD


def fates(answer: PartitionAnswer | TopicAnswer) -> Counter[str]:
    """Log records by fate; none where the offsets are unreadable."""
    counts = Counter({GO: answer.records})
    for kept in answer.kept:
        counts[fate_of(kept.keeper)] += kept.records
    return counts


def bar(
    counts: Mapping[str, int], width: float, whole: int | None = None
) -> tuple[BarSegment, ...]:
    """Side by side in the order of `FATES`. ``whole``: how many records fill the width; by
    default these do."""
    total = max(1, whole if whole is not None else sum(counts.values()))
    shown = [(fate, counts[fate]) for fate in FATES if counts.get(fate, 0)]
    widths = [max(LEAST_SEEN, records / total * width) for _, records in shown]
    fit = min(1.0, width / sum(widths)) if widths else 1.0
    parts: list[BarSegment] = []
    x = 0.0
    for (fate, records), part_width in zip(shown, widths, strict=True):
        parts.append(BarSegment(fate, round(x, 2), round(part_width * fit, 2), records))
        x += part_width * fit
    return tuple(parts)


def mark(row: PlanRow, offset: int | None, width: float, whole: int) -> float | None:
    """Where an offset stands in the row's bar; None where it is outside, or not known."""
    start, end = row.log_start_offset, row.high_watermark
    if offset is None or start is None or end is None or not start <= offset <= end:
        return None
    return round(min(width, (offset - start) / max(1, whole) * width), 2)


def columns(slots: Sequence[FreedInSlot], width: float, height: float) -> tuple[HistoryColumn, ...]:
    """Those in which something went."""
    most = max((slot.records for slot in slots), default=0)
    step = width / max(1, len(slots))
    found = []
    for number, slot in enumerate(slots):
        if slot.records:
            tall = max(1.0, slot.records / most * height)
            found.append(
                HistoryColumn(
                    round(number * step, 2),
                    round(height - tall, 2),
                    round(step * 0.8, 2),
                    round(tall, 2),
                    number,
                )
            )
    return tuple(found)


WIDTH, HEIGHT = 336.0, 48.0
"""Of the picture, in its units."""

DAY_SLOTS = Slots(0, HOUR_MS, 24)
WEEK_SLOTS = Slots(0, 3 * HOUR_MS, 56)
PER_DAY = 8
"""Of a week's slots."""


@dataclass(frozen=True, slots=True)
class FreedHistory:
    """``slots`` None: the log could not be read, or is too long to be read in passing.

    ``days``: when a day began, and what went in it; of a week only. Empty ones are left out.
    """

    since: Slots
    slots: tuple[FreedInSlot, ...] | None
    columns: tuple[HistoryColumn, ...]
    days: tuple[tuple[int, FreedInSlot], ...]

    @property
    def total(self) -> FreedInSlot:
        return _sum(self.slots or ())


def freed_of_all(state_dir: Path, now_ms: int) -> FreedHistory:
    """The last 24 hours of all topics."""
    return _freed_history(state_dir, _slots_until(DAY_SLOTS, HOUR_MS, now_ms), None)


def freed_of_topic(state_dir: Path, topic: str, now_ms: int) -> FreedHistory:
    """Seven days of one, today included; days are those of UTC."""
    return _freed_history(state_dir, _slots_until(WEEK_SLOTS, DAY_MS, now_ms), topic)


def _freed_history(state_dir: Path, wanted: Slots, topic: str | None) -> FreedHistory:
    slots = freed_over_time(state_dir, wanted, topic)
    days = []
    if slots is not None and topic is not None:
        for first in range(0, wanted.count, PER_DAY):
            of_day = _sum(slots[first : first + PER_DAY])
            if of_day.records:
                days.append((wanted.since_ms + first * wanted.width_ms, of_day))
    return FreedHistory(wanted, slots, columns(slots or (), WIDTH, HEIGHT), tuple(days))


def _slots_until(slots: Slots, whole_ms: int, now_ms: int) -> Slots:
    """Ending with the whole hour, or day, that now is in."""
    end_ms = (now_ms // whole_ms + 1) * whole_ms
    return Slots(end_ms - slots.count * slots.width_ms, slots.width_ms, slots.count)


def _sum(slots: tuple[FreedInSlot, ...]) -> FreedInSlot:
    known = [each.freed_bytes for each in slots if each.freed_bytes is not None]
    return FreedInSlot(sum(each.records for each in slots), sum(known) if known else None)
