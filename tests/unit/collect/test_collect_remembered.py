"""What earlier cycles saw bears on a snapshot, until something says that it is over."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from retentiond.collect.gather import gather
from retentiond.collect.remembered import (
    NOTHING,
    GroupOnTopic,
    KnownTopic,
    LastCommits,
    Remembered,
    is_forgotten,
)
from retentiond.collect.snapshot import VANISHED, Snapshot
from retentiond.config import Config, PolicyConflict, TopicPolicy
from retentiond.model import Failure, GroupKind, TopicPartition
from tests.fakes import FakeCluster
from tests.unit.collect.worlds import (
    HOUR_MS,
    ORDERS_0,
    ORDERS_1,
    Waits,
    config,
    entry,
    groups,
    healthy,
    partitions,
    readers,
    topic,
)

GHOST = GroupOnTopic("ghost", "orders")
COMMITS = {0: 2, 1: 3}
DAY_MS = 24 * HOUR_MS


def taken(kafka: FakeCluster, remembered: Remembered, policy: Config | None = None) -> Snapshot:
    return gather(
        kafka, policy or config(), kafka.now_ms, remembered=remembered, wait_until=Waits()
    )


def ghost(
    kafka: FakeCluster,
    *,
    at: GroupOnTopic = GHOST,
    absent_since_ms: int | None = None,
    topic_id: str | None = None,
) -> Remembered:
    """A group that was seen on a topic as it is now, or as it was under another id."""
    known = KnownTopic(topic_id or kafka.topics["orders"].topic_id)
    last = LastCommits(GroupKind.CONSUMER, COMMITS, absent_since_ms)
    return Remembered({"orders": known}, {at: last})


def remembered(snapshot: Snapshot) -> dict[tuple[str, TopicPartition], int]:
    at = list(partitions(snapshot))
    return {
        (snapshot.groups[row["group_id"]].group_id, at[row["partition_id"]]): row["offset"]
        for row in snapshot.remembered.to_pylist()
    }


@pytest.fixture
def kafka() -> FakeCluster:
    return healthy()


def test_a_group_that_is_remembered_and_not_listed_has_vanished(kafka: FakeCluster) -> None:
    snapshot = taken(kafka, ghost(kafka))

    assert groups(snapshot)["ghost"].state == VANISHED
    assert groups(snapshot)["ghost"].kind is GroupKind.CONSUMER
    assert not groups(snapshot)["ghost"].is_live
    assert remembered(snapshot) == {("ghost", ORDERS_0): 2, ("ghost", ORDERS_1): 3}
    assert snapshot.complete


def test_a_group_that_is_listed_is_as_it_is_and_its_last_commits_are_known(
    kafka: FakeCluster,
) -> None:
    snapshot = taken(kafka, ghost(kafka, at=GroupOnTopic("search", "orders")))

    assert groups(snapshot)["search"].state == "Stable"
    assert remembered(snapshot) == {("search", ORDERS_0): 2, ("search", ORDERS_1): 3}


def test_a_group_that_a_policy_requires_is_vanished_rather_than_never_seen(
    kafka: FakeCluster,
) -> None:
    policy = config(entry("orders", groups={"required": ["ghost", "never"]}))
    snapshot = taken(kafka, ghost(kafka), policy)

    assert groups(snapshot)["ghost"].state == VANISHED
    assert groups(snapshot)["never"].state == "Absent"


def test_what_is_remembered_of_a_topic_that_is_not_enabled_does_not_count(
    kafka: FakeCluster,
) -> None:
    snapshot = taken(kafka, ghost(kafka, at=GroupOnTopic("ghost", "secrets")))

    assert "ghost" not in groups(snapshot)
    assert remembered(snapshot) == {}


def test_commits_on_partitions_that_are_not_there_bear_on_no_decision(kafka: FakeCluster) -> None:
    known = ghost(kafka)
    known = replace(known, commits={GHOST: LastCommits(GroupKind.CLASSIC, {0: 2, 7: 5})})

    assert remembered(taken(kafka, known)) == {("ghost", ORDERS_0): 2}


def test_a_recreated_topic_is_marked_and_what_was_known_of_it_is_dropped(
    kafka: FakeCluster,
) -> None:
    snapshot = taken(kafka, ghost(kafka, topic_id="an-older-one"))

    assert topic(snapshot, "orders").recreated
    assert not topic(snapshot, "clicks").recreated
    assert "ghost" not in groups(snapshot)
    assert remembered(snapshot) == {}


def test_a_topic_whose_id_can_not_be_read_is_not_taken_for_another(kafka: FakeCluster) -> None:
    known = ghost(kafka)
    kafka.fail("describe_topics", "orders", Failure("TIMED_OUT", "no answer"))
    snapshot = taken(kafka, known)

    assert topic(snapshot, "orders").failure is not None
    assert not topic(snapshot, "orders").recreated
    assert groups(snapshot)["ghost"].state == VANISHED


def test_a_loss_makes_the_reading_incomplete_and_is_its_problem(kafka: FakeCluster) -> None:
    snapshot = taken(kafka, replace(NOTHING, lost="the remembered groups are gone"))

    assert snapshot.problems == ("the remembered groups are gone",)
    assert not snapshot.complete


@pytest.mark.parametrize(
    ("patience", "absent_for_ms", "is_there"),
    [
        (None, 365 * DAY_MS, True),
        ("1d", None, True),
        ("1d", DAY_MS - 1, True),
        ("1d", DAY_MS, False),
        ("1d", -DAY_MS, True),  # the clock was set back
    ],
)
def test_a_vanished_group_is_waited_for_as_long_as_the_policy_says(
    kafka: FakeCluster, patience: str | None, absent_for_ms: int | None, is_there: bool
) -> None:
    rules: dict[str, Any] = {"groups": {"forget_vanished_after": patience}} if patience else {}
    absent_since_ms = None if absent_for_ms is None else kafka.now_ms - absent_for_ms
    snapshot = taken(
        kafka, ghost(kafka, absent_since_ms=absent_since_ms), config(entry("orders", **rules))
    )

    assert ("ghost" in groups(snapshot)) is is_there
    assert bool(remembered(snapshot)) is is_there


def test_where_patterns_contradict_each_other_nothing_is_forgotten() -> None:
    last = LastCommits(GroupKind.CLASSIC, COMMITS, absent_since_ms=0)
    assert not is_forgotten(PolicyConflict(("topics[0]", "topics[1]")), last, 10**15)
    assert is_forgotten(TopicPolicy(forget_vanished_after_ms=1), last, 10**15)


def test_a_group_that_is_forgotten_counts_again_once_it_is_there(kafka: FakeCluster) -> None:
    policy = config(entry("orders", groups={"forget_vanished_after": "1d"}))
    kafka.join("ghost", ["orders"])
    snapshot = taken(kafka, ghost(kafka, absent_since_ms=kafka.now_ms - DAY_MS), policy)

    assert ("ghost", "orders") in readers(snapshot)
    assert remembered(snapshot) == {}
