"""Geometry that no browser has to be asked about."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from retentiond.disks.broker_disks import NO_DISKS
from retentiond.model import Reason
from retentiond.tell.figures.answers import PartitionAnswer
from retentiond.tell.page.overview import PAGE_ROWS, paged
from retentiond.tell.page.render import RECORD_KINDS, bar, mark, records_by_kind
from tests.support.scenes import partition

COUNTS = st.dictionaries(st.sampled_from(RECORD_KINDS), st.integers(0, 2**63), max_size=4)
ROUNDING = 0.05


@given(COUNTS, st.integers(0, 2**63))
def test_the_parts_of_a_bar_stand_side_by_side_and_fit(counts: dict[str, int], more: int) -> None:
    parts = bar(counts, 160, sum(counts.values()) + more)
    assert [part.records for part in parts] == [
        counts[each] for each in RECORD_KINDS if counts.get(each)
    ]
    assert all(part.width > 0 for part in parts)
    for part, following in pairwise(parts):
        assert abs(part.x + part.width - following.x) < ROUNDING
    assert not parts or parts[-1].x + parts[-1].width <= 160 + ROUNDING


@given(COUNTS)
def test_a_topics_records_fill_its_bar(counts: dict[str, int]) -> None:
    parts = bar(counts, 100)
    assert not parts or abs(parts[-1].x + parts[-1].width - 100) < ROUNDING


def test_a_single_record_beside_billions_is_still_seen() -> None:
    unread = bar({"go": 10**12, "unread": 1}, 100)[1]
    assert unread.width > 0.5


def test_the_kinds_of_a_partition_are_all_of_its_records() -> None:
    row = partition("orders", 0, start=100, committed=700, young=600, end=1_000)
    assert records_by_kind(PartitionAnswer(row, NO_DISKS)) == Counter({"go": 500, "young": 400})
    row = partition("orders", 0, Reason.NOT_CONSUMED, start=100, committed=100, young=600)
    assert records_by_kind(PartitionAnswer(row, NO_DISKS)) == Counter({"unread": 500, "young": 400})
    row = partition("orders", 0, Reason.NO_GROUP, start=100, group=None)
    assert records_by_kind(PartitionAnswer(row, NO_DISKS)) == Counter({"held": 900})


def test_a_mark_outside_of_the_log_is_not_drawn() -> None:
    row = partition("orders", 0, start=100, end=200)
    whole = 400
    assert mark(row, 150, 160, whole) == 20
    assert mark(row, 99, 160, whole) is None
    assert mark(row, 201, 160, whole) is None
    assert mark(row, None, 160, whole) is None


def test_an_empty_topic_has_a_picture_too() -> None:
    row = partition("orders", 0, Reason.EMPTY, end=0)
    assert bar(records_by_kind(PartitionAnswer(row, NO_DISKS)), 160, 0) == ()
    assert mark(row, 0, 160, 0) == 0


@given(st.integers(0, 1_000), st.text() | st.none())
def test_whatever_page_is_asked_for_one_is_shown(count: int, wanted: str | None) -> None:
    page = paged(range(count), count, wanted)
    assert 1 <= page.number <= page.pages
    assert len(page.rows) == min(PAGE_ROWS, count - (page.number - 1) * PAGE_ROWS)
