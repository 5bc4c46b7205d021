"""Charts by pygal: for a report, which is one file, and for the status page, which has a style.

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
"""How many lines of a chart have a name each; the rest is one line."""

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
"""The page's own colour is the text's, so it is right in the light and in the dark."""


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
"""Style and legend are part of the picture."""

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
"""Small, for a page that brings both."""

REMOVED_ELEMENTS = ("style", "script", "title", "desc", etree.Comment)
REMOVED_CLASSES = ("text-overlay", "tooltip-overlay")
"""What a chart in a page lacks: the page forbids styles and scripts, and shows none of the rest."""

LONG_FRACTION = re.compile(r"(\d\.\d)\d+")

MOST_STEPS = 5
"""How many steps an axis has that counts bytes."""


def largest_first(lines: Mapping[str | None, Values]) -> list[str]:
    """The names, by their peaks."""
    named = {name: values for name, values in lines.items() if name is not None}
    return sorted(named, key=lambda name: -max(filter(None, named[name]), default=0))


def largest_lines(
    lines: Mapping[str | None, Values], order: Sequence[str] = ()
) -> tuple[dict[str, Values], Values | None]:
    """The lines with the highest peaks, and all others together; None if there are none. What has
    no name is one of the others. ``order``: which lines come first, of those that there are, so
    that two charts have the same colours."""
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
    """A chart of pygal. The lines are drawn as they come, in the colours of `PALETTE`.

    ``of_bytes``: the axis counts in units of 1,024, up to ``least_top`` at least."""
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
        js=[],  # it would be fetched from elsewhere
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
    if "" in labels:  # else there are as many as the look has
        chart.x_labels_major = [each for each in labels if each]
    return chart


def highest(lines: Sequence[Values], *, stacked: bool) -> float:
    heights = [[each or 0 for each in values] for values in lines]
    together = [sum(each) if stacked else max(each) for each in zip(*heights, strict=True)]
    return max(together, default=0)


def byte_steps(most: float) -> list[int]:
    """Where the axis has a label: at figures that are round in units of 1,024."""
    step = 1
    while step * MOST_STEPS < most:
        step *= 2
    return [step * number for number in range(int(-(-most // step)) + 1)]


def inline_svg(chart: Any, label: str, unknown: Sequence[bool]) -> str:
    """The chart as an element of a page that allows neither styles nor scripts in it. Stretches of
    which nothing is known are shaded."""
    chart.setup()
    root = chart.svg.root
    places, view = list(chart._x_pos), chart.view
    chart.teardown()
    for parent in [*root.iter()]:
        for child in [*parent]:
            if child.tag in REMOVED_ELEMENTS or child.get("class", "").endswith(REMOVED_CLASSES):
                parent.remove(child)
    del root.attrib["id"]
    root.attrib.update({"class": "chart", "role": "img", "aria-label": label, "focusable": "false"})
    plot = next(each for each in root.iter() if each.get("class") == "plot")
    half = (places[1] - places[0]) / 2
    for first, last in _unknown_stretches(unknown):
        left, right = (
            view.x(min(max(each, 0), 1)) for each in (places[first] - half, places[last] + half)
        )
        at = {"x": left, "y": 0, "width": right - left, "height": view.height}
        etree.SubElement(plot, "rect", {"class": "unknown"} | {key: str(at[key]) for key in at})
    return LONG_FRACTION.sub(r"\1", etree.tostring(root, encoding="unicode"))


def _unknown_stretches(unknown: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """The first and the last of those that stand side by side."""
    at = 0
    for is_unknown, run in groupby(unknown):
        count = len([*run])
        if is_unknown:
            yield at, at + count - 1
        at += count
