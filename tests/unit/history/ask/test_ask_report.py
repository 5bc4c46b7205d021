"""Who keeps what, as the page says it, and when a disk is full if it goes on as it did."""

from __future__ import annotations

import pytest

from retentiond.config import Limits
from retentiond.decide.limits import within_limits
from retentiond.disks.broker_disks import DiskReport
from retentiond.history.ask.report import deleted_by_day, keeping_groups
from retentiond.history.ask.report_figures import full_ms, trend
from retentiond.history.schema import PLAN_FIELDS
from retentiond.model import PlanRow, Reason
from retentiond.tell.figures.answers import PartitionAnswer
from tests.support.builders.first_looks import rest

HOUR_MS = 3_600_000
NOW_MS = 1_000 * HOUR_MS


def test_the_records_of_a_day_stand_at_its_noon_and_no_day_is_left_out() -> None:
    day_ms = 24 * HOUR_MS
    begin_ms = NOW_MS // day_ms * day_ms
    days = [begin_ms + day_ms] * 2 + [begin_ms]
    deleted = [{"day_ms": day, "records": n} for day, n in zip(days, [1, None, 5], strict=True)]
    points = deleted_by_day(deleted, begin_ms + 20 * HOUR_MS, begin_ms + 3 * day_ms)
    noon_ms = begin_ms + day_ms // 2
    assert points == {noon_ms + day * day_ms: n for day, n in enumerate((5, 1, 0, 0))}
    assert deleted_by_day([], begin_ms, begin_ms) == {}


@pytest.mark.parametrize(
    "planned",
    [
        rest(),
        rest(Reason.NOT_CONSUMED),
        rest(Reason.NOT_WORTHWHILE),
        rest(Reason.TOO_YOUNG, log_start_offset=150),
        rest(Reason.GROUP_VANISHED),
        rest(Reason.NO_GROUP),
        rest(Reason.EVIDENCE_CHANGED),
        rest(Reason.LIMIT_REACHED),
        rest(retention_offset=None),
        rest(min_committed_offset=190, cutoff=150),
        *within_limits([rest()], Limits(records_per_cycle=20)),
        *within_limits([rest(min_committed_offset=190, cutoff=150)], Limits(records_per_cycle=20)),
    ],
)
def test_what_a_group_keeps_is_what_the_page_says_that_it_keeps(planned: PlanRow) -> None:
    """Of the row as the history has it."""
    recorded = {
        **{name: getattr(planned, name) for name, *_ in PLAN_FIELDS},
        "last_stable_offset": planned.high_watermark,
        "size_bytes": 19_000,
    }
    keepers = keeping_groups([recorded], ())
    answer = PartitionAnswer(planned, DiskReport({planned.topic_partition: 19_000}))
    assert [(keeper.group, keeper.records, keeper.bytes) for keeper in keepers] == [
        (part.binding_group, part.records, part.size_bytes)
        for part in answer.kept
        if part.binding_group is not None
    ]
    assert keeping_groups([recorded | {"reason": "of_tomorrow"}], ()) == ()


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
