"""Charts as SVG, for a report (a single file) and for the status page (which has its own style).

In come lines and bars by name; out goes SVG without styles and scripts, in which every name is
escaped. Equal times have equal distances, whatever the distances of the points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum, auto
from itertools import groupby, pairwise
from typing import NamedTuple

from markupsafe import Markup

from retentiond.fields import known_total
from retentiond.formatting import DAY_MS, HOUR_MS, MINUTE_MS, say_name
from retentiond.history.hourly import Values

MOST_LINES = 8
"""How many lines of a chart have a name. All others are summed up in one line."""

PALETTE = (
    *("#4878d0", "#ee854a", "#3a9d5d", "#d65f5f", "#956cb4", "#8c613c", "#dc7ec0", "#7f8c3b"),
    "#888888",
)
"""The last one is for all others. The status page has its own, by the classes ``colour-0`` …"""

MOST_STEPS = 5
"""How many steps an axis has."""

TIME_STEPS_MS = (
    *(seconds * 1000 for seconds in (1, 5, 15, 30)),
    *(minutes * MINUTE_MS for minutes in (1, 2, 5, 15, 30)),
    *(hours * HOUR_MS for hours in (1, 3, 6, 12)),
    *(days * DAY_MS for days in (1, 2, 7, 14, 30, 90, 365)),
)


def value_steps(top: float, *, of_bytes: bool) -> list[float]:
    """The labels of an axis of values: multiples of a power of two, or of 1, 2 or 5 times a power
    of ten. The last one is not below ``top``."""
    step = 1
    while step * MOST_STEPS < top:
        leading = int(str(step)[0])
        step = step * 2 if of_bytes or leading != 2 else step // 2 * 5
    return [step * number for number in range(max(1, math.ceil(top / step)) + 1)]


def time_steps(first_ms: int, last_ms: int, most: int) -> range:
    """The labelled times of an axis: round ones (UTC), at equal distances."""
    fitting = (step for step in TIME_STEPS_MS if (last_ms - first_ms) // step < most)
    step_ms = next(fitting, TIME_STEPS_MS[-1])
    return range(-(-first_ms // step_ms) * step_ms, last_ms + 1, step_ms)


def time_label(time_ms: int, step_ms: int) -> str:
    time = datetime.fromtimestamp(time_ms / 1000, UTC)
    if time_ms % DAY_MS == 0:
        return f"{time:%m-%d}"
    return f"{time:%H:%M:%S}" if step_ms < MINUTE_MS else f"{time:%H:%M}"


def short_count(count: float) -> str:
    """For an axis, which has little room: 200 M."""
    for unit, size in (("bn", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count / size:g} {unit}"
    return f"{count:g}"


class Kind(Enum):
    LINES = auto()
    STACKED = auto()
    BARS = auto()


class Look(NamedTuple):
    """In pixels. ``left``: room for the labels of the values. ``most_times``: how many labels the
    time has. ``is_alone``: title, legend and background are part of the picture."""

    width: int
    height: int
    text: int
    left: int
    most_times: int
    is_alone: bool


REPORT_LOOK = Look(800, 400, text=14, left=84, most_times=6, is_alone=True)

INLINE_LOOK = Look(340, 160, text=12, left=66, most_times=5, is_alone=False)
"""For the status page: small, because the page has title and legend."""

LEGEND_COLUMNS = 2


@dataclass(frozen=True, slots=True)
class Chart:
    """``lines``: a name (empty for all others), and a value for each of the ``times`` (epoch
    milliseconds, ascending); None is not known, and interrupts a line.

    ``of_bytes``: the axis has steps of a power of two. ``least_top``: how far it reaches at least.
    ``limits``: values that a line across the chart marks, by what they are. ``say_time``: the label
    of a time, given the distance of the labels.
    """

    title: str
    times: Sequence[int]
    lines: Sequence[tuple[str, Values]]
    say: Callable[[float], str]
    kind: Kind = Kind.LINES
    of_bytes: bool = False
    least_top: float = 0
    limits: Mapping[str, float] = field(default_factory=dict)
    say_time: Callable[[int, int], str] = time_label

    def svg(self, look: Look, label: str, unknown: Sequence[bool] = ()) -> Markup:
        """``label``: what it shows, for who can't see it. Times that are ``unknown`` are shaded."""
        return Markup("".join(_Drawing(self, look).elements(label, unknown)))


