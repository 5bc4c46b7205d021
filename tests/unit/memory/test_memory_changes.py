"""What is remembered over many cycles: nothing is lost because it is absent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retentiond.memory.changes import DROP_AFTER_MS, Changes, changes, newly_seen
from retentiond.memory.readers import GroupOnTopic, Readers, RememberedReader
from retentiond.memory.recall import recalled
from retentiond.memory.remembered import KnownTopic, Remembered
from retentiond.model import Failure, GroupKind, TopicPartition
from retentiond.snapshot import PartitionReading, Snapshot
from tests.support.builders.guard_readings import POLICY, Reading, group, topic
from tests.support.builders.remembered import named, readers_table

ORDERS_0 = TopicPartition("orders", 0)
LOST = Failure("TIMED_OUT", "no answer")
A = GroupOnTopic("a", "orders")


def reading(
    commits: dict[tuple[str, TopicPartition], int | None],
    *,
    also_listed: Iterable[str] = (),
) -> Reading:
    made = Reading(commits=dict(commits))
    for name in {"orders", *(at.topic for _, at in commits)}:
        made.topics[name] = topic(name)
        for number in range(2):
            at = TopicPartition(name, number)
            made.partitions[at] = PartitionReading(0, number, 0, 9, 9, 9)
    for group_id in {*also_listed, *(group_id for group_id, _ in commits)}:
        made.groups[group_id] = group(group_id)
    return made


def after(before: Remembered, changed: Changes) -> Remembered:
    """As the memory file applies them."""
    return Remembered({**before.topics, **changed.topics}, changed.applied(before.readers))


def remembered_of(offset: int, absent_since_ms: int | None = None) -> Remembered:
    last = RememberedReader(GroupKind.CLASSIC, {0: offset}, absent_since_ms)
    return Remembered({"orders": KnownTopic("id-of-orders")}, readers_table({A: last}))


@pytest.mark.parametrize("absent_since_ms", [None, 5])
def test_while_a_policy_file_cant_be_read_no_time_counts_as_an_external_readers_absence(
    absent_since_ms: int | None,
) -> None:
    """That file may name it, on any topic. A group of Kafka is named by no file."""
    lake = GroupOnTopic("lake", "orders", is_external=True)
    made = reading({})
    made.change_topic("orders", policy=replace(POLICY, forget_vanished_after_ms=1))
    known = {
        at: RememberedReader(kind, {0: 3}, absent_since_ms, absent_ms=0 if at is A else 1)
        for at, kind in ((lake, GroupKind.EXTERNAL), (A, GroupKind.CLASSIC))
    }
    before = Remembered({"orders": KnownTopic("id-of-orders")}, readers_table(known))
    for knows_external in (False, True):
        seen = changes(replace(made.snapshot(), knows_external=knows_external), before, 1, 60_000)
        missing = {
            *seen.absent.to_pylist(), *seen.still_absent.to_pylist(), *seen.forgotten.to_pylist()
        }  # fmt: skip
        assert (lake.key in missing) is knows_external
        assert A.key in missing


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


def test_a_listed_group_is_not_missing_from_a_topic_that_was_recreated() -> None:
    """Its commits are gone with the topic of before."""
    made = reading({}, also_listed=["a"])
    made.change_topic("orders", recreated=True, topic_id="another")
    assert named(changes(made.snapshot(), remembered_of(5), 1).absent) == ()


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


def test_who_waits_for_a_topic_again_is_no_longer_absent_from_it() -> None:
    last = RememberedReader(GroupKind.CLASSIC, {0: 7}, absent_since_ms=5, absent_ms=3)
    known = Remembered(readers=readers_table({LATER: last}))
    waits = replace(reading({}, also_listed=["a"]).snapshot(), other_topics=WAITS_FOR_LATER)
    present = RememberedReader(last.kind, last.offsets)
    assert changes(waits, known, 1).renewed.by_name() == {LATER: present}


def test_a_commit_that_frees_nothing_any_more_is_remembered_as_none_that_may_be_stale() -> None:
    """It stands where it stood: the log start offset has passed it."""
    last = RememberedReader(GroupKind.CLASSIC, {0: 5}, moved_at_ms={0: 1}, stale=frozenset({0}))
    before = Remembered({"orders": KnownTopic("id-of-orders")}, readers_table({A: last}))
    made = reading({("a", ORDERS_0): 5})
    made.partitions[ORDERS_0] = replace(made.partitions[ORDERS_0], log_start_offset=5)
    seen = changes(recalled(made.snapshot(), before), before, 1)
    assert seen.renewed.by_name() == {A: replace(last, stale=frozenset())}


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
        readers=readers_table(
            {GroupOnTopic("known", "later"): RememberedReader(GroupKind.SHARE, {})}
        )
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


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_of_other_topics_only_readers_that_nobody_knew_are_new(data: st.DataObject) -> None:
    """A group of Kafka is not known by an external reader of its name."""
    groups, others = ("a", "b", "ü"), ("later", "other", "é")

    def known() -> Readers:
        some = st.sets(
            st.builds(
                GroupOnTopic,
                st.sampled_from(groups),
                st.sampled_from((*others, "orders")),
                st.sampled_from([False, False, True]),
            )
        )
        return readers_table(
            {
                at: RememberedReader(
                    GroupKind.EXTERNAL if at.is_external else GroupKind.CLASSIC, {}
                )
                for at in data.draw(some)
            }
        )

    shown, before, now = known(), known(), known()
    told = data.draw(
        st.dictionaries(st.sampled_from(groups), st.frozensets(st.sampled_from(others)))
    )
    second = replace(reading({}, also_listed=groups).snapshot(), other_topics=told)
    new, _ = newly_seen(second, shown, before, now)

    of_others = {GroupOnTopic(group, name) for group, names in told.items() for name in names}
    assert new.by_name().keys() == of_others - shown.by_name().keys() - before.by_name().keys()
