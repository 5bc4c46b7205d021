"""Retention that stands still, told from several readings; each test says what they show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from retentiond.disks.log_dirs import DiskReading
from retentiond.disks.stuck import (
    DiskHistory,
    Overdue,
    Patience,
    ReadingTime,
    Stuck,
    StuckCause,
    overdue_retention,
    stuck_moves,
    uneven_replicas,
    unmoved_log_starts,
)
from tests.support.builders.disk_readings import AT, reading

INTERVAL_MS = 5 * 60_000
PATIENCE = Patience()

GROWING = [9000, 9500, 9900, 9990, 9999]


def seen(readings: Sequence[DiskReading], log_starts: Sequence[int] = ()) -> DiskHistory:
    """The history after those, an interval apart."""
    history = DiskHistory()
    for number, each in enumerate(readings):
        starts = {AT: log_starts[number]} if log_starts else {}
        history = history.with_reading(each, starts, number * INTERVAL_MS)
    return history


def moves(sizes: Sequence[int]) -> list[Stuck]:
    readings = [reading({1: 9000}, future={1: size}) for size in sizes]
    return list(stuck_moves(seen(readings), PATIENCE))


def uneven(*sizes: Sequence[int]) -> list[Stuck]:
    """``sizes`` of the replicas on brokers 1, 2, … over time."""
    readings = [reading(dict(enumerate(each, start=1))) for each in zip(*sizes, strict=True)]
    return list(uneven_replicas(seen(readings), PATIENCE))


def test_a_move_that_stands_for_three_intervals_is_stuck() -> None:
    (stuck,) = moves([100, 700, 700, 700, 700])
    assert (stuck.at, stuck.cause) == (AT, StuckCause.FUTURE_REPLICA)
    assert stuck.sentence.startswith(
        "its move to /b on broker 1 has stood at 700 B for 15 minutes, "
    )


@pytest.mark.parametrize("sizes", [[700] * 3, [0, 1, 2, 3, 4, 5], [700, 700, 700, 800, 800]])
def test_a_move_that_goes_on_or_has_just_begun_is_not(sizes: list[int]) -> None:
    assert moves(sizes) == []


def test_readings_in_quick_succession_do_not_make_a_move_stuck() -> None:
    history = DiskHistory()
    for at_ms in range(10):
        history = history.with_reading(reading({1: 9}, future={1: 7}), {}, at_ms)
    assert list(stuck_moves(history, PATIENCE)) == []


def test_a_move_that_has_ended_is_forgotten() -> None:
    moving = reading({1: 9000}, future={1: 700})
    assert list(stuck_moves(seen([*[moving] * 4, reading({1: 9000})]), PATIENCE)) == []


def test_a_reading_that_fails_in_between_forgets_nothing() -> None:
    moving = reading({1: 9000}, future={1: 700})
    unread = DiskReading(unreadable=frozenset({AT}))
    assert list(stuck_moves(seen([moving, moving, unread, moving]), PATIENCE)) != []


def test_a_replica_that_grows_while_the_others_shrink_is_stuck() -> None:
    (stuck,) = uneven(GROWING, [9000, 5000, 5500, 5600, 5700])
    assert (stuck.at, stuck.cause) == (AT, StuckCause.REPLICA_GROWS)
    assert stuck.sentence.startswith(
        "broker 1 keeps 9.8 KiB of it in /a and removes nothing, "
        "while every other replica shrinks (to 5.6 KiB)"
    )


@pytest.mark.parametrize(
    "sizes",
    [
        # slower than the others by less than that
        [[9000, 9500, 9900, 9990], [9000, 5000, 5500, 5600]],
        [[9000, 9500, 9900, 9990, 5700], [9000, 5000, 5500, 5600, 5700]],
        # another replica has not shrunk either
        [GROWING, GROWING, [9000, 5000, 5500, 5600, 5700]],
        # a reassignment's new replica, which is no larger than the others
        [[0, 100, 300, 400, 500], [9000, 5000, 5500, 5600, 5700]],
        # no other to be held against
        [GROWING],
        # they shrink by turns
        [
            [9000, 5000, 6000, 3000, 4000, 2000, 3000, 1000],
            [9000, 9500, 5100, 6100, 3100, 4100, 2100, 3100],
        ],
    ],
)
def test_replicas_that_are_not_stuck(sizes: list[list[int]]) -> None:
    assert uneven(*sizes) == []


def test_a_log_start_that_has_stood_for_three_intervals_is_suspect() -> None:
    five = [reading({1: 9000})] * 5
    assert unmoved_log_starts(seen(five, [3, 7, 7, 7, 7]), PATIENCE) == {AT}
    assert unmoved_log_starts(seen(five, [3, 3, 3, 3, 7]), PATIENCE) == set()


def test_more_than_a_segment_that_is_too_old_is_stuck() -> None:
    """100 bytes a record, segments of 1,000."""
    overdue = Overdue(40, 100, 100.0, 1000).up_to(51)
    (stuck,) = overdue_retention({AT: overdue})
    assert (stuck.at, stuck.cause) == (AT, StuckCause.RETENTION_OVERDUE)
    assert stuck.sentence.startswith(
        "about 1.1 KiB from offset 40 to 51 are older than the topic's retention.ms, "
    )


def test_less_than_a_segment_may_lie_in_one_that_is_not_old_as_a_whole() -> None:
    assert list(overdue_retention({AT: Overdue(40, 50, 100.0, 1000)})) == []
    assert list(overdue_retention({AT: Overdue(40, 90, 100.0, 1000).up_to(45)})) == []


def test_patience_asks_for_readings_and_for_time() -> None:
    patience = Patience(readings=2, ms=10)
    assert patience.is_over(ReadingTime(1, 0), ReadingTime(3, 10))
    assert not patience.is_over(ReadingTime(1, 0), ReadingTime(2, 10))
    assert not patience.is_over(ReadingTime(1, 0), ReadingTime(3, 9))
    assert replace(patience, ms=0).is_over(ReadingTime(1, 0), ReadingTime(3, 0))