def largest_lines(
    lines: Mapping[str | None, Values] | Mapping[str, Values],
) -> tuple[dict[str, Values], Values | None]:
    """The lines with the highest peaks, the highest first, and the sum of all others, or None if
    there are none. A line without a name is one of the others."""
    named = {name: values for name, values in lines.items() if name is not None}
    largest = sorted(named, key=lambda name: -max(filter(None, named[name]), default=0))
    shown = {name: named[name] for name in largest[:MOST_LINES]}
    rest = [values for name, values in lines.items() if name not in shown]
    return shown, [known_total(column) for column in zip(*rest, strict=True)] if rest else None


class _Drawing:
    """A chart in a look: where its points lie, and its elements."""

    def __init__(self, chart: Chart, look: Look) -> None:
        self._chart, self._look = chart, look
        self._line_height = 1.5 * look.text
        self._top = 2 * self._line_height if look.is_alone else look.text / 2
        self._right = look.width - 1.8 * look.text  # half of a label
        self._names = [*self._rows_of_names()] if look.is_alone else []
        legend_rows = sum(max(map(len, row)) for row in self._names)
        below_line = 0.4 * look.text if legend_rows else 0  # of letters such as p
        self._bottom = look.height - (legend_rows + 1) * self._line_height - below_line
        self._step_ms = min((after - at for at, after in pairwise(chart.times)), default=DAY_MS)
        half_ms = self._step_ms / 2 if chart.kind is Kind.BARS else 0
        self._first_ms, self._last_ms = chart.times[0] - half_ms, chart.times[-1] + half_ms
        self._layers = [*self._layers_of_values()]
        others = len(PALETTE) - 1
        self._colours = [at if name else others for at, (name, _) in enumerate(chart.lines)]
        highest = max((high for layer in self._layers for _, _, high in layer), default=0)
        self._values = value_steps(max(highest, chart.least_top), of_bytes=chart.of_bytes)

    def _layers_of_values(self) -> Iterator[list[tuple[int, float, float]]]:
        """The known points of each line: the time, from where it is filled, and the value."""
        below: dict[int, float] = {}
        for _, values in self._chart.lines:
            layer = []
            for at, value in zip(self._chart.times, values, strict=True):
                if value is None and not (at in below and self._chart.kind is Kind.STACKED):
                    continue
                low = below.get(at, 0.0)
                layer.append((at, low, low + (value or 0)))
                if self._chart.kind is Kind.STACKED:
                    below[at] = low + (value or 0)
            yield layer

    def _x(self, time_ms: float) -> float:
        part = (time_ms - self._first_ms) / max(1, self._last_ms - self._first_ms)
        return self._look.left + min(1, max(0, part)) * (self._right - self._look.left)

    def _y(self, value: float) -> float:
        return self._bottom - value / self._values[-1] * (self._bottom - self._top)

    def elements(self, label: str, unknown: Sequence[bool]) -> Iterator[str]:
        look = self._look
        yield Markup(
            '<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" focusable="false" '
            'aria-label="{}" viewBox="0 0 {} {}" font-family="system-ui, sans-serif" '
            'font-size="{}" fill="currentColor">'
        ).format(label, look.width, look.height, look.text)
        if look.is_alone:
            yield self._text(
                look.width / 2, self._line_height, self._chart.title, "title", "middle"
            )
        yield from self._shades(unknown)
        yield from self._axes()
        for colour, layer in zip(self._colours, self._layers, strict=True):
            yield f'<g class="series colour-{colour}" color="{PALETTE[colour]}">'
            yield from self._shapes(layer)
            yield "</g>"
        if look.is_alone:
            yield from self._legend()
        yield "</svg>"

    def _shades(self, unknown: Sequence[bool]) -> Iterator[str]:
        half_ms = self._step_ms / 2
        for is_unknown, run in groupby(
            zip(unknown, self._chart.times, strict=False), lambda p: p[0]
        ):
            times = [at for _, at in run]
            if is_unknown:
                left, right = self._x(times[0] - half_ms), self._x(times[-1] + half_ms)
                yield self._rect(left, self._top, right, self._bottom, 'class="unknown"')

    def _axes(self) -> Iterator[str]:
        for value in self._values:
            y = self._y(value)
            yield self._line(self._look.left, y, self._right, y)
            shown = self._chart.say(value)
            yield self._text(self._look.left - 6, y + 0.35 * self._look.text, shown, "axis", "end")
        first_ms, last_ms = math.ceil(self._first_ms), math.floor(self._last_ms)
        times = time_steps(first_ms, last_ms, self._look.most_times)
        for time_ms in times:
            x, shown = self._x(time_ms), self._chart.say_time(time_ms, times.step)
            yield self._line(x, self._bottom, x, self._bottom + 4)
            yield self._text(x, self._bottom + 1.3 * self._look.text, shown, "axis", "middle")
        for name, value in self._chart.limits.items():
            y = self._y(value)
            yield self._line(self._look.left, y, self._right, y, "currentColor")
            yield self._text(self._look.left + 4, y - 4, name, "limit", "start")

    def _shapes(self, layer: Sequence[tuple[int, float, float]]) -> Iterator[str]:
        """A bar a point, or a shape for each run of points without an interruption."""
        if self._chart.kind is Kind.BARS:
            half_ms = 0.4 * self._step_ms
            for at, low, high in layer:
                left, right = self._x(at - half_ms), self._x(at + half_ms)
                yield self._rect(left, self._y(high), right, self._y(low), 'fill="currentColor"')
            return
        position_of = {at: position for position, at in enumerate(self._chart.times)}
        runs = groupby(enumerate(layer), lambda point: position_of[point[1][0]] - point[0])
        for _, run in runs:
            points = [point for _, point in run]
            upper = [(self._x(at), self._y(high)) for at, _, high in points]
            if self._chart.kind is Kind.STACKED:
                lower = [(self._x(at), self._y(low)) for at, low, _ in reversed(points)]
                yield f'<path d="{_path(upper + lower)}z" fill="currentColor" fill-opacity=".75"/>'
            yield (
                f'<path d="{_path(upper)}" fill="none" stroke="currentColor" stroke-width="1.5"/>'
            )

    def _rows_of_names(self) -> Iterator[list[list[str]]]:
        """The legend's rows: of each name its lines. Long names have the whole width, and are
        broken where that is too little."""
        names = [say_name(name) for name, _ in self._chart.lines]
        for columns in (LEGEND_COLUMNS, 1):
            longest = int((self._right - self._look.left) / columns / (0.55 * self._look.text)) - 3
            if all(len(name) <= longest for name in names):
                break
        lines = [
            [name[start : start + longest] for start in range(0, max(1, len(name)), longest)]
            for name in names
        ]
        for start in range(0, len(lines), columns):
            yield lines[start : start + columns]

    def _legend(self) -> Iterator[str]:
        columns = max(map(len, self._names), default=1)
        column, size = (self._right - self._look.left) / max(1, columns), self._look.text
        colours = iter(self._colours)
        y = self._bottom + 2 * self._line_height
        for row in self._names:
            for across, lines in enumerate(row):
                x = self._look.left + across * column
                fill = f'fill="{PALETTE[next(colours)]}"'
                yield self._rect(x, y - 0.8 * size, x + 0.8 * size, y, fill)
                for number, line in enumerate(lines):
                    below = y + number * self._line_height
                    yield self._text(x + 1.2 * size, below, line, "legend", "start")
            y += max(map(len, row)) * self._line_height

    def _text(self, x: float, y: float, text: str, word: str, anchor: str) -> str:
        return Markup('<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
            word, x, y, anchor, text
        )

    def _line(self, x1: float, y1: float, x2: float, y2: float, colour: str = "#8886") -> str:
        return f'<path class="guide" d="{_path([(x1, y1), (x2, y2)])}" stroke="{colour}"/>'

    def _rect(self, left: float, top: float, right: float, bottom: float, look: str) -> str:
        return (
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" '
            f'height="{max(0.0, bottom - top):.1f}" {look}/>'
        )


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
