"""When a disk is full if it goes on as it did."""

from __future__ import annotations

from retentiond.history.ask.report_figures import full_ms

HOUR_MS = 3_600_000
NOW_MS = 1_000 * HOUR_MS


def by_the_hour(*usable: float) -> list[tuple[int, float]]:
    return [(hour * HOUR_MS, each) for hour, each in enumerate(usable)]


def test_a_disk_that_fills_is_full_once_what_is_left_is_taken() -> None:
    assert full_ms(by_the_hour(100, 90, 80), NOW_MS) == NOW_MS + 8 * HOUR_MS


def test_one_that_does_not_fill_is_never_full() -> None:
    assert full_ms(by_the_hour(80, 80, 80), NOW_MS) is None
    assert full_ms(by_the_hour(80, 90, 100), NOW_MS) is None


def test_less_than_an_hour_says_nothing() -> None:
    assert full_ms([(0, 100), (HOUR_MS - 1, 90)], NOW_MS) is None
    assert full_ms([(0, 100)], NOW_MS) is None


def test_one_that_is_full_has_been_since_it_was_first_seen_so() -> None:
    assert full_ms(by_the_hour(20, 0, -20, -40), NOW_MS) == NOW_MS - 2 * HOUR_MS
    assert full_ms(by_the_hour(-20, -20), NOW_MS) == NOW_MS - HOUR_MS
