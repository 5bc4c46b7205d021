"""Numbers by partition are a mapping, and come back from their packed form as they were."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retentiond.memory.by_partition import NONE, ByPartition, packed_all

offsets = st.integers(0, 2**63 - 1)

numbers = st.dictionaries(st.integers(0, 2**31 - 1), offsets, max_size=9)


@given(numbers)
def test_it_is_the_mapping_that_it_was_made_of(of: dict[int, int]) -> None:
    found = ByPartition.of(of)
    assert found == of
    assert (len(found), [*found]) == (len(of), sorted(of))
    assert {at: found.get(at) for at in of} == of
    assert found.get(5) == of.get(5)


@given(numbers, numbers)
def test_two_are_equal_if_they_say_the_same(one: dict[int, int], other: dict[int, int]) -> None:
    assert (ByPartition.of(one) == ByPartition.of(other)) == (one == other)
    assert ByPartition.of(one) == ByPartition.of({at: one[at] for at in reversed(one)})
    assert ByPartition.of(one).covers(ByPartition.of(other)) == (one.keys() >= other.keys())


@given(numbers, numbers)
def test_news_replace_what_was_known(known: dict[int, int], news: dict[int, int]) -> None:
    assert ByPartition.of(known).updated(ByPartition.of(news)) == {**known, **news}


@given(numbers)
def test_it_comes_back_from_its_packed_form(of: dict[int, int]) -> None:
    assert ByPartition.unpacked(ByPartition.of(of).packed()) == of


@given(numbers, st.data())
def test_each_of_several_comes_back(of: dict[int, int], data: st.DataObject) -> None:
    """Some have the same partitions as another one."""
    others = st.fixed_dictionaries(dict.fromkeys(of, offsets)) | numbers
    every = [of, *data.draw(st.lists(others, max_size=5))]
    packed = packed_all([ByPartition.of(each) for each in every])
    assert [ByPartition.unpacked(each) for each in packed] == every
    assert packed == [ByPartition.of(each).packed() for each in every]


@pytest.mark.parametrize("spread", [0, 1, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**62])
def test_numbers_of_any_spread_come_back(spread: int) -> None:
    of = {0: 7, 1: 7 + spread}
    assert ByPartition.unpacked(ByPartition.of(of).packed()) == of


def test_no_spread_is_too_large_to_come_back() -> None:
    """Whatever should once be kept: a wrong number would have the right checksum."""
    of = {0: -(2**63), 1: 2**63 - 1}
    assert ByPartition.unpacked(ByPartition.of(of).packed()) == of


def test_equal_times_of_partitions_without_a_gap_take_no_room() -> None:
    few, many = (dict.fromkeys(range(count), 1700000000000) for count in (2, 1000))
    assert len(ByPartition.of(many).packed()) == len(ByPartition.of(few).packed())


@given(numbers, st.data())
def test_a_packed_form_with_another_bit_or_a_missing_byte_is_refused(
    of: dict[int, int], data: st.DataObject
) -> None:
    packed = bytearray(ByPartition.of(of).packed())
    at = data.draw(st.integers(0, len(packed) - 1))
    if data.draw(st.booleans()):
        packed[at] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del packed[at:]
    with pytest.raises(ValueError, match="checksum"):
        ByPartition.unpacked(bytes(packed))


def test_of_nothing_there_is_nothing() -> None:
    assert NONE == {}
    assert ByPartition.unpacked(NONE.packed()) == {}


@given(numbers)
def test_all_that_have_the_same_partitions_share_one_array(of: dict[int, int]) -> None:
    one, other = ByPartition.of(of), ByPartition.of(dict.fromkeys(of, 1))
    assert one.partitions is other.partitions
    assert ByPartition.unpacked(one.packed()).partitions is one.partitions


def test_partitions_of_any_width_are_taken_for_what_they_are() -> None:
    partitions, offsets = np.array([1, 5], np.int64), np.array([30, 40], np.int64)
    assert ByPartition(partitions, offsets) == {1: 30, 5: 40}
