"""What look-ups by time have told: the closest bound of every offset."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retentiond.snapshot import NOWHERE
from retentiond.tell.figures.time_stamps import MOST_TIMES_KEPT, SEARCHED_AT_ONCE, KnownTimeStamps

PARTITIONS = 3
END = 40

answers = st.lists(
    st.tuples(
        st.integers(0, PARTITIONS - 1),
        st.integers(1, 50),
        st.one_of(st.none(), st.integers(0, END - 1)),
    ),
    max_size=MOST_TIMES_KEPT,  # so that none has to make room
    unique_by=lambda answer: answer[:2],  # a time is looked up once
)


@given(answers, st.lists(st.integers(0, END), min_size=PARTITIONS, max_size=PARTITIONS))
def test_every_offset_has_the_closest_bound_of_all_answers(
    told: list[tuple[int, int, int | None]], log_starts: list[int]
) -> None:
    known = KnownTimeStamps()
    ends = np.full(PARTITIONS, END)
    known.rearrange(["a", "b", "c"], np.array(log_starts), ends)
    for partition, time_ms, found in told:
        learn(known, partition, time_ms, found)
    every = [(partition, offset) for partition in range(PARTITIONS) for offset in range(END + 1)]
    stamps = known.last_stamps(*(np.array(column) for column in zip(*every, strict=True)))
    for at, (partition, offset) in enumerate(every):
        here = [(time_ms, found) for where, time_ms, found in told if where == partition]
        passed = [(time_ms, found) for time_ms, found in here if found is not None]
        presumed = [time_ms for time_ms, found in passed if found <= offset]
        certain = [time_ms for time_ms, found in passed if log_starts[partition] <= found <= offset]
        below = [time_ms for time_ms, found in here if offset < (END if found is None else found)]
        assert stamps.presumed[at] == max(presumed, default=-np.inf)
        assert stamps.not_before[at] == max(certain, default=-np.inf)
        assert stamps.before[at] == min(below, default=np.inf)


def test_more_offsets_than_are_searched_at_once_have_their_bounds() -> None:
    known = KnownTimeStamps()
    known.rearrange(["a"], np.array([0]), np.array([1000]))
    learn(known, 0, 7, 10)
    offsets = np.arange(2 * SEARCHED_AT_ONCE + 1) % 20
    stamps = known.last_stamps(np.zeros_like(offsets), offsets)
    assert (stamps.not_before == np.where(offsets < 10, -np.inf, 7)).all()


def test_the_answer_that_was_of_no_use_for_longest_makes_room() -> None:
    known = KnownTimeStamps()
    known.rearrange(["a"], np.array([0]), np.array([1000]))
    for time_ms in range(1, MOST_TIMES_KEPT + 1):
        learn(known, 0, time_ms, time_ms * 10)
        for used in range(1, time_ms + 1):
            if used != 5:
                assert not_before(known, used * 10) == used
    learn(known, 0, MOST_TIMES_KEPT + 1, (MOST_TIMES_KEPT + 1) * 10)
    assert not_before(known, 50) == 4
    assert not_before(known, 40) == 4


@pytest.mark.parametrize("end", [20, 21])
def test_what_lies_beyond_a_new_end_is_forgotten(end: int) -> None:
    known = KnownTimeStamps()
    known.rearrange(["a"], np.array([0]), np.array([1000]))
    learn(known, 0, 7, 20)
    known.rearrange(["b", "a"], np.array([0, 0]), np.array([1000, end]))
    stamps = known.last_stamps(np.array([1]), np.array([25]))
    assert stamps.not_before[0] == (7 if end > 20 else -np.inf)


def learn(known: KnownTimeStamps, partition: int, time_ms: int, found: int | None) -> None:
    known.learn(
        np.array([partition]),
        np.array([time_ms]),
        np.array([NOWHERE if found is None else found]),
        np.array([END if found is None else NOWHERE]),
    )


def not_before(known: KnownTimeStamps, offset: int) -> float:
    return float(known.last_stamps(np.array([0]), np.array([offset])).not_before[0])
