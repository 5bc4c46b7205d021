"""What is made of a broker's answer that no record is young."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from retentiond.kafka.offsets.by_time import AGE_IS_HIDDEN, Found, offsets_at
from retentiond.model import Failure, TopicPartition

AT = TopicPartition("orders", 0)
TIME_MS = 1_000

Stamps = Mapping[TopicPartition, int | Failure | BaseException | None]

DOWN = Failure("LEADER_NOT_AVAILABLE", "it is down")


def found(answers: list[int | Failure | None], newest: Stamps) -> int | Failure | None:
    """``answers``: of the broker, one after the other."""

    def look_up(asked: Mapping[TopicPartition, int]) -> Found:
        assert asked == {AT: TIME_MS}
        return {AT: answers.pop(0)}

    def newest_of(
        asked: Collection[TopicPartition],
    ) -> Stamps:
        assert set(asked) == {AT}
        return newest

    told = offsets_at({AT: TIME_MS}, look_up, newest_of)
    assert answers == []
    assert set(told) == {AT}
    return told[AT]


@pytest.mark.parametrize("answer", [0, 7, DOWN])
def test_what_is_found_or_fails_is_taken_as_it_is(answer: int | Failure) -> None:
    assert found([answer], {}) == answer


@pytest.mark.parametrize("newest_ms", [-1, 0, TIME_MS - 1])
def test_none_is_young_where_the_newest_time_stamp_is_older(newest_ms: int) -> None:
    assert found([None], {AT: newest_ms}) is None


@pytest.mark.parametrize(
    "newest", [{AT: TIME_MS}, {AT: TIME_MS + 1}, {AT: TimeoutError("no answer")}, {AT: None}, {}]
)
def test_where_something_on_the_disk_may_be_young_the_age_is_hidden(
    newest: Stamps,
) -> None:
    assert found([None, None], newest) == AGE_IS_HIDDEN


def test_where_the_newest_time_stamp_can_not_be_read_that_is_what_is_said() -> None:
    refused = Failure("INVALID_RECORD", "it does not unpack them")
    assert found([None, None], {AT: refused}) == refused


@pytest.mark.parametrize("answer", [9, DOWN])
def test_a_record_that_has_come_since_is_found(answer: int | Failure) -> None:
    assert found([None, answer], {AT: TIME_MS}) == answer
