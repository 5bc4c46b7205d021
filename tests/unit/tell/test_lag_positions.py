"""Where the groups stand that count."""

from __future__ import annotations

from dataclasses import replace

from retentiond.config import PolicyConflict
from retentiond.config.pattern import Pattern
from retentiond.tell.figures.positions import positions
from tests.support.builders.guard_readings import (
    ORDERS_0,
    ORDERS_1,
    POLICY,
    Reading,
    healthy,
)

Stands = dict[tuple[str, str, int], int]


def stands(reading: Reading) -> Stands:
    """The offset by group, topic and partition."""
    snapshot = reading.snapshot()
    found = positions(snapshot)
    rows = zip(found.group.tolist(), found.partition.tolist(), found.offset.tolist(), strict=True)
    by_name: Stands = {}
    for group, partition, offset in rows:
        at = snapshot.partitions[partition]
        key = snapshot.groups[group].group_id, snapshot.topics[at.topic].name, at.partition
        assert key not in by_name
        by_name[key] = offset
    return by_name


def test_a_group_without_a_readable_commit_stands_where_it_was_last_seen() -> None:
    reading = healthy()
    reading.commits["billing", ORDERS_0] = None
    del reading.commits["billing", ORDERS_1]
    reading.remembered = {("billing", ORDERS_0): 30, ("billing", ORDERS_1): 40}
    found = stands(reading)
    assert (found["billing", "orders", 0], found["billing", "orders", 1]) == (30, 40)


def test_what_is_remembered_does_not_count_beside_a_commit() -> None:
    reading = healthy()
    reading.remembered = {("billing", ORDERS_0): 30}
    assert stands(reading) == stands(healthy())


def test_a_group_that_never_committed_on_a_partition_stands_nowhere() -> None:
    reading = healthy()
    reading.commits["billing", ORDERS_0] = None
    assert ("billing", "orders", 0) not in stands(reading)


def test_a_group_that_a_topics_policy_excludes_does_not_count_on_that_topic() -> None:
    reading = healthy()
    reading.change_topic("orders", policy=replace(POLICY, excluded=(Pattern("bil.*"),)))
    assert {key for key in stands(reading) if key[0] == "billing"} == {("billing", "clicks", 0)}
    assert len({key for key in stands(reading) if key[0] == "search"}) == 3


def test_a_topic_in_conflict_excludes_nobody() -> None:
    reading = healthy()
    reading.change_topic("orders", policy=PolicyConflict(("topics[0]", "topics[1]")))
    assert stands(reading) == stands(healthy())


def test_without_topics_nobody_stands_anywhere() -> None:
    assert stands(Reading()) == {}
