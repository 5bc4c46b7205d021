"""What earlier cycles saw bears on a snapshot, until something says that it is over."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from retentiond.config import Config, PolicyConflict, TopicPolicy
from retentiond.memory.readers import GroupOnTopic, RememberedReader
from retentiond.memory.recall import are_stale, recalled
from retentiond.memory.remembered import NOTHING, KnownTopic, Remembered, are_forgotten
from retentiond.model import Failure, GroupKind, TopicPartition
from retentiond.snapshot import VANISHED, PartitionReading, Snapshot, TopicReading, commit_table
from tests.support.builders.gather_worlds import (
    HOUR_MS,
    ORDERS_0,
    ORDERS_1,
    config,
    entry,
    groups,
    healthy,
    partitions,
    second_snapshot,
    topic,
)
from tests.support.builders.gather_worlds import snapshot as take
from tests.support.builders.guard_readings import topic as topic_reading
from tests.support.builders.remembered import readers_table
from tests.support.fakes import FakeCluster

GHOST = GroupOnTopic("ghost", "orders")
COMMITS = {0: 2, 1: 3}
DAY_MS = 24 * HOUR_MS


def taken(kafka: FakeCluster, remembered: Remembered, policy: Config | None = None) -> Snapshot:
    return take(kafka, policy, remembered=remembered)


def ghost(
    kafka: FakeCluster,
    *,
    at: GroupOnTopic = GHOST,
    absent_ms: int | None = None,
    topic_id: str | None = None,
) -> Remembered:
    """A group that was seen on a topic as it is now, or as it was under another id."""
    known = KnownTopic(topic_id or kafka.topics["orders"].topic_id)
    absent_since_ms = None if absent_ms is None else kafka.now_ms - 365 * DAY_MS
    last = RememberedReader(GroupKind.CONSUMER, COMMITS, absent_since_ms, absent_ms=absent_ms or 0)
    return Remembered({"orders": known}, readers_table({at: last}))


def remembered(snapshot: Snapshot) -> dict[tuple[str, TopicPartition], int]:
    at = list(partitions(snapshot))
    return {
        (snapshot.groups[row["group_id"]].group_id, at[row["partition_id"]]): offset
        for row in snapshot.commits.to_pylist()
        if (offset := row["remembered_offset"]) is not None
    }


def remembered_readers(snapshot: Snapshot) -> set[tuple[str, str]]:
    return {
        (snapshot.groups[each.group].group_id, snapshot.topics[each.topic].name)
        for each in snapshot.remembered_readers
    }


@pytest.fixture
def kafka() -> FakeCluster:
    return healthy()


def test_a_group_that_a_policy_requires_is_vanished_rather_than_never_seen(
    kafka: FakeCluster,
) -> None:
    policy = config(entry("orders", groups={"required": ["ghost", "never"]}))
    snapshot = taken(kafka, ghost(kafka), policy)

    assert groups(snapshot)["ghost"].state == VANISHED
    assert groups(snapshot)["never"].state == "Absent"


def test_a_recreated_topic_is_marked_and_the_commits_that_were_known_are_dropped(
    kafka: FakeCluster,
) -> None:
    """But not who reads it."""
    snapshot = taken(kafka, ghost(kafka, topic_id="an-older-one"))

    assert topic(snapshot, "orders").recreated
    assert not topic(snapshot, "clicks").recreated
    assert remembered(snapshot) == {}
    assert groups(snapshot)["ghost"].state == VANISHED
    assert remembered_readers(snapshot) == {("ghost", "orders")}


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
    ],
)
def test_a_vanished_group_is_waited_for_as_long_as_the_policy_says(
    kafka: FakeCluster, patience: str | None, absent_for_ms: int | None, is_there: bool
) -> None:
    """What was observed counts; the date, a year ago, says nothing."""
    rules: dict[str, Any] = {"groups": {"forget_vanished_after": patience}} if patience else {}
    snapshot = taken(kafka, ghost(kafka, absent_ms=absent_for_ms), config(entry("orders", **rules)))

    assert ("ghost" in groups(snapshot)) is is_there
    assert bool(remembered(snapshot)) is is_there


def test_where_patterns_contradict_each_other_nothing_is_forgotten() -> None:
    last = RememberedReader(GroupKind.CLASSIC, COMMITS, absent_since_ms=0, absent_ms=10**15)
    readers = readers_table({GHOST: last, GroupOnTopic("ghost", "unknown"): last})
    for policy, is_forgotten in (
        (PolicyConflict(("topics[0]", "topics[1]")), False),
        (TopicPolicy(forget_vanished_after_ms=1), True),
        (TopicPolicy(), False),
    ):
        reading = TopicReading("orders", policy, "its-id", False, frozenset(), None)
        found = are_forgotten(readers, readers.topics_in(["orders"]), [reading])
        assert found.tolist() == [is_forgotten, False]


def test_a_reader_that_no_group_of_the_reading_is_fails_the_cycle(kafka: FakeCluster) -> None:
    """Its kind and its name say two things, so nobody knows whom to wait for."""
    at = GroupOnTopic("lake", "orders", is_external=True)
    known = ghost(kafka)
    last = RememberedReader(GroupKind.CLASSIC, {0: 3})
    with pytest.raises(ValueError, match="no group of the reading"):
        taken(kafka, replace(known, readers=readers_table({at: last})))


# Commits that may be older than their log


@pytest.mark.parametrize(
    ("offset", "recreated", "before", "log_start", "end", "is_stale"),
    [
        (5, False, None, 0, 9, False),
        (5, True, None, 0, 9, True),  # on the earlier topic, for all that is known
        (5, True, None, 4, 9, True),
        (5, True, None, 5, 9, False),  # it frees nothing
        (9, False, None, 0, 9, False),
        (10, False, None, 0, 9, True),  # beyond the end, which the log may grow past
        (5, False, 5, 0, 9, True),  # it has not moved since
        (5, False, 5, 5, 9, False),
        (6, False, 5, 0, 9, False),
        (4, False, 5, 0, 9, False),
        (5, True, None, None, None, True),  # what is unread speaks for nothing
        (5, False, 5, None, None, True),
        (10**9, False, None, None, None, False),
        (None, True, None, 0, 9, False),
        (None, False, 5, 0, 9, False),
    ],
)
def test_a_commit_that_may_be_older_than_its_log_is_stale_until_it_moves(
    *,
    offset: int | None,
    recreated: bool,
    before: int | None,
    log_start: int | None,
    end: int | None,
    is_stale: bool,
) -> None:
    commit = commit_table(
        group_id=pa.array([0], pa.int32()),
        partition_id=pa.array([0], pa.int32()),
        offset=pa.array([offset], pa.int64()),
    )
    found = are_stale(
        commit,
        np.array([offset == before]),
        [replace(topic_reading("orders"), recreated=recreated)],
        [PartitionReading(0, 0, log_start, end, end, end)],
    )
    assert found.tolist() == [is_stale]


def stale(snapshot: Snapshot) -> dict[tuple[str, TopicPartition], int]:
    at = list(partitions(snapshot))
    return {
        (snapshot.groups[row["group_id"]].group_id, at[row["partition_id"]]): row["offset"]
        for row in snapshot.commits.to_pylist()
        if row["is_stale"]
    }


def test_all_that_stands_on_a_recreated_topic_when_it_is_first_seen_is_stale(
    kafka: FakeCluster, tmp_path: Path
) -> None:
    """That of an external reader, too."""
    place = tmp_path / "at.json"
    place.write_text('{"orders": {"0": 4, "1": 0}}')
    os.utime(place, (kafka.now_ms / 1000, kafka.now_ms / 1000))
    lake: dict[str, Any] = {"groups": {"external": [{"name": "lake", "offsets": str(place)}]}}
    policy = config(entry("orders", **lake), entry("clicks"))
    taken_anew = taken(kafka, ghost(kafka, topic_id="an-older-one"), policy)

    assert stale(taken_anew) == {
        ("billing", ORDERS_0): 3,
        ("billing", ORDERS_1): 4,
        ("lake", ORDERS_0): 4,
        ("search", ORDERS_0): 5,
    }
    assert stale(taken(kafka, ghost(kafka), policy)) == {}


def test_a_commit_that_was_stale_is_told_by_its_group_and_its_partition(kafka: FakeCluster) -> None:
    kafka.commit("billing", {ORDERS_0: 3, ORDERS_1: 3})
    kafka.commit("search", {ORDERS_0: 3, ORDERS_1: 3})
    last = RememberedReader(GroupKind.CLASSIC, {0: 3, 1: 3}, stale=frozenset({1}))
    known = replace(ghost(kafka), readers=readers_table({GroupOnTopic("search", "orders"): last}))

    assert stale(taken(kafka, known)) == {("search", ORDERS_1): 3}
    kafka.commit("search", {ORDERS_1: 4})
    assert stale(taken(kafka, known)) == {}


def test_what_is_remembered_of_a_slices_topics_is_all_that_bears_on_its_reading() -> None:
    """Also of a group that has vanished, of one of another name, and what was lost."""
    kafka = healthy()
    of_orders = ghost(kafka)
    elsewhere = RememberedReader(GroupKind.CONSUMER, {0: 1})
    every = replace(
        of_orders,
        readers=readers_table(
            {
                **of_orders.commits,
                GroupOnTopic("ghost", "clicks"): elsewhere,
                GroupOnTopic("other", "clicks"): elsewhere,
                GroupOnTopic("reader", "orders", is_external=True): replace(
                    elsewhere, kind=GroupKind.EXTERNAL
                ),
            }
        ),
        lost="a file was damaged",
    )
    about = every.about(["orders", "unknown"])
    assert {at.topic for at in about.commits} == {"orders"}
    first = take(kafka)
    second = second_snapshot(kafka, first, [ORDERS_0])
    assert recalled(second, about) == recalled(second, every)
