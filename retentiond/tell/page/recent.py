"""The last days of the history as charts: disk by topic, records deleted, lag of who binds.

The figures are at hand (`retentiond.history.hourly`). A chart is drawn once, for the first who asks
after they have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from markupsafe import Markup

from retentiond.config.price import Price
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

LEAST_KNOWN = 2
"""How many stretches make a line."""

DAY_H = 24


class ChartText(NamedTuple):
    """``names``: of what they are, topics or groups; ``nothing``: what is said without a figure."""

    title: str
    names: str
    say: Callable[[float], str]
    stacked: bool
    nothing: str


DISK_CHART = ChartText(
    "On disk, by topic", "topics", lambda size: say_bytes(round(size)), True, "not known"
)
LAG_CHART = ChartText(
    "Yet to read, by the group that binds",
    "groups",
    lambda records: say_count(round(records)),
    False,
    "nothing",
)


class LegendItem(NamedTuple):
    """``name`` None: all others together."""

    colour: int
    name: str | None


@dataclass(frozen=True, slots=True)
class RecentChart:
    """``names``: of what they are, topics or groups; ``figure``: the newest, or the sum, in words;
    ``svg`` None: there is nothing to draw."""

    title: str
    names: str
    figure: str
    svg: Markup | None = None
    legend: tuple[LegendItem, ...] = ()


@dataclass(frozen=True, slots=True)
class RecentHistory:
    """``notes``: what is missing, or why, a sentence each. ``saved``: disk, in a sentence."""

    span: TimeRange
    charts: tuple[RecentChart, ...]
    notes: tuple[str, ...]
    saved: str | None = None


def span_named(word: str | None) -> TimeRange:
    """The first one where there is none of that name."""
    return next((each for each in SPANS if each.word == word), SPANS[0])


class RecentCharts:
    """Asked on any thread."""

    def __init__(self, keeper: HistoryKeeper) -> None:
        self._keeper = keeper
        self._drawn: dict[
            TimeRange, tuple[object, Recent, tuple[RecentChart, ...], str | None]
        ] = {}

    def of(self, span: TimeRange, now_ms: int) -> RecentHistory:
        hourly = self._keeper.hourly
        if hourly is None or hourly.is_empty:
            return RecentHistory(span, (), _notes(self._keeper, hourly))
        state = hourly.version, span.times(now_ms)
        drawn = self._drawn.get(span)
        if drawn is None or drawn[0] != state:
            recent = hourly.recent(span, now_ms)
            drawn = self._drawn[span] = (state, recent, *_draw(recent, span))
        _, recent, charts, note = drawn
        notes = _notes(self._keeper, hourly)
        saved = _saved(recent, span, self._keeper.config.history.price_per_gib_month)
        return RecentHistory(span, charts, (*notes, note) if note else notes, saved)


def _saved(recent: Recent, span: TimeRange, price: Price | None) -> str | None:
    if not recent.saved_byte_ms:
        return None
    gib_days = recent.saved_byte_ms / GIB / (DAY_H * HOUR_MS)
    said = f"Saved in the last {span.name}: about {say_gib_days(gib_days)} GiB·days of disk"
    if price is None:
        return f"{said}."
    return f"{said}, {price.of_gib_days(gib_days)} at {price} a GiB and month."


def _notes(keeper: HistoryKeeper, hourly: Hourly | None) -> tuple[str, ...]:
    if hourly is None or not keeper.config.history.enabled:
        return ("The history is off: `history.enabled` is false, so nothing new is kept.",)
    found = dict.fromkeys(each for each in (keeper.problem, hourly.problem) if each)
    if found:
        return tuple(f"{each[0].upper()}{each[1:]}." for each in found)
    if hourly.is_reading:
        return ("Older days are still being read.",)
    if hourly.is_empty:
        return ("The history is empty: its first entry follows a cycle.",)
    return ()


def _draw(recent: Recent, span: TimeRange) -> tuple[tuple[RecentChart, ...], str | None]:
    """The charts, and a sentence on the stretches without an entry."""
    known = sum(not each for each in recent.unknown)
    if known < LEAST_KNOWN:
        return (), f"There is nothing to draw yet: of the last {span.name} little is known."
    many = len(recent.times)
    note = None
    if known < many:
        share = say_share(many - known, many)
        note = f"Of {share} of this time there is no entry: it is shaded."
    charts = (
        _lines(DISK_CHART, recent.bytes_by_topic, recent, span),
        _deleted(recent, span),
        _lines(LAG_CHART, recent.lag_by_group, recent, span),
    )
    return charts, note


def _lines(
    what: ChartText, lines: Mapping[str | None, Values], recent: Recent, span: TimeRange
) -> RecentChart:
    from retentiond.tell import charts  # noqa: PLC0415 - pygal, that nobody may ever ask for

    if not lines:
        return RecentChart(what.title, what.names, what.nothing)
    shown, rest = charts.largest_lines(lines)
    drawn = [*shown.items()]
    legend = [LegendItem(number, name) for number, name in enumerate(shown)]
    if what.stacked and rest is not None:
        drawn.append(("", rest))
        legend.append(LegendItem(charts.MOST_LINES, None))
    newest = max(at for at, is_unknown in enumerate(recent.unknown) if not is_unknown)
    figure = what.say(sum(values[newest] or 0 for values in lines.values()))
    chart = charts.line_chart(
        drawn,
        _labels(recent, span),
        what.say,
        charts.INLINE_LOOK,
        stacked=what.stacked,
        of_bytes=what is DISK_CHART,
    )
    label = f"{what.title}, the last {span.name}; {figure} at the end"
    svg = Markup(charts.inline_svg(chart, label, recent.unknown))
    return RecentChart(what.title, what.names, f"{figure} at the end", svg, tuple(legend))


def _deleted(recent: Recent, span: TimeRange) -> RecentChart:
    from retentiond.tell import charts  # noqa: PLC0415 - as above

    title, total = "Deleted", say_many(recent.total_deleted, "record")
    if not recent.total_deleted:
        return RecentChart(title, "", f"nothing in the last {span.name}")
    chart = charts.bar_chart(recent.deleted, _labels(recent, span), charts.INLINE_LOOK)
    label = f"{total} deleted in the last {span.name}"
    return RecentChart(title, "", total, Markup(charts.inline_svg(chart, label, recent.unknown)))


def _labels(recent: Recent, span: TimeRange) -> list[str]:
    """Four stretches, evenly spread, have a label; the others have none."""
    form, many = "%H:%M" if span.hours == DAY_H else "%m-%d", len(recent.times)
    shown = {many * part // 8 for part in (1, 3, 5, 7)}
    return [
        f"{datetime.fromtimestamp(each / 1000, UTC):{form}}" if at in shown else ""
        for at, each in enumerate(recent.times)
    ]
