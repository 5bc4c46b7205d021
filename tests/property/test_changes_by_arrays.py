"""What a cycle has seen is the same, whether the unchanged readers are found by arrays or one by
one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import event, given
from hypothesis import strategies as st

from retentiond.memory.by_partition import ByPartition
from retentiond.memory.changes import changes, known_readers
from retentiond.memory.recall import recalled
from retentiond.memory.remembered import (
    GroupOnTopic,
    KnownTopic,
    ReaderName,
    Remembered,
    RememberedReader,
)
from retentiond.model import Failure, GroupKind, TopicPartition
from retentiond.snapshot import VANISHED, partitions_of
from tests.support.builders.guard_readings import POLICY, Reading, group, partition, topic
from tests.support.builders.remembered import known_commits

GROUPS = ("billing", "etl", "search")
TOPICS = ("clicks", "orders")
PARTITIONS = [TopicPartition(name, number) for name in TOPICS for number in range(2)]
NOW_MS = 1_000_000

OFFSETS = st.sampled_from([None, 5, 120, 120, 120, 300])
KINDS = st.sampled_from([GroupKind.CLASSIC, GroupKind.CLASSIC, GroupKind.CONSUMER])


@st.composite
def readings(draw: st.DrawFn) -> Reading:
    reading = Reading(topics={name: topic(name) for name in TOPICS})
    reading.partitions = {at: partition(at.partition) for at in PARTITIONS}
    for name in draw(st.sets(st.sampled_from(GROUPS))):
        failure = draw(st.sampled_from([None, None, Failure("LOST", "gone")]))
        reading.groups[name] = replace(group(name), kind=draw(KINDS), failure=failure)
        if failure is None:
            some = draw(st.dictionaries(st.sampled_from(PARTITIONS), OFFSETS))
            reading.commits |= {(name, at): offset for at, offset in some.items()}
        for read in draw(st.sets(st.sampled_from(TOPICS))):
            reading.readers.add((name, read))
    reading.problems = draw(st.sampled_from([(), (), ("a broker is down",)]))
    return reading


@st.composite
def memories(draw: st.DrawFn) -> Remembered:
    def reader(is_external: bool) -> RememberedReader:
        offsets = draw(st.dictionaries(st.integers(0, 2), st.sampled_from([5, 120, 120])))
        dated = offsets if draw(st.integers(0, 4)) else dict.fromkeys(list(offsets)[:1])
        absent = draw(st.sampled_from([None, None, None, 7]))
        return RememberedReader(
            GroupKind.EXTERNAL if is_external else draw(KINDS),
            ByPartition.of(offsets),
            absent,
            ByPartition.of(dict.fromkeys(dated, 1)),
            0 if absent is None else 3,
            draw(st.sampled_from([None, 2])),
            frozenset(offsets) if draw(st.integers(0, 4)) == 0 else frozenset(),
        )

    at = st.builds(
        GroupOnTopic,
        st.sampled_from(GROUPS),
        st.sampled_from((*TOPICS, "gone")),
        st.sampled_from([False, False, True]),
    )
    ids = {name: draw(st.sampled_from([f"id-of-{name}"] * 3 + ["another"])) for name in TOPICS}
    return Remembered(
        {name: KnownTopic(topic_id) for name, topic_id in ids.items()},
        {each: reader(each.is_external) for each in draw(st.lists(at, unique=True))},
    )


def one_by_one(remembered: Remembered) -> Remembered:
    """The same, and no reader is taken for unchanged."""
    copy = replace(remembered)
    copy.readers._is_settled = np.zeros(len(copy.commits), bool)
    return copy


@given(readings(), memories(), st.integers(0, 2))
def test_both_ways_see_the_same(reading: Reading, before: Remembered, cycles: int) -> None:
    snapshot = recalled(reading.snapshot(), before)
    by_arrays = changes(snapshot, before, cycles, 10)
    assert by_arrays == changes(snapshot, one_by_one(before), cycles, 10)
    event(f"changes: {bool(by_arrays)}")


@given(readings(), memories(), st.sampled_from([None, 3, 4]))
def test_what_is_remembered_is_put_into_a_reading_as_it_is_one_by_one(
    reading: Reading, before: Remembered, patience_ms: int | None
) -> None:
    policy = replace(POLICY, forget_vanished_after_ms=patience_ms)
    reading.change_topic("clicks", policy=policy)
    read = reading.snapshot()
    snapshot = recalled(read, before)
    names = {(each.name, each.is_external): each.group_id for each in snapshot.groups}
    known = known_commits(snapshot, before)
    there = partitions_of(snapshot)
    assert sorted(
        (snapshot.groups[row["group_id"]].group_id, there[row["partition_id"]], row["offset"])
        for row in snapshot.remembered.to_pylist()
    ) == sorted(
        (names[each.reader], TopicPartition(each.topic, number), offset)
        for each, last in known.items()
        for number, offset in last.offsets.items()
        if TopicPartition(each.topic, number) in there
    )
    assert {
        (snapshot.groups[pair.group].group_id, snapshot.topics[pair.topic].name)
        for pair in snapshot.remembered_readers
    } == {
        (names[each.reader], each.topic)
        for each, last in known.items()
        if not {TopicPartition(each.topic, number) for number in last.offsets} & {*there}
    }
    listed = {(each.name, each.is_external) for each in read.groups}
    assert names.keys() == listed | {tuple(each.reader) for each in known}
    for each in snapshot.groups:
        if each.state == VANISHED:
            of_name = [
                last.kind
                for at, last in known.items()
                if at.reader == (each.name, each.is_external)
            ]
            assert each.kind == of_name[-1]


@given(readings(), memories())
def test_who_is_known_needs_no_second_reading(reading: Reading, before: Remembered) -> None:
    snapshot = recalled(reading.snapshot(), before)
    known: Mapping[ReaderName, Any] = known_readers(snapshot, before)
    found = {(at.reader, at.topic) for at in before.commits}
    for row in snapshot.commits.to_pylist():
        name = snapshot.groups[row["group_id"]]
        read = snapshot.topics[snapshot.partitions[row["partition_id"]].topic].name
        found.add((ReaderName(name.name, name.is_external), read))
    for pair in snapshot.readers:
        name = snapshot.groups[pair.group]
        found.add((ReaderName(name.name, name.is_external), snapshot.topics[pair.topic].name))
    assert {(reader, name) for reader, names in known.items() for name in names} == found
