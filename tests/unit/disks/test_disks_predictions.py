"""Bytes that a deletion frees, foretold; segments of 1,000 bytes, records of 10."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retentiond.disks.predictions import DeletedRange, SegmentRules, freed_bytes

RULES = SegmentRules(segment_bytes=1000)


def test_a_log_from_offset_0_loses_the_segments_that_the_cutoff_covers_wholly() -> None:
    assert freed_bytes(5500, DeletedRange(0, 349, 550), RULES) == 3000
    assert freed_bytes(5500, DeletedRange(0, 400, 550), RULES) == 4000


def test_the_active_segment_stays_even_where_everything_goes() -> None:
    assert freed_bytes(5500, DeletedRange(0, 550, 550), RULES) == 5000
    assert freed_bytes(5000, DeletedRange(0, 500, 500), RULES) == 4000


@pytest.mark.parametrize("log_start", [0, 30])
def test_a_log_of_one_segment_loses_nothing(log_start: int) -> None:
    assert freed_bytes(900, DeletedRange(log_start, 90, 90), RULES) == 0


def test_after_an_earlier_deletion_it_is_what_the_records_take() -> None:
    """500 dead bytes, by expectation, leave 10,000 to 1,000 records."""
    assert freed_bytes(10_500, DeletedRange(700, 1000, 1700), RULES) == 3000


def test_what_retention_bytes_removes_anyway_does_not_count() -> None:
    rules = replace(RULES, retention_bytes=4000)
    assert freed_bytes(5500, DeletedRange(0, 349, 550), rules) == 2000
    assert freed_bytes(5500, DeletedRange(0, 100, 550), rules) == 0
    assert freed_bytes(3500, DeletedRange(0, 349, 350), rules) == 3000


def test_what_retention_ms_removes_anyway_does_not_count() -> None:
    assert freed_bytes(5500, DeletedRange(0, 400, 550), replace(RULES, kafka_removes_all=True)) == 0


def test_segments_that_are_closed_by_their_age_are_smaller() -> None:
    """A record each millisecond: 20 of them are a segment."""
    rules = replace(RULES, segment_ms=20, records_per_ms=1.0)
    assert freed_bytes(900, DeletedRange(0, 50, 90), rules) == 400


def test_a_slow_topics_segments_hold_a_record_at_least() -> None:
    rules = replace(RULES, segment_ms=1, records_per_ms=0.001)
    assert freed_bytes(900, DeletedRange(0, 50, 90), rules) == 500


@pytest.mark.parametrize(
    "cut",
    [
        DeletedRange(0, 0, 100),
        DeletedRange(50, 40, 100),
        DeletedRange(50, 50, 50),
        DeletedRange(5, 9, 3),
    ],
)
def test_where_nothing_is_deleted_nothing_is_freed(cut: DeletedRange) -> None:
    assert freed_bytes(5000, cut, RULES) == 0


OFFSETS = st.integers(0, 10**9)


@given(
    size=st.integers(-10, 10**12),
    offsets=st.tuples(OFFSETS, OFFSETS, OFFSETS).map(sorted),
    segment_bytes=st.integers(1, 10**10),
    segment_ms=st.none() | st.integers(0, 10**10),
    records_per_ms=st.none() | st.floats(0, 10**6),
    retention_bytes=st.none() | st.integers(0, 10**12),
)
def test_it_is_never_negative_and_never_all_of_the_size(  # noqa: PLR0917 - hypothesis names them
    size: int,
    offsets: list[int],
    segment_bytes: int,
    segment_ms: int | None,
    records_per_ms: float | None,
    retention_bytes: int | None,
) -> None:
    rules = SegmentRules(segment_bytes, segment_ms, retention_bytes, records_per_ms)
    log_start, cutoff, end = offsets
    freed = freed_bytes(size, DeletedRange(log_start, cutoff, end), rules)
    assert 0 <= freed < max(1, size)


@given(
    size=st.integers(1, 10**9),
    offsets=st.tuples(OFFSETS, OFFSETS, OFFSETS, OFFSETS).map(sorted),
    segment_bytes=st.integers(1, 10**7),
)
def test_a_higher_cutoff_never_frees_less(
    size: int, offsets: list[int], segment_bytes: int
) -> None:
    rules = SegmentRules(segment_bytes)
    log_start, lower, higher, end = offsets
    less = freed_bytes(size, DeletedRange(log_start, lower, end), rules)
    assert less <= freed_bytes(size, DeletedRange(log_start, higher, end), rules)


@pytest.mark.long
@given(
    records=st.lists(st.integers(1, 400), min_size=60, max_size=200),
    cutoff_share=st.floats(0, 1),
)
def test_on_a_log_from_offset_0_it_is_off_by_few_segments_at_most(
    records: list[int], cutoff_share: float
) -> None:
    """Records of any size, cut into real segments of at most 1,000 bytes."""
    segments: list[list[int]] = [[]]
    for size in records:
        if segments[-1] and sum(segments[-1]) + size > 1000:
            segments.append([])
        segments[-1].append(size)
    cutoff = int(len(records) * cutoff_share)
    freed, passed = 0, 0
    for segment in segments[:-1]:
        passed += len(segment)
        freed += sum(segment) if passed <= cutoff else 0
    size = sum(records)
    uneven = max(
        abs(sum(records[:at]) - size * at / len(records)) for at in range(len(records) + 1)
    )
    predicted = freed_bytes(size, DeletedRange(0, cutoff, len(records)), RULES)
    assert abs(predicted - freed) <= 2 * 1000 + uneven
