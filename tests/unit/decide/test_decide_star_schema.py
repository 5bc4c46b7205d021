"""What the star of Arrow tables leaves out, and rows in words: no Spark needed. What its tables
say is compared by the plan that comes of them, in `test_plan_agrees_with_oracle`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from retentiond.config.pattern import Pattern
from retentiond.decide.detail import Decided, detail
from retentiond.decide.star_schema import star_schema
from tests.support import oracle
from tests.support.builders.guard_readings import (
    CLICKS_0,
    ORDERS_0,
    ORDERS_1,
    POLICY,
    Reading,
    changed,
    healthy,
)
from tests.support.strategies import worlds


def test_tables_and_columns_that_say_nothing_are_left_out() -> None:
    made = star_schema(healthy().snapshot())

    assert made.commits.column_names == ["group_id", "partition_id", "topic_id", "offset"]
    assert [made.failed, made.readers, made.vanished] == [None] * 3
    assert [made.required, made.excluded] == [None] * 2


def test_what_a_commit_of_now_has_reached_need_not_be_remembered() -> None:
    def remember(world: Reading) -> None:
        world.commits |= {("search", ORDERS_0): None}
        del world.commits["search", ORDERS_1]
        world.remembered |= {
            ("billing", ORDERS_0): 119,
            ("billing", CLICKS_0): 120,
            ("billing", ORDERS_1): 121,  # it went back
            ("search", ORDERS_0): 1,  # unreadable now
            ("search", ORDERS_1): 1,  # gone now
        }

    rows = star_schema(changed(remember).snapshot()).commits.to_pylist()
    assert [
        (row["group_id"], row["partition_id"])
        for row in rows
        if row["remembered_offset"] is not None
    ] == [(0, 2), (1, 1), (1, 2)]


def test_one_policy_excludes_from_all_of_its_topics() -> None:
    """Seldom do two topics of a random world have one policy."""

    def exclude(world: Reading) -> None:
        policy = replace(POLICY, excluded=(Pattern(".*r.*"), Pattern("bi.*")))
        for name in ("orders", "clicks"):
            world.change_topic(name, policy=policy)

    excluded = star_schema(changed(exclude).snapshot()).excluded

    assert excluded is not None
    pairs = {(pair["group_id"], pair["topic_id"]) for pair in excluded.to_pylist()}
    assert pairs == {(0, 0), (1, 0), (0, 1), (1, 1)}
    assert excluded.num_rows == 4


def test_without_groups_and_commits_they_are_counted_as_one() -> None:
    """Nothing is divided by zero."""

    def forget(world: Reading) -> None:
        world.groups.clear()
        world.commits.clear()

    made = star_schema(changed(forget).snapshot())
    assert (made.group_count, made.commits.num_rows) == (1, 0)


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(worlds())
def test_every_decision_can_be_said_in_one_line(world: Reading) -> None:
    snapshot = world.snapshot()
    groups = {group.group_id: group for group in snapshot.groups}
    for at, row in zip(snapshot.partitions, oracle.plan(snapshot), strict=True):
        decided = Decided(
            partition_id=snapshot.partitions.index(at),
            reason=row.reason,
            groups=row.groups,
            own_groups=row.groups,
            min_committed_offset=row.min_committed_offset,
            cutoff=row.cutoff,
            binding_group_id=None,
            binding_committed_offset=row.binding_committed_offset,
            records=row.records,
        )
        sentence = detail(snapshot, at, decided, groups.get(row.binding_group or ""), {})

        assert sentence
        assert "\n" not in sentence
        assert "None" not in sentence
