"""How long the readings agree on who reads a topic."""

from __future__ import annotations

from dataclasses import replace

from retentiond.memory.remembered import NOTHING, KnownTopic, Remembered, known_topics
from retentiond.model import TopicPartition
from retentiond.snapshot import Snapshot
from tests.support.builders.guard_readings import Reading, group, partition, topic

AT = TopicPartition("orders", 0)


def snapshot(*commits: str, remembered: str = "", reader: str = "", topic_id: str = "") -> Snapshot:
    reading = Reading(commits={(name, AT): 1 for name in commits})
    reading.topics["orders"] = topic("orders")
    if topic_id:
        reading.change_topic("orders", topic_id=topic_id)
    reading.partitions[AT] = partition(0)
    reading.remembered = {(name, AT): 1 for name in remembered}
    reading.readers = {(name, "orders") for name in reader}
    reading.groups = {name: group(name) for name in {*commits, *remembered, *reader}}
    return reading.snapshot()


def agreed(*snapshots: Snapshot, settle_cycles: int = 3) -> list[int]:
    """After each of these cycles."""
    counts, before = [], NOTHING
    for each in snapshots:
        before = Remembered(known_topics(each, before, settle_cycles))
        counts.append(before.topics["orders"].agreed)
    return counts


def test_each_complete_reading_with_the_same_groups_counts_up_to_the_limit() -> None:
    assert agreed(*[snapshot("a", "b")] * 5) == [1, 2, 3, 3, 3]


def test_one_more_group_or_one_less_begins_anew() -> None:
    assert agreed(snapshot("a"), snapshot("a"), snapshot("a", "b"), snapshot("a")) == [1, 2, 1, 1]


def test_a_live_member_and_a_remembered_group_are_groups_of_the_topic() -> None:
    assert agreed(snapshot("a"), snapshot("a", reader="b")) == [1, 1]
    assert agreed(snapshot("a"), snapshot("a", remembered="b")) == [1, 1]
    assert agreed(snapshot("a", "b"), snapshot("a", reader="b")) == [1, 2]
    assert agreed(snapshot("a", "b"), snapshot("a", remembered="b")) == [1, 2]


def test_a_topic_that_nobody_reads_settles_too() -> None:
    assert agreed(snapshot(), snapshot()) == [1, 2]


def test_an_incomplete_reading_neither_counts_nor_begins_anew() -> None:
    incomplete = replace(snapshot("b"), problems=("a broker is down",))
    assert agreed(incomplete, snapshot("a"), incomplete, snapshot("a")) == [0, 1, 1, 2]


def test_a_topic_that_has_settled_stays_so_whatever_comes() -> None:
    assert agreed(snapshot("a"), snapshot("a"), snapshot("b"), settle_cycles=2) == [1, 2, 2]


def test_more_cycles_asked_for_afterwards_are_waited_for() -> None:
    settled = Remembered({"orders": KnownTopic("id-of-orders", ("a",), 1)})
    assert known_topics(snapshot("b"), settled, 3)["orders"].agreed == 1
    assert known_topics(snapshot("a"), settled, 3)["orders"].agreed == 2


def test_a_recreated_topic_begins_anew() -> None:
    assert agreed(*[snapshot("a")] * 3, snapshot("a", topic_id="new")) == [1, 2, 3, 1]


def test_a_topic_without_an_id_is_left_as_it_was() -> None:
    reading = Reading()
    reading.topics["orders"] = topic("orders")
    reading.change_topic("orders", topic_id=None)
    assert known_topics(reading.snapshot(), NOTHING, 1) == {}
