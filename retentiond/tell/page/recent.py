"""The last days of the history as charts: disk by topic, deleted records, lag of binding groups.

`retentiond.history.hourly` reads the figures. A chart is drawn again only if its figures have
changed since.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from retentiond.formatting import (
    GIB,
    HOUR_MS,
    say_bytes,
    say_count,
    say_gib_days,
    say_many,
    say_share,
)
from retentiond.history.hourly import SPANS, Hourly, Recent, TimeRange, Values
from retentiond.history.keeper import HistoryKeeper
from retentiond.tell import charts

LEAST_KNOWN = 2
"""How many known points a line needs."""

DAY_H = 24


class ChartText(NamedTuple):
    """The words of a chart. ``names``: what its lines are, topics or groups. ``nothing``: the words
    if there are no figures."""

    title: str
    names: str
    say: Callable[[float], str]
    stacked: bool
    nothing: str


def say_records(records: float) -> str:
    return say_count(round(records))


DISK_CHART = ChartText(
    "On disk, by topic", "topics", lambda size: say_bytes(round(size)), True, "not known"
)
LAG_CHART = ChartText(
    "Yet to read, by the group that binds", "groups", say_records, False, "nothing"
)


class LegendItem(NamedTuple):
    """A line of the legend. ``name``: None for the sum of all others."""

    colour: int
    name: str | None


@dataclass(frozen=True, slots=True)
class RecentChart:
    """A chart with its words. ``names``: what its lines are, topics or groups. ``figure``: the
    newest figure, or the sum, in words. ``svg``: None if there is nothing to draw."""

    title: str
    names: str
    figure: str
    svg: Markup | None = None
    legend: tuple[LegendItem, ...] = ()


@dataclass(frozen=True, slots=True)
class RecentHistory:
    """``notes``: sentences that say what is missing, and why. ``saved``: a sentence about the disk
    space that was saved."""

    span: TimeRange
    charts: tuple[RecentChart, ...]
    notes: tuple[str, ...]
    saved: str | None = None


def span_named(word: str | None) -> TimeRange:
    """The span with this name; the first one if there is none."""
    return next((span for span in SPANS if span.word == word), SPANS[0])


class RecentCharts:
    """The charts of all spans. Any thread may ask for them."""

    def __init__(self, keeper: HistoryKeeper) -> None:
        self._keeper = keeper
        self._drawn: dict[
            TimeRange, tuple[object, Recent, tuple[RecentChart, ...], str | None]
        ] = {}

    def of(self, span: TimeRange, now_ms: int) -> RecentHistory:
        hourly = self._keeper.hourly
        if hourly is not None:
            hourly.catch_up(now_ms)
        if hourly is None or hourly.is_empty:
            return RecentHistory(span, (), _notes(self._keeper, hourly))
        version = hourly.version, span.times(now_ms)
        drawn = self._drawn.get(span)
        if drawn is None or drawn[0] != version:
            recent = hourly.recent(span, now_ms)
            drawn = self._drawn[span] = (version, recent, *_draw(recent, span))
        _, recent, drawings, note = drawn
        notes = _notes(self._keeper, hourly)
        saved = _saved(recent, span)
        return RecentHistory(span, drawings, (*notes, note) if note else notes, saved)


def _saved(recent: Recent, span: TimeRange) -> str | None:
    if not recent.saved_byte_ms:
        return None
    gib_days = recent.saved_byte_ms / GIB / (DAY_H * HOUR_MS)
    return f"Saved in the last {span.name}: about {say_gib_days(gib_days)} GiB·days of disk."


def _notes(keeper: HistoryKeeper, hourly: Hourly | None) -> tuple[str, ...]:
    if not keeper.config.history.enabled:
        return ("The history is off: `history.enabled` is false, so nothing new is kept.",)
    of_figures = None if hourly is None else hourly.problem
    problems = dict.fromkeys(problem for problem in (keeper.problem, of_figures) if problem)
    if problems:
        return tuple(f"{problem[0].upper()}{problem[1:]}." for problem in problems)
    if hourly is not None and hourly.is_reading:
        return ("The history is still being read.",)
    if hourly is None or hourly.is_empty:
        return ("The history is empty: its first entry follows a cycle.",)
    return ()


def _draw(recent: Recent, span: TimeRange) -> tuple[tuple[RecentChart, ...], str | None]:
    """The charts, and a sentence about times without an entry."""
    known = sum(not is_unknown for is_unknown in recent.unknown)
    if known < LEAST_KNOWN:
        return (), f"There is nothing to draw yet: of the last {span.name} little is known."
    all_times = len(recent.times)
    note = None
    if known < all_times:
        share = say_share(all_times - known, all_times)
        note = f"{share} of this time has no entry and is shaded."
    drawings = (
        _lines(DISK_CHART, recent.bytes_by_topic, recent, span),
        _deleted(recent, span),
        _lines(LAG_CHART, recent.lag_by_group, recent, span),
    )
    return drawings, note


def _lines(
    text: ChartText, lines: Mapping[str | None, Values], recent: Recent, span: TimeRange
) -> RecentChart:
    if not lines:
        return RecentChart(text.title, text.names, text.nothing)
    shown, rest = charts.largest_lines(lines)
    drawn = [*shown.items()]
    legend = [LegendItem(number, name) for number, name in enumerate(shown)]
    if text.stacked and rest is not None:
        drawn.append(("", rest))
        legend.append(LegendItem(charts.MOST_LINES, None))
    newest = max(at for at, is_unknown in enumerate(recent.unknown) if not is_unknown)
    figure = text.say(sum(values[newest] or 0 for values in lines.values()))
    kind = charts.Kind.STACKED if text.stacked else charts.Kind.LINES
    of_bytes = text is DISK_CHART
    on_axis = text.say if of_bytes else charts.short_count
    chart = charts.Chart(text.title, recent.times, drawn, on_axis, kind, of_bytes=of_bytes)
    label = f"{text.title}, the last {span.name}; {figure} at the end"
    svg = chart.svg(charts.INLINE_LOOK, label, recent.unknown)
    return RecentChart(text.title, text.names, f"{figure} at the end", svg, tuple(legend))


def _deleted(recent: Recent, span: TimeRange) -> RecentChart:
    title, total = "Deleted", say_many(recent.total_deleted, "record")
    if not recent.total_deleted:
        return RecentChart(title, "", f"nothing in the last {span.name}")
    lines = [("records", recent.deleted)]
    chart = charts.Chart(title, recent.times, lines, charts.short_count, charts.Kind.BARS)
    label = f"{total} deleted in the last {span.name}"
    svg = chart.svg(charts.INLINE_LOOK, label, recent.unknown)
    return RecentChart(title, "", total, svg)
