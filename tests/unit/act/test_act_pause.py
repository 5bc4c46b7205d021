"""What keeps a deletion from going out after it was planned: the brake, and hidden groups."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, repeat

import pytest

from retentiond.act.guard import verify
from retentiond.model import DeletionOutcome, Outcome, Reason, Verdict
from retentiond.state.operator_actions import Pause
from tests.support.builders.guard_readings import ORDERS_0, POLICY, Reading, deletion, healthy
from tests.support.builders.topic_leaders import Reply
from tests.unit.act.test_act_delete import P0, P1, Stage

PULLED = Pause("incident 4711")
HIDDEN = ("Kafka hides groups from this principal: grant it DESCRIBE on the cluster", "and more")


def stage_where(*pauses: Pause | None) -> Stage:
    """``pauses`` is what the brake says each time it is looked at; the last one stays."""
    stage, said = Stage(), chain(pauses, repeat(pauses[-1]))
    stage.why_paused = lambda: next(said)
    return stage


def test_when_it_is_paused_nothing_is_intended_or_requested_and_every_outcome_says_why() -> None:
    stage = stage_where(PULLED)

    outcomes = stage.execute(P0, P1)

    assert stage.kafka.calls == []
    assert [(each.outcome, each.error) for each in outcomes] == [
        (Outcome.NOT_ATTEMPTED, "paused: incident 4711")
    ] * 2


def test_a_brake_that_is_pulled_while_the_intent_is_written_keeps_its_request_back() -> None:
    stage = stage_where(None, PULLED)

    (outcome,) = stage.execute(P0)

    assert stage.kafka.calls == ["intend", "look_before_deleting", "settle"]
    assert outcome == DeletionOutcome(
        "orders", 0, Outcome.NOT_ATTEMPTED, error="paused: incident 4711"
    )


def test_a_brake_that_is_pulled_before_a_second_attempt_keeps_it_back() -> None:
    stage = stage_where(None, None, PULLED)
    stage.kafka.replies[P0] = [Reply.MOVED]

    (outcome,) = stage.execute(P0)

    assert len(stage.kafka.requests) == 1
    assert outcome.outcome is Outcome.UNKNOWN


def test_a_brake_that_is_let_go_before_a_third_attempt_does_not_bring_the_second_back() -> None:
    stage = stage_where(None, None, PULLED, None)
    stage.kafka.replies[P0] = [Reply.MOVED, Reply.MOVED]

    (outcome,) = stage.execute(P0)

    assert len(stage.kafka.requests) == 1
    assert outcome.outcome is Outcome.UNKNOWN


# Hidden groups, as the guard sees them


@pytest.mark.parametrize("in_first", [True, False])
@pytest.mark.parametrize("assumed", [True, False])
def test_where_groups_may_be_hidden_only_a_policy_that_assumes_them_visible_goes_on(
    *, in_first: bool, assumed: bool
) -> None:
    reading: Reading = healthy()
    reading.change_topic("orders", policy=replace(POLICY, assumes_visible_groups=assumed))
    plain = reading.snapshot()
    hiding = replace(plain, hidden=HIDDEN)

    verified = verify([deletion(ORDERS_0)], *((hiding, plain) if in_first else (plain, hiding)))

    (row,) = verified.rows
    if assumed:
        assert [each.topic_partition for each in verified.approved] == [ORDERS_0]
    else:
        assert verified.approved == ()
        assert (row.verdict, row.reason) == (Verdict.HOLD, Reason.EVIDENCE_CHANGED)
        assert str(row.detail).endswith(HIDDEN[0])
