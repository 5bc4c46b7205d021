"""What a cycle sees and recalls on whole columns is what it does reader by reader: commits that
move, stand, become stale or go, and readers that vanish, come back or are given up."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import event, given
from hypothesis import strategies as st

from retentiond.memory.changes import changes, newly_seen
from retentiond.memory.readers import NOBODY, GroupOnTopic, RememberedReader
from retentiond.memory.recall import recalled
from retentiond.memory.remembered import KnownTopic, Remembered
from retentiond.model import Failure, GroupKind, TopicPartition
from retentiond.snapshot import VANISHED, partitions_of
from tests.support.builders.guard_readings import POLICY, Reading, group, partition, topic
from tests.support.builders.remembered import known_commits, readers_table
from tests.support.memory_model import after_reading

GROUPS = ("billing", "etl", "search")
TOPICS = ("clicks", "orders")
PARTITIONS = [TopicPartition(name, number) for name in TOPICS for number in range(2)]
NOW_MS = 1_000_000

LARGE = 2**53 + 1
"""No float has it."""

OFFSETS = st.sampled_from([None, 5, 120, 120, 120, 300, LARGE])
KINDS = st.sampled_from([GroupKind.CLASSIC, GroupKind.CLASSIC, GroupKind.CONSUMER])


def some(draw: st.DrawFn, size: int) -> int:
    """The least size of a collection: so large that readings and memories meet, but for a few."""
    return draw(st.sampled_from([size, size, 0]))


@st.composite
def readings(draw: st.DrawFn) -> Reading:
    reading = Reading(topics={name: topic(name) for name in TOPICS})
    log_starts = st.sampled_from([10, 10, None])  # None: it can't be read
    reading.partitions = {
        at: replace(partition(at.partition), log_start_offset=draw(log_starts)) for at in PARTITIONS
    }
    for name in draw(st.sets(st.sampled_from(GROUPS), min_size=some(draw, 2))):
        failure = draw(st.sampled_from([None, None, Failure("LOST", "gone")]))
        reading.groups[name] = replace(group(name), kind=draw(KINDS), failure=failure)
        if failure is None:
            commits = st.dictionaries(st.sampled_from(PARTITIONS), OFFSETS, min_size=some(draw, 3))
            reading.commits |= {(name, at): offset for at, offset in draw(commits).items()}
        for read in draw(st.sets(st.sampled_from(TOPICS))):
            reading.readers.add((name, read))
    reading.problems = draw(st.sampled_from([(), (), ("a broker is down",)]))
    reading.hidden = draw(st.sampled_from([(), (), ("grant DESCRIBE",)]))
    unread = draw(st.sampled_from([None, None, *TOPICS]))
    if unread:
        reading.change_topic(unread, failure=Failure("TIMED_OUT", "no answer"))
    return reading


@st.composite
def memories(draw: st.DrawFn) -> Remembered:
    def reader(is_external: bool) -> RememberedReader:
        offsets = draw(st.dictionaries(st.integers(0, 2), st.sampled_from([5, 120, 120, 300])))
        dated = offsets if draw(st.integers(0, 4)) else dict.fromkeys(list(offsets)[:1])
        absent = draw(st.sampled_from([None, 7]))
        return RememberedReader(
            GroupKind.EXTERNAL if is_external else draw(KINDS),
            offsets,
            absent,
            dict.fromkeys(dated, 1),
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
    readers = st.lists(at, unique=True, min_size=some(draw, 6))
    ids = {name: draw(st.sampled_from([f"id-of-{name}"] * 3 + ["another"])) for name in TOPICS}
    return Remembered(
        {name: KnownTopic(topic_id) for name, topic_id in ids.items()},
        readers_table({each: reader(each.is_external) for each in draw(readers)}),
    )


@given(readings(), memories(), st.integers(0, 2), st.sampled_from([None, 3, 4]))
def test_what_a_reading_changes_is_what_it_changes_reader_by_reader(
    reading: Reading, before: Remembered, cycles: int, patience_ms: int | None
) -> None:
    policy = replace(POLICY, forget_vanished_after_ms=patience_ms)
    reading.change_topic("clicks", policy=policy)
    snapshot = recalled(reading.snapshot(), before)
    seen = changes(snapshot, before, cycles, 10)
    after = seen.applied(before.readers)
    assert after.by_name() == after_reading(snapshot, before.commits, 10)
    assert after.keys.to_pylist() == sorted(after.keys.to_pylist())
    shown = {*seen.new.by_name(), *seen.renewed.by_name()}
    is_another = {at for at in shown if after.by_name()[at] != before.commits.get(at)}
    assert shown - is_another <= {at for at in shown if at.topic in seen.void_topics}
    event(f"changes: {bool(seen)}")


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
        (snapshot.groups[row["group_id"]].group_id, there[row["partition_id"]], offset)
        for row in snapshot.commits.to_pylist()
        if (offset := row["remembered_offset"]) is not None
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
    states = {each.group_id: each.state for each in snapshot.groups}
    assert states.items() >= {each.group_id: each.state for each in read.groups}.items()
    for each in snapshot.groups:
        if each.state == VANISHED:
            of_name = [
                last.kind
                for at, last in known.items()
                if at.reader == (each.name, each.is_external)
            ]
            assert each.kind == of_name[-1]


@given(readings(), memories())
def test_the_same_reading_again_shows_nobody_new(reading: Reading, before: Remembered) -> None:
    snapshot = recalled(reading.snapshot(), before)
    seen = changes(snapshot, before, 1)
    found = {*seen.new.by_name(), *before.commits}
    shown = {*after_reading(snapshot, {}, 0)}
    assert found == shown | before.commits.keys()
    now = seen.applied(before.readers)
    assert newly_seen(snapshot, seen.new, before.readers, now) == (NOBODY, NOBODY)
