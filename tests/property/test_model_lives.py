"""Lives of the model that once made the ledger complain, with and without a cause."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from retentiond.model import GroupKind, Outcome, Reason
from tests.fakes import HowDeletionEnds
from tests.property.model.changes import Change
from tests.property.model.machine import Model
from tests.property.model.rules import HOUR_MS, Rules, TopicRule

MOMENTS = 50
"""More than a cycle has."""


@contextmanager
def living(rules: Rules) -> Iterator[Model]:
    """Two topics of two partitions each, with two groups that read them."""
    model = Model()
    model.begin(rules=rules, start="well")
    try:
        yield model
    finally:
        model.teardown()


@pytest.fixture
def life() -> Iterator[Model]:
    """Records may go as soon as they are consumed."""
    with living(Rules({"a": TopicRule(0), "b": TopicRule(0)})) as model:
        yield model


def test_a_request_for_a_partition_that_its_recreated_topic_lacks_reaches_nothing(
    life: Model,
) -> None:
    recreated = Change("recreate", ("a", 1, False))
    life.a_cycle_runs_while_things_change(
        before="busy and well", order=[], due=[("before intend", recreated)], ending=None
    )
    life.nothing_was_deleted_unasked()

    assert life.ledger.met["requests that reached another topic"]


def test_a_request_that_was_refused_is_not_taken_for_the_one_before_that_was_undone(
    life: Model,
) -> None:
    life.a_cycle_runs(before="busy and well", order=[])
    life.something_breaks(Change("set_back", ("a", 0, 200)))
    life.a_cycle_runs_while_things_change(
        before="idle", order=[], due=[], ending=HowDeletionEnds.REFUSED
    )
    life.nothing_was_deleted_unasked()

    assert life.ledger.met[f"outcome {Outcome.FAILED}"]


def test_a_group_that_is_hidden_after_the_plan_holds_whenever_it_is_shown_again(
    life: Model,
) -> None:
    """Also where rights were given back before the guard asked about them."""
    elsewhere = Change("join", ("g3", GroupKind.CLASSIC, ("bystander",), False))
    life.a_group_changes(elsewhere)
    held: set[bool] = set()
    for moment in range(MOMENTS):
        life.ledger.met.clear()
        life.a_cycle_runs_while_things_change(
            before="busy and well",
            order=[],
            due=[("within remember", Change("deny", ("g3",))), (moment, Change("heal"))],
            ending=None,
        )
        life.nothing_was_deleted_unasked()
        held.add(not life.ledger.met["requests"])

    assert held == {True, False}


def test_where_no_topic_is_left_a_plan_is_complete_although_a_group_is_hidden(life: Model) -> None:
    for topic in ("a", "b"):
        life.a_topic_changes(change=Change("delete_topic", (topic,)))
    life.a_cycle_runs_while_things_change(
        before="busy", order=[], due=[(0, Change("deny", ("g1",)))], ending=None
    )
    life.nothing_was_deleted_unasked()

    assert life.ledger.first.hidden


@pytest.mark.parametrize(
    ("rare", "reason"),
    [
        (Change("commit", ("g1", "a", 0, -2)), Reason.COMMIT_BEYOND_END),
        (Change("rewind", ("g1", "a", 9)), Reason.COMMIT_REWOUND),
        (Change("begin_afresh", ("a", 0)), Reason.OPEN_TRANSACTION),
        (Change("produce", ("a", 0, 1)), Reason.NOT_CONSUMED),
        (Change("configure", ("a", "cleanup.policy", "compact")), Reason.NOT_DELETABLE),
        (Change("configure", ("a", "retention.ms", "0")), Reason.RETENTION_EXCEEDS_FORCED),
    ],
)
def test_what_is_rare_comes_up(rare: Change, reason: Reason) -> None:
    """With it, each reason but `Reason.POLICY_CONFLICT` comes up, here or in `test_model`."""
    topic = TopicRule(HOUR_MS)
    with living(Rules({"a": topic, "b": topic})) as life:
        life.a_cycle_meets_what_is_rare(rare, order=[], due=[])
        life.nothing_was_deleted_unasked()

        assert life.ledger.met[reason]


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        (TopicRule(0, required=("g3",)), Reason.REQUIRED_GROUP_MISSING),
        (TopicRule(0, min_groups=3), Reason.TOO_FEW_GROUPS),
    ],
)
def test_groups_that_a_policy_asks_for_are_missed(topic: TopicRule, reason: Reason) -> None:
    with living(Rules({"a": topic, "b": topic})) as life:
        life.a_cycle_runs(before="busy and well", order=[])
        life.nothing_was_deleted_unasked()

        assert life.ledger.met[reason]
        assert not life.ledger.met["requests"]


def test_a_paused_daemon_says_so(life: Model) -> None:
    life.an_operator_acts("pauses", "g1")
    life.a_cycle_runs(before="busy", order=[])

    assert life.ledger.met[Reason.PAUSED]
    assert not life.ledger.met["requests"]
