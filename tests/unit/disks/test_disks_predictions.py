"""Bytes that a deletion frees, foretold; segments of 1,000 bytes, records of 10."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retentiond.disks.predictions import DeletedRange, SegmentRules, freed_bytes, predict
from tests.support.builders.disk_readings import AT, deletion, reading, replica, tiered

RULES = SegmentRules(segment_bytes=1000)


@pytest.mark.parametrize(
    ("size", "deleted", "rules", "freed"),
    [
        (5500, (0, 349, 550), {}, 3000),
        (5500, (0, 400, 550), {}, 4000),
        # the active segment stays, even where everything goes
        (5500, (0, 550, 550), {}, 5000),
        (5000, (0, 500, 500), {}, 4000),
        (900, (0, 90, 90), {}, 0),
        (900, (30, 90, 90), {}, 0),
        # after an earlier deletion 500 dead bytes, by expectation, leave 10,000 to 1,000 records
        (10_500, (700, 1000, 1700), {}, 3000),
        # what Kafka removes anyway does not count
        (5500, (0, 349, 550), {"retention_bytes": 4000}, 2000),
        (5500, (0, 100, 550), {"retention_bytes": 4000}, 0),
        (3500, (0, 349, 350), {"retention_bytes": 4000}, 3000),
        (5500, (0, 400, 550), {"kafka_removes_all": True}, 0),
        # segments that are closed by their age are smaller, and hold a record at least
        (900, (0, 50, 90), {"segment_ms": 20, "records_per_ms": 1.0}, 400),
        (900, (0, 50, 90), {"segment_ms": 1, "records_per_ms": 0.001}, 500),
        # nothing is deleted
        (5000, (0, 0, 100), {}, 0),
        (5000, (50, 40, 100), {}, 0),
        (5000, (50, 50, 50), {}, 0),
        (5000, (5, 9, 3), {}, 0),
    ],
)
def test_closed_segments_that_the_cutoff_covers_wholly_are_freed(
    size: int, deleted: tuple[int, int, int], rules: dict[str, Any], freed: int
) -> None:
    assert freed_bytes(size, DeletedRange(*deleted), replace(RULES, **rules)) == freed


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


def test_what_a_tiered_log_has_in_remote_storage_alone_frees_nothing_on_the_disks() -> None:
    """The disks have the records from offset 800 on."""
    disks = reading({1: 4000})
    assert predict([deletion(500)], tiered(), disks) == {AT: {replica(): 0}}
    assert predict([deletion(1000)], tiered(), disks)[AT][replica()] > 0


def test_where_a_tiered_logs_local_start_is_not_known_nothing_is_predicted() -> None:
    assert predict([deletion(500)], tiered(local_start=None), reading({1: 4000})) == {}
