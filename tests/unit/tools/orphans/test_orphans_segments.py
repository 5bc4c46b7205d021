"""How old the newest record of a segment is."""

from __future__ import annotations

import io
import struct

import pytest

from retentiond.tools.orphans.contents import Misread, Newest, newest_by_time_index, newest_in_log
from tests.support.builders.orphans_host import batch, time_index


def test_the_largest_timestamp_of_a_time_index_counts_wherever_it_stands() -> None:
    assert newest_by_time_index(time_index(1_000, 3_072, 2_000)) == 3_072


def test_an_empty_time_index_tells_nothing() -> None:
    assert newest_by_time_index(b"") is None


def test_the_zeros_behind_a_time_index_after_a_crash_are_no_entries() -> None:
    """The last entry ends with zeros of its own: offset 0, and a timestamp of 256 times n."""
    assert newest_by_time_index(struct.pack(">qi", 256_000, 0) + bytes(12 * 1000)) == 256_000
    assert newest_by_time_index(bytes(1200)) is None


def test_a_time_index_that_is_cut_off_is_misread() -> None:
    with pytest.raises(Misread):
        newest_by_time_index(time_index(1_000)[:-1])


def read(log: bytes) -> Newest:
    return newest_in_log(io.BytesIO(log))


def test_the_newest_batch_counts_wherever_it_stands() -> None:
    assert read(batch(5_000) + batch(9_000, size=70_000) + batch(7_000)) == Newest(9_000, True)


def test_an_empty_segment_has_no_time() -> None:
    assert read(b"") == Newest(None, True)


@pytest.mark.parametrize("zeros", [1, 60, 61, 4096, 3 << 20])
def test_behind_zeros_nothing_is_known_of_what_was_there(zeros: int) -> None:
    """A preallocated segment ends so, and one whose last pages were never written."""
    assert read(batch(5_000) + bytes(zeros)) == Newest(5_000, False)


def test_a_batch_whose_records_were_all_compacted_away_is_whole() -> None:
    empty = batch(5_000, size=0)
    assert read(empty[:-4] + bytes(4)) == Newest(5_000, True)


@pytest.mark.parametrize("cut", [1, 50, 99, 100, 140, 150])
def test_a_batch_that_is_cut_off_is_told(cut: int) -> None:
    assert read(batch(5_000) + batch(9_000)[:-cut]) == Newest(5_000, False)


@pytest.mark.parametrize("undated_ms", [-1, -62_135_596_800_000])
def test_records_without_a_time_may_be_newer_than_those_that_have_one(undated_ms: int) -> None:
    assert read(batch(undated_ms)) == Newest(None, False)
    assert read(batch(5_000) + batch(undated_ms)) == Newest(5_000, False)
    first_is_undated = bytearray(batch(5_000))
    first_is_undated[27:35] = struct.pack(">q", undated_ms)
    assert read(bytes(first_is_undated)) == Newest(5_000, False)


def test_the_oldest_formats_are_read() -> None:
    zero = struct.pack(">qiibb", 0, 14, 0, 0, 0) + bytes(8)
    one = struct.pack(">qiibbq", 0, 22, 0, 1, 0, 8_000) + bytes(8)
    assert read(one) == Newest(8_000, True)
    assert read(zero + one) == Newest(8_000, False)
    assert read(zero) == Newest(None, False)


@pytest.mark.parametrize("log", [b"no records at all" * 10, batch(5_000) + b"\7" * 60])
def test_what_is_no_batch_is_misread(log: bytes) -> None:
    with pytest.raises(Misread):
        read(log)
