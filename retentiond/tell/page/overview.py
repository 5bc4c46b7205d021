"""What the first page shows: every topic of the last plan, by what it frees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from retentiond.formatting import DAY_MS, HOUR_MS
from retentiond.model import Outcome, Verdict
from retentiond.state.audit_figures import FreedInSlot, Slots, freed_over_time
from retentiond.tell.answers import (
    ClusterAnswer,
    PartitionAnswer,
    TopicAnswer,
    known_bytes,
    total_stored,
)
from retentiond.tell.page.picture import BarSegment, HistoryColumn, bar, columns, fates
from retentiond.tell.report import CycleReport

BAR = 100.0
"""A topic's bar is that many units wide: its records are all of it."""


class Order(NamedTuple):
    """By which column topics are sorted, and which way."""

    by: str
    is_descending: bool

    @property
    def word(self) -> str:
        """As an address names it."""
        return f"-{self.by}" if self.is_descending else self.by


BY_FREES = Order("reclaimable", is_descending=True)


def _kept(topic: TopicAnswer) -> tuple[int, int]:
    sizes = [kept.size for kept in topic.kept]
    return known_bytes(total_stored(sizes)), sum(kept.records for kept in topic.kept)


FIGURES: Mapping[str, Callable[[TopicAnswer], tuple[int, ...]]] = {
    "bytes": lambda topic: (known_bytes(topic.size),),
    "kept": _kept,
}

COLUMNS = ("name", "reclaimable", *FIGURES)


def order_named(word: str | None) -> Order:
    """``bytes``, or ``-bytes`` for the most first; what there is not is as if nothing was asked."""
    found = Order((word or "").removeprefix("-"), (word or "").startswith("-"))
    return found if found.by in COLUMNS else BY_FREES


def next_order(column: str, now: Order) -> Order:
    """What a column's heading leads to: names from A on and figures from the most on, the other way
    round where they are so already."""
    return Order(column, not now.is_descending if now.by == column else column != "name")


def in_order(cluster: ClusterAnswer, order: Order) -> Sequence[TopicAnswer]:
    if order.by == "reclaimable":
        return cluster.by_frees if order.is_descending else cluster.by_frees[::-1]
    by_name = sorted(cluster.topics, key=lambda topic: topic.topic)
    if order.by == "name":
        return by_name[::-1] if order.is_descending else by_name
    return sorted(by_name, key=FIGURES[order.by], reverse=order.is_descending)


@dataclass(frozen=True, slots=True)
class TopicFilter:
    """What a visitor asks for; names are matched anywhere in them, case does not count."""

    name: str = ""
    verdict: Verdict | None = None
    page: str | None = None
    order: Order = BY_FREES

    def matches(self, topic: TopicAnswer) -> bool:
        is_named = self.name.casefold() in topic.topic.casefold()
        return is_named and (self.verdict is None or self.verdict in topic.verdicts)


@dataclass(frozen=True, slots=True)
class TopicItem:
    """A line of the table. ``freed``: by the cycle, or what a dry run would have freed.
    ``outcomes``: of its partitions that were approved, by what became of them.
    """

    answer: TopicAnswer
    freed: FreedInSlot
    outcomes: Mapping[Outcome, int]
    parts: tuple[BarSegment, ...]


@dataclass(frozen=True, slots=True)
class Overview:
    """``cluster`` and ``freed``: of all topics, whatever is asked for."""

    cluster: ClusterAnswer
    freed: FreedInSlot
    verdicts: Mapping[Verdict, int]
    topics: Paged[TopicItem]


def overview(report: CycleReport, wanted: TopicFilter) -> Overview:
    cluster = report.answers
    found = [topic for topic in in_order(cluster, wanted.order) if wanted.matches(topic)]
    return Overview(
        cluster,
        freed_by(report, cluster.partitions),
        Counter(row.verdict for row in report.plan.rows),
        paged(found, len(cluster.topics), wanted.page).map(lambda each: topic_item(report, each)),
    )


def topic_item(report: CycleReport, topic: TopicAnswer) -> TopicItem:
    outcomes = Counter(each.outcome.outcome for each in topic.partitions if each.outcome)
    return TopicItem(topic, freed_by(report, topic.partitions), outcomes, bar(fates(topic), BAR))


def freed_by(report: CycleReport, partitions: Iterable[PartitionAnswer]) -> FreedInSlot:
    """What was deleted of these, with the bytes that were foretold; on a dry run: would be."""
    gone = [each for each in partitions if report.plan.dry_run or each.is_deleted_by_us]
    return FreedInSlot(
        sum(each.records for each in gone), *total_stored(each.frees for each in gone)
    )


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


def of_all(state_dir: Path, now_ms: int) -> FreedHistory:
    """The last 24 hours of all topics."""
    return _history(state_dir, _until(DAY_SLOTS, HOUR_MS, now_ms), None)


def of_topic(state_dir: Path, topic: str, now_ms: int) -> FreedHistory:
    """Seven days of one, today included; days are those of UTC."""
    return _history(state_dir, _until(WEEK_SLOTS, DAY_MS, now_ms), topic)


def _history(state_dir: Path, wanted: Slots, topic: str | None) -> FreedHistory:
    slots = freed_over_time(state_dir, wanted, topic)
    days = []
    if slots is not None and topic is not None:
        for first in range(0, wanted.count, PER_DAY):
            of_day = _sum(slots[first : first + PER_DAY])
            if of_day.records:
                days.append((wanted.since_ms + first * wanted.width_ms, of_day))
    return FreedHistory(wanted, slots, columns(slots or (), WIDTH, HEIGHT), tuple(days))


def _until(slots: Slots, whole_ms: int, now_ms: int) -> Slots:
    """Ending with the whole hour, or day, that now is in."""
    end_ms = (now_ms // whole_ms + 1) * whole_ms
    return Slots(end_ms - slots.count * slots.width_ms, slots.width_ms, slots.count)


def _sum(slots: tuple[FreedInSlot, ...]) -> FreedInSlot:
    known = [each.freed_bytes for each in slots if each.freed_bytes is not None]
    return FreedInSlot(sum(each.records for each in slots), sum(known) if known else None)


T = TypeVar("T")
U = TypeVar("U")

PAGE_ROWS = 100


@dataclass(frozen=True, slots=True)
class Paged(Generic[T]):
    """``number`` counts from 1; ``found`` rows match of ``total``."""

    rows: Sequence[T]
    number: int
    pages: int
    found: int
    total: int

    @property
    def first(self) -> int:
        """The position of its first row among those found, from 1 on; 0 of none."""
        return (self.number - 1) * PAGE_ROWS + 1 if self.found else 0

    @property
    def last(self) -> int:
        return max(0, self.first + len(self.rows) - 1)

    def map(self, item: Callable[[T], U]) -> Paged[U]:
        """The same page with an item for each of its rows."""
        return Paged([*map(item, self.rows)], self.number, self.pages, self.found, self.total)


def paged(found: Sequence[T], total: int, wanted: str | None) -> Paged[T]:
    """``wanted``: the page as an address names it; one that isn't there is the nearest."""
    pages = max(1, -(-len(found) // PAGE_ROWS))
    digits = (wanted or "").strip()
    number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 9 else 1
    number = min(max(1, number), pages)
    start = (number - 1) * PAGE_ROWS
    return Paged(found[start : start + PAGE_ROWS], number, pages, len(found), total)
