"""Limits: what fits goes in the plan's order, what does not is held, and something always goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from retentiond.act.carry_out import still_waiting
from retentiond.config import Limits
from retentiond.decide.limits import (
    once_settled,
    unless_paused,
    within_limits,
)
from retentiond.model import DeletionOutcome, Outcome, PlanRow, Reason, TopicPartition, Verdict
from tests.support.builders.guard_readings import deletion


def row(partition: int, records: int) -> PlanRow:
    return deletion(TopicPartition("orders", partition), cutoff=10 + records)


def limits(*, records: int | None = None, partitions: int | None = None) -> Limits:
    return Limits(records_per_cycle=records, partitions_per_cycle=partitions)


def shown(rows: Sequence[PlanRow]) -> list[int | None]:
    """How many records of each go; None: it is held."""
    return [each.records if each.verdict is Verdict.DELETE else None for each in rows]


@pytest.mark.parametrize(
    ("planned", "most", "going"),
    [
        ([1_000_000, 2_000_000], limits(), [1_000_000, 2_000_000]),
        ([60, 40], limits(records=100, partitions=2), [60, 40]),
        ([30, 71, 70], limits(records=100), [30, None, 70]),  # a smaller one after it goes
        ([1, 1, 1], limits(partitions=2), [1, 1, None]),
        ([60, 99, 10], limits(records=100, partitions=2), [60, None, 10]),  # it takes no place
        ([101, 1], limits(records=100), [100, None]),  # the first is done in part
        ([1, 101], limits(records=100), [1, None]),  # and no other one
        ([5], limits(records=1), [1]),
    ],
)
def test_what_fits_goes_whole_and_the_first_deletion_in_part(
    planned: list[int], most: Limits, going: list[int | None]
) -> None:
    rows = [row(partition, records) for partition, records in enumerate(planned)]
    found = within_limits(rows, most)

    assert shown(found) == going
    for before, after in zip(rows, found, strict=True):
        if before.records == after.records:
            assert after == before
        if after.verdict is Verdict.HOLD:
            assert (after.reason, after.records) == (Reason.LIMIT_REACHED, 0)
            assert after.cutoff == before.cutoff  # figures stay


def test_what_is_held_or_done_in_part_says_by_which_limit() -> None:
    _, held = within_limits((row(0, 30), row(1, 71)), limits(records=100))
    assert held.detail == "limits.records_per_cycle (100) leaves 70, and here are 71 to delete"
    _, held = within_limits((row(0, 1), row(1, 1)), limits(partitions=1))
    assert held.detail == "limits.partitions_per_cycle (1) is reached"
    (lowered,) = within_limits((row(0, 101),), limits(records=100))
    assert (lowered.cutoff, lowered.reason) == (110, Reason.CONSUMED)
    assert lowered.detail == "limits.records_per_cycle (100) lowers the cutoff from 111"


def test_a_part_is_counted_from_the_log_start_offset() -> None:
    large = deletion(TopicPartition("orders", 0), cutoff=1000, log_start_offset=60)

    (lowered,) = within_limits((large,), limits(records=100))

    assert (lowered.cutoff, lowered.records) == (160, 100)


def test_other_rows_pass_untouched_and_count_for_nothing() -> None:
    kept = replace(row(0, 0), verdict=Verdict.NOTHING, reason=Reason.NOT_CONSUMED)
    rows = (kept, row(1, 100))

    assert within_limits(rows, limits(records=100, partitions=1)) == rows


@pytest.mark.parametrize("limit", ["records_per_cycle", "partitions_per_cycle"])
@pytest.mark.parametrize("none", [0, -1])
def test_a_limit_below_one_lets_none_go(none: int, limit: str) -> None:
    (held,) = within_limits((row(0, 5),), Limits.model_construct(None, **{limit: none}))

    assert (held.verdict, held.records, held.cutoff) == (Verdict.HOLD, 0, 15)
    if limit == "records_per_cycle":
        assert held.detail == f"limits.records_per_cycle ({none}) allows none"


def test_a_deletion_without_figures_is_never_lowered() -> None:
    strange = replace(row(0, 101), cutoff=None)

    (held,) = within_limits((strange,), limits(records=100))

    assert held.verdict is Verdict.HOLD


# The brake


def test_without_a_pause_nothing_changes() -> None:
    rows = (row(0, 5), row(1, 6))

    assert unless_paused(rows, None) == rows


@pytest.mark.parametrize("pause", ["paused by ada: why", "", 0, False])
def test_a_pause_holds_every_deletion_and_says_why(pause: object) -> None:
    kept = replace(row(1, 0), verdict=Verdict.NOTHING, reason=Reason.NOT_CONSUMED)

    held, other = unless_paused((row(0, 5), kept), pause)

    assert (held.verdict, held.reason, held.records) == (Verdict.HOLD, Reason.PAUSED, 0)
    assert held.detail == str(pause)
    assert held.cutoff == 15  # figures stay
    assert other == kept


def test_a_row_that_is_held_already_keeps_its_reason_while_it_is_paused() -> None:
    before = replace(row(0, 0), verdict=Verdict.HOLD, reason=Reason.GROUP_VANISHED)

    assert unless_paused((before,), "paused") == (before,)


# Settling


@pytest.mark.parametrize(
    ("agreed", "asked"), [({"orders": 3}, 3), ({"orders": 4}, 3), ({"orders": 1}, 1)]
)
def test_a_deletion_whose_topics_groups_have_settled_goes(
    agreed: dict[str, int], asked: int
) -> None:
    assert once_settled((row(0, 5),), agreed, asked) == (row(0, 5),)


@pytest.mark.parametrize(
    ("agreed", "count"),
    [
        ({"orders": 1}, "1 complete cycle"),
        ({"orders": 2}, "2 complete cycles"),
        ({"clicks": 3}, "0 complete cycles"),
        ({}, "0 complete cycles"),
    ],
)
def test_a_topic_that_has_not_settled_waits_and_says_how_far_it_is(
    agreed: dict[str, int], count: str
) -> None:
    kept = replace(row(1, 0), verdict=Verdict.NOTHING, reason=Reason.TOO_YOUNG)

    held, other = once_settled((row(0, 5), kept), agreed, 3)

    assert held.verdict is Verdict.HOLD
    assert (held.reason, held.records, held.cutoff) == (Reason.LIMIT_REACHED, 0, 15)
    assert held.detail == (
        f"the topic's groups have been the same for {count}, and limits.settle_cycles asks for 3"
    )
    assert other == kept


def served(cycles: int, every: list[PlanRow], limit: Limits) -> list[list[int]]:
    """Which partitions each of the cycles deletes from, where all are always busy."""
    waiting: tuple[TopicPartition, ...] = ()
    found = []
    for _ in range(cycles):
        rows = within_limits(every, limit, waiting)
        outcomes = [
            DeletionOutcome(each.topic, each.partition, Outcome.DELETED)
            for each in rows
            if each.verdict is Verdict.DELETE
        ]
        found.append([each.partition for each in outcomes])
        waiting = still_waiting(waiting, rows, outcomes)
    return found


def test_what_a_cycle_left_out_comes_first_in_the_next() -> None:
    every = [row(partition, 10) for partition in range(3)]
    assert served(4, every, limits(partitions=1)) == [[0], [1], [2], [0]]
    assert served(3, every, limits(partitions=2)) == [[0, 1], [0, 2], [0, 1]]


def test_one_that_is_too_large_for_any_cycle_has_its_turn_as_well() -> None:
    every = [row(0, 10), row(1, 500), row(2, 10)]
    assert [1] in served(3, every, limits(records=20))


def test_rows_stay_in_the_order_of_the_plan_whoever_is_first() -> None:
    rows = within_limits(
        [row(0, 1), row(1, 1)], limits(partitions=1), [TopicPartition("orders", 1)]
    )
    assert [each.partition for each in rows] == [0, 1]
    assert shown(rows) == [None, 1]


@pytest.mark.parametrize("most", [limits(records=100), limits(partitions=1)])
def test_a_trial_has_no_limit_and_leaves_all_of_it_to_the_others(most: Limits) -> None:
    trials = [replace(row(at, 1_000), dry_run=True) for at in (0, 2)]
    rows = within_limits((trials[0], row(1, 100), trials[1]), most)
    assert shown(rows) == [1_000, 100, 1_000]
