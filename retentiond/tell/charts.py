"""Charts by pygal, for a report (a single file) and for the status page (which has its own style).

In come lines and bars by name; out goes SVG, in which every name is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import pygal
from pygal.etree import etree
from pygal.style import Style

from retentiond.formatting import say_count, say_name
from retentiond.history.hourly import Values

MOST_LINES = 8
"""How many lines of a chart have a name. All others are summed up in one line."""

PALETTE = ("#4878d0", "#ee854a", "#3a9d5d", "#d65f5f", "#956cb4", "#8c613c", "#dc7ec0", "#7f8c3b")

_LOOK: dict[str, Any] = {
    "background": "transparent",
    "plot_background": "transparent",
    "foreground": "currentColor",
    "foreground_strong": "currentColor",
    "foreground_subtle": "currentColor",
    "font_family": "system-ui, sans-serif",
    "opacity": ".75",
    "opacity_hover": ".95",
    "guide_stroke_color": "#8886",
    "major_guide_stroke_color": "#8886",
    "colors": (*PALETTE, "#888888"),
}
"""``currentColor`` is the colour of the page's text, so it suits a light and a dark page."""


def _style(label_px: int, title_px: int) -> Style:
    sizes = dict.fromkeys(("label", "major_label", "legend"), label_px) | {"title": title_px}
    return Style(**_LOOK, **{f"{name}_font_size": size for name, size in sizes.items()})


REPORT_LOOK = {
    "style": _style(14, 17),
    "width": 640,
    "height": 400,
    "margin_right": 50,  # the last label of the time is centred on the end of the axis
    "legend_at_bottom": True,
    "legend_at_bottom_columns": 2,
    "truncate_legend": 32,
    "x_labels_major_count": 4,
}
"""For a report: style and legend are part of the picture."""

INLINE_LOOK = {
    "style": _style(12, 15),
    "css": [],
    "width": 340,
    "height": 160,
    "margin": 6,
    "min_scale": 3,
    "max_scale": 5,
    "show_legend": False,
    "allow_interruptions": True,
}
"""For the status page: small, because the page has style and legend."""

REMOVED_ELEMENTS = ("style", "script", "title", "desc", etree.Comment)
REMOVED_CLASSES = ("text-overlay", "tooltip-overlay")
"""Removed from a chart in the status page: the page forbids styles and scripts, and doesn't show
the other elements."""

LONG_FRACTION = re.compile(r"(\d\.\d)\d+")

MOST_STEPS = 5
"""How many steps an axis of bytes has."""


def largest_first(lines: Mapping[str | None, Values]) -> list[str]:
    """The names of the lines, the highest peak first."""
    named = {name: values for name, values in lines.items() if name is not None}
    return sorted(named, key=lambda name: -max(filter(None, named[name]), default=0))


def largest_lines(
    lines: Mapping[str | None, Values], order: Sequence[str] = ()
) -> tuple[dict[str, Values], Values | None]:
    """The lines with the highest peaks, and the sum of all others, or None if there are none. A
    line without a name is one of the others. ``order``: names that come first, so that two charts
    have the same colours."""
    named = {name: values for name, values in lines.items() if name is not None}
    first = [name for name in order if name in named]
    largest = first + [name for name in largest_first(lines) if name not in first]
    shown = {name: named[name] for name in largest[:MOST_LINES]}
    rest = [values for name, values in lines.items() if name not in shown]
    return shown, [_sum_of_known(each) for each in zip(*rest, strict=True)] if rest else None


def _sum_of_known(values: Sequence[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return sum(known) if known else None


def line_chart(
    lines: Sequence[tuple[str, Values]],
    labels: Sequence[str],
    formatter: Callable[[float], str],
    look: Mapping[str, Any],
    *,
    title: str | None = None,
    stacked: bool = False,
    of_bytes: bool = False,
    least_top: float = 0,
) -> Any:
    """A chart with these lines, in their order and in the colours of `PALETTE`.

    ``of_bytes``: the axis has steps of a power of two, and reaches at least up to ``least_top``."""
    chart = _chart(pygal.StackedLine if stacked else pygal.Line, labels, formatter, look, title)
    for name, values in lines:
        chart.add(say_name(name), values, fill=stacked)
    if of_bytes:
        top = max(least_top, highest([values for _, values in lines], stacked=stacked))
        chart.y_labels = byte_steps(top)
    return chart


def bar_chart(
    values: Values, labels: Sequence[str], look: Mapping[str, Any], *, title: str | None = None
) -> Any:
    chart = _chart(pygal.Bar, labels, lambda value: say_count(round(value)), look, title)
    chart.add("records", values)
    return chart


def _chart(
    kind: Any,
    labels: Sequence[str],
    formatter: Callable[[float], str],
    look: Mapping[str, Any],
    title: str | None,
) -> Any:
    chart = kind(
        title=title,
        js=[],  # pygal's script would be loaded from another site
        explicit_size=False,
        show_dots=False,
        include_x_axis=True,
        value_formatter=formatter,
        show_minor_x_labels=False,
        truncate_label=-1,
        disable_xml_declaration=True,
        no_prefix=False,
        **look,
    )
    chart.x_labels = labels
    if "" in labels:  # else the look decides how many labels are shown
        chart.x_labels_major = [label for label in labels if label]
    return chart


def highest(lines: Sequence[Values], *, stacked: bool) -> float:
    """The highest point of the chart."""
    heights = [[value or 0 for value in values] for values in lines]
    tops = [sum(column) if stacked else max(column) for column in zip(*heights, strict=True)]
    return max(tops, default=0)


def byte_steps(top: float) -> list[int]:
    """The labels of an axis of bytes: multiples of a power of two."""
    step = 1
    while step * MOST_STEPS < top:
        step *= 2
    return [step * number for number in range(int(-(-top // step)) + 1)]


def inline_svg(chart: Any, label: str, unknown: Sequence[bool]) -> str:
    """The chart as an element of a page that forbids styles and scripts. Times without known values
    are shaded."""
    chart.setup()
    root = chart.svg.root
    x_positions, view = list(chart._x_pos), chart.view
    chart.teardown()
    for parent in [*root.iter()]:
        for child in [*parent]:
            if child.tag in REMOVED_ELEMENTS or child.get("class", "").endswith(REMOVED_CLASSES):
                parent.remove(child)
    del root.attrib["id"]
    root.attrib.update({"class": "chart", "role": "img", "aria-label": label, "focusable": "false"})
    plot = next(element for element in root.iter() if element.get("class") == "plot")
    half_step = (x_positions[1] - x_positions[0]) / 2
    for first, last in _unknown_runs(unknown):
        left, right = (
            view.x(min(max(x, 0), 1))
            for x in (x_positions[first] - half_step, x_positions[last] + half_step)
        )
        place = {"x": left, "y": 0, "width": right - left, "height": view.height}
        attributes = {key: str(value) for key, value in place.items()}
        etree.SubElement(plot, "rect", {"class": "unknown"} | attributes)
    return LONG_FRACTION.sub(r"\1", etree.tostring(root, encoding="unicode"))


def _unknown_runs(unknown: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """The first and the last position of each run of unknown values."""
    position = 0
    for is_unknown, run in groupby(unknown):
        length = len([*run])
        if is_unknown:
            yield position, position + length - 1
        position += length
