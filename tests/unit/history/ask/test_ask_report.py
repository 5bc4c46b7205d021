"""When a disk is full if it goes on as it did."""

from __future__ import annotations

import pyarrow as pa
import pytest

from retentiond.history.ask.report import deleted_by_day
from retentiond.history.ask.report_figures import full_ms, trend

HOUR_MS = 3_600_000
NOW_MS = 1_000 * HOUR_MS


def test_the_records_of_a_day_stand_at_its_noon_and_no_day_is_left_out() -> None:
    day_ms = 24 * HOUR_MS
    begin_ms = NOW_MS // day_ms * day_ms
    deleted = pa.table({"day_ms": [begin_ms + day_ms] * 2 + [begin_ms], "records": [1, None, 5]})
    points = deleted_by_day(deleted, begin_ms + 20 * HOUR_MS, begin_ms + 3 * day_ms)
    noon_ms = begin_ms + day_ms // 2
    assert points == [(noon_ms + day * day_ms, n) for day, n in enumerate((5, 1, 0, 0))]
    assert deleted_by_day(deleted.slice(0, 0), begin_ms, begin_ms) == []


def by_the_hour(*usable: float) -> list[tuple[int, float]]:
    return [(hour * HOUR_MS, each) for hour, each in enumerate(usable)]


@pytest.mark.parametrize(
    ("usable", "full_after_h"),
    [
        ((100, 90, 80), 8),
        # it does not fill
        ((80, 80, 80), None),
        ((80, 90, 100), None),
        ((100,), None),
        # it is full, since it was first seen so
        ((20, 0, -20, -40), -2),
        ((-20, -20), -1),
    ],
)
def test_a_disk_is_full_once_what_is_left_is_taken(
    usable: tuple[float, ...], full_after_h: int | None
) -> None:
    expected = None if full_after_h is None else NOW_MS + full_after_h * HOUR_MS
    assert full_ms(by_the_hour(*usable), NOW_MS) == expected


def test_less_than_an_hour_says_nothing() -> None:
    assert full_ms([(0, 100), (HOUR_MS - 1, 90)], NOW_MS) is None


def sawtooth(fall: int, rise: int, steps: int = 144) -> list[tuple[int, int]]:
    """Free space that falls with each step, and rises with each twelfth."""
    free, points = 1_000_000, []
    for step in range(steps):
        free += (rise if step % 12 == 11 else 0) - fall
        points.append((step, free))
    return points


def test_the_trend_of_a_sawtooth_is_not_that_of_a_tooth() -> None:
    assert trend(sawtooth(300, 3600)) == 0
    assert trend(sawtooth(300, 3600)[:-5]) == 0
    assert trend(sawtooth(300, 3000)) == pytest.approx(-50)
    assert trend(sawtooth(300, 0)) == pytest.approx(-300)
