"""Who keeps what a plan does not delete: every record on one account, and on the right one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retentiond.config import Limits
from retentiond.decide.kept_records import (
    KEPT_BY_AGE,
    KEPT_BY_LIMIT,
    KeptBecause,
    kept_records,
)
from retentiond.decide.limits import within_limits
from retentiond.model import VERDICT_OF, PlanRow, Reason, Verdict
from tests.support.builders.first_looks import rest
from tests.support.builders.reports import row, unreadable

BILLING = KeptBecause(Reason.NOT_CONSUMED, "billing")


@pytest.mark.parametrize(
    ("planned", "kept"),
    [
        # A group keeps what is old enough to go without it, and age keeps the young.
        (rest(), {BILLING: 50, KEPT_BY_AGE: 50}),
        (rest(Reason.NOT_CONSUMED, log_start_offset=100), {BILLING: 50, KEPT_BY_AGE: 50}),
        # Where age is the bound, no group keeps anything.
        (rest(min_committed_offset=190, cutoff=150), {KEPT_BY_AGE: 50}),
        (rest(Reason.TOO_YOUNG, log_start_offset=150), {KEPT_BY_AGE: 50}),
        # Deleted to its end, empty, or unread: nobody is known to keep it.
        (rest(cutoff=200, retention_offset=200, min_committed_offset=200), {}),
        (rest(Reason.EMPTY, log_start_offset=200), {}),
        (unreadable("orders"), {}),
        # An open transaction keeps the old records behind it.
        (
            rest(min_committed_offset=190, cutoff=120),
            {KeptBecause(Reason.OPEN_TRANSACTION): 30, KEPT_BY_AGE: 50},
        ),
        # What holds the whole topic keeps all of it; a group that is the cause is named.
        *(
            (rest(reason), {KeptBecause(reason): 190})
            for reason in (Reason.NO_GROUP, Reason.NOT_DELETABLE, Reason.TOO_FEW_GROUPS)
        ),
        (
            rest(Reason.GROUP_VANISHED),
            {KeptBecause(Reason.GROUP_VANISHED, "billing"): 140, KEPT_BY_AGE: 50},
        ),
    ],
)
def test_every_record_that_stays_is_kept_by_whom_it_waits_for(
    planned: PlanRow, kept: dict[KeptBecause, int]
) -> None:
    assert kept_records(planned) == kept


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
