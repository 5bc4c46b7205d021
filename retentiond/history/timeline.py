"""The entries that a question is about, and how much time surely passed between them.

Invariant: entries are ordered by their number, never by their time, because clocks go back; a
record counts as old only when it surely was, so a clock that jumped makes nothing older.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import NamedTuple

import pyarrow as pa

LONG = 3
"""An entry stands for what follows it, up to so many times the usual interval."""


class EntryRow(NamedTuple):
    """An entry as its row of kind ``cycle`` tells it."""

    entry: int
    at_ms: int
    complete: bool
    dry_run: bool
    observed_ms: int | None
    is_whole: bool
    read_ms: int = 0


class Moment(NamedTuple):
    """An entry in its place: the ``number``-th of the timeline, ``elapsed_ms`` after the first.

    ``weight_ms``: the time that it stands for; None where it lies before or after the period, and
    only tells what was there at that time.
    """

    number: int
    entry: EntryRow
    elapsed_ms: int
    weight_ms: int | None


class Gap(NamedTuple):
    """A time without entries."""

    from_ms: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """``usual_ms``: the interval between entries, as a median; 0 where there is but one."""

    moments: tuple[Moment, ...]
    since_ms: int
    until_ms: int
    usual_ms: int
    gaps: tuple[Gap, ...]

    @property
    def period(self) -> tuple[Moment, ...]:
        """Without those that lie before or after it."""
        return tuple(each for each in self.moments if each.weight_ms is not None)

    @property
    def observed_ms(self) -> int:
        """From the first entry of the period to its last."""
        period = self.period
        return period[-1].elapsed_ms - period[0].elapsed_ms if period else 0

    @property
    def longest_read_ms(self) -> int:
        """A record that stands in an entry may be so much younger than that."""
        return max(each.entry.read_ms for each in self.moments)

    @property
    def scale(self) -> int:
        """More than there are moments; see `order`."""
        return len(self.moments) + 1

    def order(self, moment: Moment) -> int:
        """One number to sort by: strictly increasing, and ``a`` surely lies ``ms`` or more before
        ``b`` just where ``order(a) <= order(b) - ms * scale`` and ``a`` does not come after ``b``.
        """
        return moment.elapsed_ms * self.scale + moment.number

    def number(self, order: int) -> int:
        """Of the moment with that `order`."""
        return order % self.scale


def read_entries(rows: pa.Table) -> list[EntryRow]:
    """``rows`` of kind ``cycle``, of one cluster."""
    columns = ("entry", "at", "complete", "dry_run", "observed_ms", "is_whole", "read_ms")
    found = zip(*(_values(rows, name) for name in columns), strict=True)
    return sorted(
        EntryRow(entry, at, bool(complete), bool(dry_run), observed, bool(is_whole), read or 0)
        for entry, at, complete, dry_run, observed, is_whole, read in found
    )


def _values(rows: pa.Table, name: str) -> Sequence[int | None]:
    column = rows[name]
    if name == "at":
        return [at // 1000 for at in column.cast(pa.int64()).to_pylist()]
    values: list[int | None] = column.to_pylist()
    return values


def timeline(
    every: Sequence[EntryRow], since_ms: int, until_ms: int, lookback_ms: int = 0
) -> Timeline:
    """The entries of that period, those of ``lookback_ms`` before it, and those back to one in
    which all commits stand, if there is one."""
    steps = [
        max(0, later.at_ms - sooner.at_ms) if later.observed_ms is None else later.observed_ms
        for sooner, later in pairwise(every)
    ]
    within = [since_ms <= each.at_ms <= until_ms for each in every]
    if True not in within:
        return Timeline((), since_ms, until_ms, 0, (Gap(since_ms, until_ms),))
    first, last = within.index(True), len(within) - 1 - within[::-1].index(True)
    usual_ms = _usual(steps[first:last])
    begin, before_ms = first, 0
    while begin and before_ms < lookback_ms:
        begin -= 1
        before_ms += steps[begin]
    begin = next((at for at in range(begin, -1, -1) if every[at].is_whole), begin)
    elapsed_ms, moments = 0, []
    for at in range(begin, last + 1):
        weight = _weight(steps[at] if at < last else usual_ms, usual_ms) if within[at] else None
        moments.append(Moment(at - begin, every[at], elapsed_ms, weight))
        elapsed_ms += steps[at] if at < last else 0
    gaps = tuple(_gaps(every[first : last + 1], steps[first:last], since_ms, until_ms, usual_ms))
    return Timeline(tuple(moments), since_ms, until_ms, usual_ms, gaps)


def _usual(steps: Sequence[int]) -> int:
    known = [step for step in steps if step]
    return int(median(known)) if known else 0


def _weight(step: int, usual_ms: int) -> int:
    """Where no time is known to have passed at all, each entry counts alike."""
    if not usual_ms:
        return 1
    return step if step <= LONG * usual_ms else usual_ms


def _gaps(
    every: Sequence[EntryRow], steps: Sequence[int], since_ms: int, until_ms: int, usual_ms: int
) -> Iterator[Gap]:
    if every[0].at_ms - since_ms > LONG * usual_ms:
        yield Gap(since_ms, every[0].at_ms)
    for (sooner, later), step in zip(pairwise(every), steps, strict=True):
        if step > LONG * usual_ms:
            yield Gap(sooner.at_ms, later.at_ms)
    if until_ms - every[-1].at_ms > LONG * usual_ms:
        yield Gap(every[-1].at_ms, until_ms)
