"""Charts: what is written on them, and where their points lie."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from retentiond.cli.output.report import on_disk
from retentiond.formatting import HOUR_MS
from retentiond.history.ask.report_figures import Line
from retentiond.tell.charts import (
    INLINE_LOOK,
    REPORT_LOOK,
    Chart,
    Kind,
    short_count,
    time_steps,
    value_steps,
)

GIB = 2**30
DAY_MS = 24 * HOUR_MS
MIDNIGHT_MS = 20_700 * DAY_MS


def line(*gib: float) -> Line:
    return {MIDNIGHT_MS + hour * HOUR_MS: size * GIB for hour, size in enumerate(gib)}


def places(svg: str, word: str) -> list[tuple[float, str]]:
    """Where the texts of this class begin, from the left."""
    found = re.findall(rf'<text class="{word}" x="([\d.]+)"[^>]*>([^<]*)</text>', svg)
    return [(float(x), text) for x, text in found]


def curves(svg: str) -> list[list[tuple[float, float]]]:
    """The points of each line, and of each upper edge of what is stacked."""
    paths = re.findall(r'<path d="M([^"z]+)" fill="none"', svg)
    return [
        [(float(x), float(y)) for x, y in (point.split() for point in path.split("L"))]
        for path in paths
    ]


def test_what_was_saved_stands_on_what_is_on_disk() -> None:
    """Of views the past does not say what would be without retentiond, so nothing is saved."""
    chart = on_disk({"orders": line(1, 1), "views": line(3, 3)}, {"orders": line(8, 12)})
    assert chart is not None
    assert chart.lines == [("on disk", [4 * GIB, 4 * GIB]), ("saved", [7 * GIB, 11 * GIB])]
    lower, upper = curves(svg := chart.svg(REPORT_LOOK, "disk"))
    assert [y for _, y in upper] < [y for _, y in lower]  # SVG counts from the top
    assert [text for _, text in places(svg, "legend")] == ["on disk", "saved"]
    assert "16.0 GiB" in svg
    assert on_disk({}, {}) is None


def test_days_have_equal_distances_though_the_points_do_not() -> None:
    times = [MIDNIGHT_MS + hours * HOUR_MS for hours in (5, 6, 50, 74, 98)]
    svg = Chart("t", times, [("a", [1, 2, 3, 4, 5])], str).svg(INLINE_LOOK, "t")
    labels = [place for place in places(svg, "axis") if "-" in place[1]]
    assert [text for _, text in labels] == ["09-05", "09-06", "09-07", "09-08"]
    gaps = [after - before for (before, _), (after, _) in pairwise(labels)]
    assert max(gaps) - min(gaps) <= 0.2
    (points,) = curves(svg)
    assert points[1][0] - points[0][0] < (points[2][0] - points[1][0]) / 40


@pytest.mark.parametrize("hours", [0.002, 0.1, 1, 5, 24, 7 * 24, 30 * 24, 400 * 24])
def test_an_axis_of_time_has_some_round_times(hours: float) -> None:
    last_ms = MIDNIGHT_MS + 12_345 + round(hours * HOUR_MS)
    times = time_steps(MIDNIGHT_MS + 12_345, last_ms, 6)
    assert 1 <= len(times) <= 6
    assert all(time % times.step == 0 for time in times)


@pytest.mark.parametrize(
    ("top", "of_bytes", "steps"),
    [
        (0, False, [0, 1]),
        (3, False, [0, 1, 2, 3]),
        (100, False, [0, 20, 40, 60, 80, 100]),
        (1_100, False, [0, 500, 1_000, 1_500]),
        (43 * GIB, True, [each * 16 * GIB for each in range(4)]),
    ],
)
def test_an_axis_of_values_has_round_steps(top: float, of_bytes: bool, steps: list[float]) -> None:
    assert value_steps(top, of_bytes=of_bytes) == steps


def test_a_large_count_fits_beside_the_axis() -> None:
    assert [*map(short_count, (0, 999, 1_500, 200_000_000, 2e9))] == [
        "0", "999", "1.5 k", "200 M", "2 bn",
    ]  # fmt: skip


def test_an_unknown_value_interrupts_a_line_and_has_no_bar() -> None:
    times = [MIDNIGHT_MS + hour * HOUR_MS for hour in range(4)]
    values = [1, None, 2, 3]
    svg = Chart("t", times, [("a", values)], str).svg(INLINE_LOOK, "t", [False, True, False, False])
    assert [len(curve) for curve in curves(svg)] == [1, 2]
    assert svg.count('class="unknown"') == 1
    bars = Chart("t", times, [("a", values)], str, Kind.BARS).svg(INLINE_LOOK, "t")
    assert bars.count("<rect") == 3


@pytest.mark.parametrize("length", [5, 60, 249])
def test_a_legend_has_its_names_whole_and_inside_the_picture(length: int) -> None:
    names = [letter * length for letter in "abc"]
    svg = Chart("t", [0, 1], [(name, [1, 2]) for name in names], str).svg(REPORT_LOOK, "t")
    legend = re.findall(r'<text class="legend" x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]+)<', svg)
    assert ["".join(text for _, _, text in legend if text[0] == name[0]) for name in names] == names
    assert len({(x, y) for x, y, _ in legend}) == len(legend)
    for x, y, text in legend:
        assert float(x) + 0.55 * REPORT_LOOK.text * len(text) <= REPORT_LOOK.width
        assert float(y) + 0.3 * REPORT_LOOK.text <= REPORT_LOOK.height  # also of a p or an _


def test_a_name_is_a_name_and_not_markup() -> None:
    name = '<b onclick="x">&'
    svg = Chart(name, [0, 1], [(name, [1, 2])], str, limits={name: 1}).svg(REPORT_LOOK, name)
    assert "<b" not in svg
    assert svg.count("&lt;b onclick=&#34;x&#34;&gt;&amp;") == 4
