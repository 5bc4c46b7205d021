"""Lives of the model that once made the ledger complain, with and without a cause."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from retentiond.model import GroupKind, Outcome
from tests.fakes import HowDeletionEnds
from tests.property.model.changes import Change
from tests.property.model.machine import Model
from tests.property.model.rules import Rules, TopicRule

MOMENTS = 50
"""More than a cycle has."""


@pytest.fixture
def life() -> Iterator[Model]:
    """Two topics of two partitions each, whose records may go as soon as they are consumed."""
    model = Model()
    model.begin(rules=Rules({"a": TopicRule(0), "b": TopicRule(0)}), start="well")
    yield model
    model.teardown()


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
