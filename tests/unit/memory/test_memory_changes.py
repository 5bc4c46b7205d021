"""What is remembered over many cycles: nothing is lost because it is absent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retentiond.memory.changes import DROP_AFTER_MS, Changes, changes, newly_seen
from retentiond.memory.readers import GroupOnTopic, Readers, RememberedReader
from retentiond.memory.remembered import KnownTopic, Remembered
from retentiond.model import Failure, GroupKind, TopicPartition
from retentiond.snapshot import PartitionReading, Snapshot
from tests.support.builders.guard_readings import POLICY, Reading, group, topic
from tests.support.builders.remembered import named

ORDERS_0 = TopicPartition("orders", 0)
LOST = Failure("TIMED_OUT", "no answer")
PATIENCE_MS = 5
A = GroupOnTopic("a", "orders")


def reading(
    commits: dict[tuple[str, TopicPartition], int | None],
    *,
    log_start: int | None = 0,
    also_listed: Iterable[str] = (),
) -> Reading:
    made = Reading(commits=dict(commits))
    for name in {"orders", *(at.topic for _, at in commits)}:
        made.topics[name] = topic(name)
        for number in range(2):
            at = TopicPartition(name, number)
            made.partitions[at] = PartitionReading(0, number, log_start, 9, 9, 9)
    for group_id in {*also_listed, *(group_id for group_id, _ in commits)}:
        made.groups[group_id] = group(group_id)
    return made


def after(before: Remembered, changed: Changes) -> Remembered:
    """As the memory file applies them."""
    return Remembered({**before.topics, **changed.topics}, changed.applied(before.readers))


def remembered_of(offset: int, absent_since_ms: int | None = None) -> Remembered:
    last = RememberedReader(GroupKind.CLASSIC, {0: offset}, absent_since_ms)
    return Remembered({"orders": KnownTopic("id-of-orders")}, Readers.of({A: last}))


@pytest.mark.parametrize("why", ["incomplete", "hidden", "topic unread", "group unreadable"])
def test_a_reading_that_can_not_tell_marks_no_absence_and_forgets_nothing(why: str) -> None:
    made = reading({}, also_listed=["a"] if why == "group unreadable" else [])
    policy = replace(POLICY, forget_vanished_after_ms=0)
    made.change_topic("orders", policy=policy, failure=LOST if why == "topic unread" else None)
    if why == "group unreadable":
        made.groups["a"] = replace(made.groups["a"], failure=LOST)
    snapshot = made.snapshot()
    if why == "incomplete":
        snapshot = replace(snapshot, problems=("a broker is down",))
    if why == "hidden":
        snapshot = replace(snapshot, hidden=("grant DESCRIBE",))

    for absent_since_ms in (None, 0):
        changed = changes(snapshot, remembered_of(5, absent_since_ms), 1)
        assert (*named(changed.absent), *named(changed.forgotten)) == ()


def test_a_recreated_topic_loses_what_was_known_and_keeps_what_is_seen_now() -> None:
    made = reading({("b", ORDERS_0): 1})
    made.change_topic("orders", recreated=True, topic_id="another")
    changed = changes(made.snapshot(), remembered_of(5), 1)
    assert changed.void_topics == ("orders",)
    now = after(remembered_of(5), changed)
    assert now.commits[A].offsets == {}  # who reads it is no matter of its id
    assert now.commits[GroupOnTopic("b", "orders")].offsets == {0: 1}
    assert now.topics["orders"].topic_id == "another"


LATER = GroupOnTopic("a", "later")
"""A group, and a topic that is not there yet."""

WAITS_FOR_LATER = {LATER.group_id: frozenset({LATER.topic})}


def test_who_waits_for_a_topic_is_remembered_as_a_reader_of_it() -> None:
    waits = replace(reading({}, also_listed=["a"]).snapshot(), other_topics=WAITS_FOR_LATER)
    changed = changes(waits, Remembered(), 1)
    reader = RememberedReader(GroupKind.CLASSIC, {}, seen_at_ms=waits.taken_at_ms)
    assert changed.new.by_name() == {LATER: reader}

    known = after(Remembered(), changed)
    assert not changes(waits, known, 1)
    without = changes(reading({}).snapshot(), known, 1)  # neither the group nor the topic
    assert (named(without.absent), without.dropped_topics) == ((), ())
    there = reading({("b", TopicPartition("later", 0)): 1}).snapshot()
    assert named(changes(there, known, 1).absent) == (LATER,)


def test_a_topic_that_is_gone_stays_remembered_while_somebody_waits_for_it() -> None:
    gone = replace(reading({}, also_listed=["a"]).snapshot(), gone_topics=frozenset({"later"}))
    known = Remembered(gone_ms={"later": DROP_AFTER_MS - 1})
    assert changes(gone, known, 1, observed_ms=1).dropped_topics == ("later",)

    awaited = changes(replace(gone, other_topics=WAITS_FOR_LATER), known, 1, observed_ms=1)
    assert (awaited.dropped_topics, awaited.gone_ms, awaited.not_gone) == ((), {}, ("later",))


def newcomers(
    second: Snapshot, first: Snapshot, before: Remembered
) -> dict[GroupOnTopic, RememberedReader]:
    seen = changes(first, before, 1)
    now = seen.applied(before.readers)
    return newly_seen(second, seen.new, before.readers, now)[0].by_name()


def test_a_newcomer_is_who_neither_the_first_reading_nor_an_earlier_cycle_has_seen() -> None:
    """Of whatever topic: here of one that the second reading is not about."""
    groups = ["early", "known", "late"]
    first = replace(
        reading({("early", ORDERS_0): 1}, also_listed=groups).snapshot(),
        other_topics={"early": frozenset({"later"})},
    )
    second = replace(
        reading({("late", ORDERS_0): 2}, also_listed=groups).snapshot(),
        other_topics=dict.fromkeys(groups, frozenset({"later"})),
    )
    before = Remembered(
        readers=Readers.of({GroupOnTopic("known", "later"): RememberedReader(GroupKind.SHARE, {})})
    )
    found = newcomers(second, first, before)
    assert {at: last.offsets for at, last in found.items()} == {
        GroupOnTopic("late", "orders"): {0: 2},
        GroupOnTopic("late", "later"): {},
    }


def test_a_newcomer_may_have_the_name_of_a_reader_of_the_other_kind() -> None:
    first = reading({("lake", ORDERS_0): 1}).snapshot()
    second = reading({("lake", ORDERS_0): 2}).snapshot()
    external = tuple(replace(group, kind=GroupKind.EXTERNAL) for group in second.groups)
    assert newcomers(second, first, Remembered()) == {}
    found = newcomers(replace(second, groups=external), first, Remembered())
    assert {at: last.offsets for at, last in found.items()} == {
        GroupOnTopic("lake", "orders", is_external=True): {0: 2}
    }


def test_the_second_of_two_equal_readings_changes_nothing() -> None:
    snapshot = reading({("a", ORDERS_0): 5, ("b", ORDERS_0): None}).snapshot()
    once = after(Remembered(), changes(snapshot, Remembered(), 1))
    assert not changes(snapshot, once, 1)


# Over many cycles

GROUPS = ("a", "b")
TOPICS = ("clicks", "orders")
PARTITIONS = tuple(TopicPartition(name, number) for name in TOPICS for number in range(2))


@dataclass(frozen=True)
class Step:
    """One cycle, or what an operator does between two of them."""

    commits: dict[tuple[str, TopicPartition], int | None] = field(default_factory=dict)
    members: frozenset[tuple[str, str]] = frozenset()  # group, topic
    log_start: int | None = 0
    complete: bool = True
    unreadable: frozenset[str] = frozenset()  # groups
    unread: frozenset[str] = frozenset()  # topics
    recreated: frozenset[str] = frozenset()
    forgotten: str | None = None
    ms_later: int = 1


steps = st.builds(
    Step,
    commits=st.dictionaries(
        st.tuples(st.sampled_from(GROUPS), st.sampled_from(PARTITIONS)),
        st.none() | st.integers(0, 9),
        max_size=6,
    ),
    members=st.frozensets(st.tuples(st.sampled_from(GROUPS), st.sampled_from(TOPICS)), max_size=2),
    log_start=st.none() | st.integers(0, 9),
    complete=st.sampled_from([True, True, True, False]),
    unreadable=st.sampled_from([frozenset()] * 5 + [frozenset({"a"})]),
    unread=st.sampled_from([frozenset()] * 5 + [frozenset({"orders"})]),
    recreated=st.sampled_from([frozenset()] * 9 + [frozenset({"orders"})]),
    forgotten=st.sampled_from([None] * 5 + ["a"]),
    ms_later=st.integers(1, 4),
)


def snapshot_of(step: Step, now_ms: int, generation: int) -> Snapshot:
    commits = {at: to for at, to in step.commits.items() if at[0] not in step.unreadable}
    members = {at for at in step.members if at[0] not in step.unreadable}
    listed = {*step.unreadable, *(group_id for group_id, _ in members)}
    made = reading(commits, log_start=step.log_start, also_listed=listed)
    made.readers = members
    for name in TOPICS:
        made.topics[name] = topic(name)
        for at in PARTITIONS:
            made.partitions[at] = PartitionReading(0, at.partition, step.log_start, 9, 9, 9)
        patience_ms = PATIENCE_MS if name == "clicks" else None
        made.change_topic(
            name,
            topic_id=f"{name}-{generation if name == 'orders' else 0}",
            policy=replace(POLICY, forget_vanished_after_ms=patience_ms),
            failure=LOST if name in step.unread else None,
            recreated=name in step.recreated,
        )
    for name in step.unreadable:
        made.groups[name] = replace(made.groups[name], failure=LOST)
    problems = () if step.complete else ("a broker is down",)
    return replace(made.snapshot(), taken_at_ms=now_ms, problems=problems)


@pytest.mark.long
@given(st.lists(steps, max_size=12))
def test_who_was_once_seen_to_read_stays_remembered_until_something_lets_go_of_it(  # noqa: PLR0912 - each trace
    cycles: list[Step],
) -> None:
    """On ``orders``, which waits for ever, and on ``clicks``, which waits for `PATIENCE_MS`."""
    remembered = Remembered()
    expected: dict[tuple[str, TopicPartition], int] = {}  # last commit by group and partition
    last_seen: dict[GroupOnTopic, int] = {}  # when a trace, or doubt, spoke against absence
    readers: set[GroupOnTopic] = set()  # by whatever trace
    now_ms = generation = 0
    for step in cycles:
        now_ms += step.ms_later
        generation += bool(step.recreated)
        snapshot = snapshot_of(step, now_ms, generation)
        remembered = after(remembered, changes(snapshot, remembered, 1, step.ms_later))
        expected = {at: to for at, to in expected.items() if at[1].topic not in step.recreated}
        for group_id in step.unreadable:
            last_seen |= {GroupOnTopic(group_id, name): now_ms for name in TOPICS}
        for group_id, name in step.members:
            if group_id not in step.unreadable:
                last_seen[GroupOnTopic(group_id, name)] = now_ms
                readers.add(GroupOnTopic(group_id, name))
        for (group_id, at), offset in step.commits.items():
            if group_id in step.unreadable:
                continue
            last_seen[GroupOnTopic(group_id, at.topic)] = now_ms
            readers.add(GroupOnTopic(group_id, at.topic))
            if offset is not None:
                before = expected.get((group_id, at))
                is_gone = (
                    before is not None
                    and step.log_start is not None
                    and offset < before
                    and offset < step.log_start
                )
                if not is_gone:
                    expected[group_id, at] = offset

        for on_topic in readers - remembered.commits.keys():
            assert on_topic.topic == "clicks"
            assert now_ms - last_seen[on_topic] >= PATIENCE_MS
            assert step.complete
            readers.remove(on_topic)
        for (group_id, at), offset in list(expected.items()):
            last = remembered.commits.get(GroupOnTopic(group_id, at.topic))
            if last is None:
                del expected[group_id, at]
            else:
                assert last.offsets[at.partition] == offset
        if step.forgotten:
            readers = {on_topic for on_topic in readers if on_topic.group_id != step.forgotten}
            released = {at: to for at, to in remembered.commits.items() if at[0] != step.forgotten}
            remembered = replace(remembered, readers=Readers.of(released))
            expected = {at: to for at, to in expected.items() if at[0] != step.forgotten}


@pytest.mark.parametrize("offset", [2**53 + 1, 2**63 - 1])
def test_a_commit_beside_an_unreadable_one_is_remembered_to_its_last_digit(offset: int) -> None:
    seen = reading({("a", ORDERS_0): offset, ("b", ORDERS_0): None}).snapshot()
    known = after(Remembered(), changes(seen, Remembered(), 1))
    assert known.commits[A].offsets == {0: offset}
