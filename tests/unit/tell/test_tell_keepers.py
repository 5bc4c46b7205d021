"""Who keeps what a plan does not delete: every record on one account, and on the right one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retentiond.config import Limits
from retentiond.decide.limits import within_limits
from retentiond.model import VERDICT_OF, PlanRow, Reason, Verdict
from retentiond.tell.figures.kept_records import (
    KEPT_BY_AGE,
    KEPT_BY_LIMIT,
    KeptBecause,
    kept_records,
)
from tests.support.builders.first_looks import rest
from tests.support.builders.reports import row, unreadable

BILLING = KeptBecause(Reason.NOT_CONSUMED, "billing")


def test_a_group_keeps_what_is_old_enough_to_go_without_it_and_age_keeps_the_young() -> None:
    assert kept_records(rest()) == {BILLING: 50, KEPT_BY_AGE: 50}
    assert kept_records(rest(Reason.NOT_CONSUMED, log_start_offset=100)) == {
        BILLING: 50,
        KEPT_BY_AGE: 50,
    }


def test_where_age_is_the_bound_no_group_keeps_anything() -> None:
    assert kept_records(rest(min_committed_offset=190, cutoff=150)) == {KEPT_BY_AGE: 50}
    assert kept_records(rest(Reason.TOO_YOUNG, log_start_offset=150)) == {KEPT_BY_AGE: 50}


def test_a_partition_that_is_deleted_to_its_end_or_is_empty_has_nobody_who_keeps_it() -> None:
    assert kept_records(rest(cutoff=200, retention_offset=200, min_committed_offset=200)) == {}
    assert kept_records(rest(Reason.EMPTY, log_start_offset=200)) == {}


def test_an_open_transaction_keeps_the_old_records_behind_it() -> None:
    assert kept_records(rest(min_committed_offset=190, cutoff=120)) == {
        KeptBecause(Reason.OPEN_TRANSACTION): 30,
        KEPT_BY_AGE: 50,
    }


def test_a_limit_keeps_what_is_read_above_the_lowered_cutoff() -> None:
    (lowered,) = within_limits([rest()], Limits(records_per_cycle=20))
    assert lowered.cutoff == 30
    assert kept_records(lowered) == {KEPT_BY_LIMIT: 70, BILLING: 50, KEPT_BY_AGE: 50}
    (lowered,) = within_limits(
        [rest(min_committed_offset=190, cutoff=150)], Limits(records_per_cycle=20)
    )
    assert kept_records(lowered) == {KEPT_BY_LIMIT: 120, KEPT_BY_AGE: 50}


def test_a_limit_keeps_nothing_of_what_the_guard_has_turned_down() -> None:
    (lowered,) = within_limits([rest()], Limits(records_per_cycle=20))
    held = replace(lowered, verdict=Verdict.HOLD, reason=Reason.EVIDENCE_CHANGED)
    assert kept_records(held) == kept_records(replace(held, is_limited=False))


@pytest.mark.parametrize("reason", [Reason.NO_GROUP, Reason.NOT_DELETABLE, Reason.TOO_FEW_GROUPS])
def test_what_holds_the_whole_topic_keeps_all_of_it(reason: Reason) -> None:
    assert kept_records(rest(reason)) == {KeptBecause(reason): 190}


def test_a_group_that_is_the_cause_of_a_hold_is_named() -> None:
    assert kept_records(rest(Reason.GROUP_VANISHED)) == {
        KeptBecause(Reason.GROUP_VANISHED, "billing"): 140,
        KEPT_BY_AGE: 50,
    }


def test_of_a_partition_that_is_unread_nothing_is_known() -> None:
    assert kept_records(unreadable("orders")) == {}


offsets = st.integers(0, 9)


@st.composite
def rows(draw: st.DrawFn) -> PlanRow:
    start, end = sorted((draw(offsets), draw(offsets)))
    reason = draw(st.sampled_from(Reason))
    cutoff = draw(st.integers(start, end))
    is_deleted = VERDICT_OF[reason] is Verdict.DELETE
    return replace(
        row("orders", reason=reason),
        log_start_offset=start,
        high_watermark=end,
        cutoff=cutoff,
        min_committed_offset=draw(st.none() | st.integers(cutoff, 9)),
        retention_offset=draw(st.none() | st.integers(cutoff, 9)),
        records=cutoff - start if is_deleted else 0,
    )


@given(rows())
def test_every_record_that_stays_is_on_one_account(planned: PlanRow) -> None:
    kept = kept_records(planned)
    there = (planned.high_watermark or 0) - (planned.log_start_offset or 0)
    assert sum(kept.values()) == there - planned.records
    assert all(count > 0 for count in kept.values())
