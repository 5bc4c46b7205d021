"""From a snapshot to the star of Arrow tables, and from rows to sentences: no Spark needed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from retentiond.config import PolicyConflict
from retentiond.config.pattern import Pattern
from retentiond.decide.detail import Decided, detail
from retentiond.decide.star_schema import (
    COMMITS,
    GROUPS,
    GROUPS_OF_TOPICS,
    PARTITIONS,
    TOPICS,
    star_schema,
)
from retentiond.model import TopicPartition
from retentiond.snapshot import VANISHED
from tests.support import oracle
from tests.support.builders.guard_readings import (
    CLICKS_0,
    ORDERS_0,
    ORDERS_1,
    POLICY,
    Reading,
    changed,
    crowded,
    group,
    healthy,
    partition,
)
from tests.support.strategies import worlds


def test_the_tables_have_the_schemas_that_the_plan_is_written_for() -> None:
    made = star_schema(crowded().snapshot())

    assert made.topics.schema == TOPICS
    assert made.partitions.schema == PARTITIONS
    assert made.failed is not None
    assert made.failed.schema == GROUPS
    assert set(made.commits.schema) <= set(COMMITS)
    for pairs in (made.readers, made.required, made.excluded):
        assert pairs is not None
        assert pairs.schema == GROUPS_OF_TOPICS
    assert made.complete


def test_a_table_without_rows_is_left_out() -> None:
    made = star_schema(healthy().snapshot())

    assert made.commits.num_rows == 6
    assert made.commits.column_names == ["group_id", "partition_id", "topic_id", "offset"]
    assert [made.failed, made.readers, made.vanished] == [None] * 3
    assert [made.required, made.excluded] == [None] * 2


def test_who_was_seen_to_read_reads_and_who_is_not_listed_has_vanished() -> None:
    def recall(world: Reading) -> None:
        world.groups["old"] = replace(group("old"), state=VANISHED)
        world.remembered_readers = {("old", "orders"), ("search", "clicks")}
        world.readers = {("search", "clicks")}

    made = star_schema(changed(recall).snapshot())

    assert made.vanished is not None
    assert made.vanished.to_pylist() == [{"group_id": 1}]
    assert made.readers is not None
    pairs = {(row["group_id"], row["topic_id"]) for row in made.readers.to_pylist()}
    assert pairs == {(1, 1), (2, 0)}
    assert made.readers.num_rows == 2


def remembered_in(world: Reading) -> list[tuple[int, int]]:
    """Group and partition of the remembered commits that Spark gets."""
    rows = star_schema(world.snapshot()).commits.to_pylist()
    return [
        (row["group_id"], row["partition_id"])
        for row in rows
        if row.get("remembered_offset") is not None
    ]


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

    assert remembered_in(changed(remember)) == [(0, 2), (1, 1), (1, 2)]


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_no_commit_stands_for_another_groups_or_another_partitions(count: int) -> None:
    """Group 0 has lost its commits; group 1, and later group 2, are beyond them everywhere."""
    places = [TopicPartition("orders", number) for number in range(count)]

    def lose(world: Reading) -> None:
        for name in ("a", "b", "c"):
            world.add_group(name)
        world.topics = {"orders": world.topics["orders"]}
        world.partitions = {at: partition(at.partition) for at in places}
        world.commits = {(name, at): 100 for name in ("b", "c") for at in places}
        world.remembered = {("a", at): 0 for at in places}

    assert remembered_in(changed(lose)) == [(0, number) for number in range(count)]


@pytest.mark.parametrize("lost", [0, 1])
def test_what_lies_behind_every_readable_commit_is_not_reached(lost: int) -> None:
    """Of the one group, the first partition's commit can't be read, or the second's is gone."""
    places = [TopicPartition("orders", number) for number in range(2)]

    def lose(world: Reading) -> None:
        world.groups.clear()
        world.add_group("a")
        world.topics = {"orders": world.topics["orders"]}
        world.partitions = {at: partition(at.partition) for at in places}
        world.commits = {("a", places[0]): 100 if lost else None}
        world.remembered = {("a", places[lost]): 0}

    assert remembered_in(changed(lose)) == [(0, lost)]


def test_without_groups_they_are_counted_as_one() -> None:
    """Nothing is divided by zero."""

    def forget(world: Reading) -> None:
        world.groups.clear()
        world.commits.clear()

    assert star_schema(changed(forget).snapshot()).group_count == 1
    assert star_schema(healthy().snapshot()).group_count == len(healthy().groups)


def test_without_any_commit_there_still_is_a_table_of_them() -> None:
    made = star_schema(changed(lambda world: world.commits.clear()).snapshot())

    assert made.commits.num_rows == 0


def test_a_commit_brings_the_topic_of_its_partition() -> None:
    made = star_schema(healthy().snapshot())

    topics = [0, 1, 1]  # clicks-0, orders-0, orders-1
    for commit in made.commits.to_pylist():
        assert commit["topic_id"] == topics[commit["partition_id"]]
        assert commit["offset"] == 120


def test_an_unreadable_commit_is_null_and_stays() -> None:
    made = star_schema(
        changed(lambda world: world.commits.update({("billing", ORDERS_0): None})).snapshot()
    )

    assert made.commits.num_rows == 6
    assert made.commits["offset"].null_count == 1


def test_required_and_excluded_groups_are_paired_with_their_topics() -> None:
    def ask_for(world: Reading) -> None:
        world.change_topic(
            "orders",
            policy=replace(POLICY, required_groups=("search",), excluded=(Pattern("b.*"),)),
        )

    made = star_schema(changed(ask_for).snapshot())

    assert made.required is not None
    assert made.excluded is not None
    assert made.required.to_pylist() == [{"group_id": 1, "topic_id": 1}]
    assert made.excluded.to_pylist() == [{"group_id": 0, "topic_id": 1}]


def test_one_policy_excludes_from_all_of_its_topics() -> None:
    def exclude(world: Reading) -> None:
        policy = replace(POLICY, excluded=(Pattern(".*r.*"),))
        for name in ("orders", "clicks"):
            world.change_topic(name, policy=policy)

    excluded = star_schema(changed(exclude).snapshot()).excluded

    assert excluded is not None
    assert [(pair["group_id"], pair["topic_id"]) for pair in excluded.to_pylist()] == [
        (1, 0),
        (1, 1),
    ]


def test_a_conflict_requires_nobody_and_has_no_retention() -> None:
    def conflict(world: Reading) -> None:
        world.change_topic("orders", policy=PolicyConflict(("topics[0]", "topics[1]")))

    made = star_schema(changed(conflict).snapshot())

    assert made.topics["conflict"].to_pylist() == [False, True]
    assert made.topics["consumed_retention_ms"].to_pylist() == [60_000, None]
    assert made.partitions["retention_offset"].to_pylist() == [150, None, None]
    assert made.required is None
    assert made.excluded is None


def test_a_snapshot_of_nothing_is_a_star_of_empty_tables() -> None:
    made = star_schema(Reading().snapshot())

    assert made.partitions.num_rows == made.commits.num_rows == 0
    assert made.commits.column_names == ["group_id", "partition_id", "topic_id", "offset"]


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
