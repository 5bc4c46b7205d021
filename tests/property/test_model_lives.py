"""Lives of the model that once made the ledger complain without a cause, written down."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from retentiond.model import Outcome
from tests.fakes import HowDeletionEnds
from tests.property.model.changes import Change
from tests.property.model.machine import Model
from tests.property.model.rules import Rules, TopicRule


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
