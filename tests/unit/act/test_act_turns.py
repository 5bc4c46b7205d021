"""Whose turn it is: what an earlier cycle left out comes first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from retentiond.act.carry_out import still_waiting
from retentiond.model import (
    DeletionOutcome,
    Outcome,
    PlanRow,
    Reason,
    TopicPartition,
    Verdict,
    in_turn,
)
from tests.support.builders.guard_readings import deletion


def row(partition: int) -> PlanRow:
    return deletion(TopicPartition("orders", partition), cutoff=10)


def at(*partitions: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition("orders", partition) for partition in partitions)


def done(row: PlanRow, outcome: Outcome = Outcome.DELETED) -> DeletionOutcome:
    return DeletionOutcome(row.topic, row.partition, outcome)


def test_those_that_wait_are_requested_first_in_the_order_of_their_waiting() -> None:
    rows = [row(partition) for partition in range(4)]
    assert in_turn(rows, at(3, 7, 1)) == [3, 1, 0, 2]


def test_whose_batch_came_too_late_waits_as_well() -> None:
    rows = (row(0), row(1))
    late = done(rows[1], Outcome.NOT_ATTEMPTED)
    assert still_waiting((), rows, [done(rows[0]), late]) == at(1)
    assert still_waiting(at(1), rows, map(done, rows)) == ()


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.UNKNOWN])
def test_a_request_that_went_out_was_a_turn_whatever_became_of_it(outcome: Outcome) -> None:
    assert still_waiting(at(0), [row(0)], [done(row(0), outcome)]) == ()


def test_whom_the_guard_turns_down_has_had_its_turn_and_who_is_held_otherwise_keeps_it() -> None:
    turned_down = replace(row(0), verdict=Verdict.HOLD, reason=Reason.EVIDENCE_CHANGED)
    held = replace(row(1), verdict=Verdict.HOLD, reason=Reason.GROUP_WITHOUT_COMMIT)
    nothing_to_do = replace(row(2), verdict=Verdict.NOTHING, reason=Reason.EMPTY)
    rows = (turned_down, held, nothing_to_do)
    assert still_waiting(at(2, 1, 0, 9), rows, ()) == at(1)
    assert still_waiting((), rows, ()) == ()


def test_a_trial_waits_for_no_turn() -> None:
    held = replace(row(0), verdict=Verdict.HOLD, reason=Reason.LIMIT_REACHED, dry_run=True)
    assert still_waiting(at(0), [held], ()) == ()
