"""What was freed over time, from the audit log."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from retentiond.page.picture import Column, columns
from retentiond.state.freed import Freed, Slots, freed_over_time

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
WIDTH, HEIGHT = 336.0, 48.0
"""Of the picture, in its units."""

DAY_SLOTS = Slots(0, HOUR_MS, 24)
WEEK_SLOTS = Slots(0, 3 * HOUR_MS, 56)
PER_DAY = 8
"""Of a week's slots."""


@dataclass(frozen=True, slots=True)
class History:
    """``slots`` None: the log could not be read, or is too long to be read in passing.

    ``days``: when a day began, and what went in it; of a week only. Empty ones are left out.
    """

    since: Slots
    slots: tuple[Freed, ...] | None
    columns: tuple[Column, ...]
    days: tuple[tuple[int, Freed], ...]

    @property
    def total(self) -> Freed:
        return _sum(self.slots or ())


def of_all(state_dir: Path, now_ms: int) -> History:
    """The last 24 hours of all topics."""
    return _history(state_dir, _until(DAY_SLOTS, HOUR_MS, now_ms), None)


def of_topic(state_dir: Path, topic: str, now_ms: int) -> History:
    """Seven days of one, today included; days are those of UTC."""
    return _history(state_dir, _until(WEEK_SLOTS, DAY_MS, now_ms), topic)


def _history(state_dir: Path, wanted: Slots, topic: str | None) -> History:
    slots = freed_over_time(state_dir, wanted, topic)
    days = []
    if slots is not None and topic is not None:
        for first in range(0, wanted.count, PER_DAY):
            of_day = _sum(slots[first : first + PER_DAY])
            if of_day.records:
                days.append((wanted.since_ms + first * wanted.width_ms, of_day))
    return History(wanted, slots, columns(slots or (), WIDTH, HEIGHT), tuple(days))


def _until(slots: Slots, whole_ms: int, now_ms: int) -> Slots:
    """Ending with the whole hour, or day, that now is in."""
    end_ms = (now_ms // whole_ms + 1) * whole_ms
    return Slots(end_ms - slots.count * slots.width_ms, slots.width_ms, slots.count)


def _sum(slots: tuple[Freed, ...]) -> Freed:
    known = [each.freed_bytes for each in slots if each.freed_bytes is not None]
    return Freed(sum(each.records for each in slots), sum(known) if known else None)
