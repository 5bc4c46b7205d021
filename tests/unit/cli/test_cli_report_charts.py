"""The charts of a report's page."""

from __future__ import annotations

import re
from collections.abc import Iterator

from retentiond.cli.output.report import on_disk
from retentiond.history.ask.report_figures import Point

GIB = 2**30


def line(gib: float) -> list[Point]:
    return [Point(1_790_000_000_000 + hour * 3_600_000, gib * GIB) for hour in range(3)]


def words(svg: str) -> Iterator[str]:
    """All that is written in it, in its order."""
    yield from re.findall(r"<text[^>]*>([^<]+)</text>", svg)


def scale(svg: str) -> list[str]:
    return [word for word in words(svg) if re.fullmatch(r"[0-9.]+ [KMGT]?i?B", word)]


def legend(svg: str) -> list[str]:
    return [word for word in words(svg) if re.fullmatch(r"[a-z]+", word)]


def test_what_is_on_disk_and_what_would_be_have_one_scale_and_the_same_colours() -> None:
    """Of two topics the one that is smaller on disk is the larger one without retentiond."""
    was, would_be = on_disk(
        {"orders": line(1), "views": line(3)}, {"orders": line(40), "views": line(4)}
    )
    assert scale(was) == scale(would_be)
    assert scale(was)[-1] == "48.0 GiB"
    assert legend(was) == legend(would_be) == ["orders", "views"]


def test_a_chart_of_which_nothing_is_known_is_left_out() -> None:
    was, would_be = on_disk({"orders": line(1)}, {})
    assert "orders" in legend(was)
    assert would_be == ""
    assert on_disk({}, {}) == ["", ""]


def test_the_last_label_of_the_time_has_room() -> None:
    """It is as wide as 11 figures, and centred on the end of the axis."""
    (was, _) = on_disk({"orders": line(1)}, {})
    width = float(re.search(r'viewBox="0 0 (\d+) \d+"', was)[1])  # type: ignore[index]
    plots = re.findall(r'<g transform="translate\((\d+), \d+\)" class="plot">', was)
    axis = max(float(x) for x in re.findall(r'<path d="M0\.0+ [\d.]+ h([\d.]+)"', was))
    assert width - float(plots[0]) - axis >= 11 * 14 * 0.6 / 2
