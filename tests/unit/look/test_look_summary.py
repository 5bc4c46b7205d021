"""A plan by topic, sorted by what it frees, and the whole cluster in a line."""

from __future__ import annotations

from dataclasses import replace

from retentiond.explain.keepers import YOUTH, Keeper
from retentiond.look.summary import ClusterLook, Disk, TopicLook, look_at
from retentiond.model import PlanRow, Reason, TopicPartition
from tests.unit.look.looks import rest
from tests.unit.observe.reports import row, unread

BILLING = Keeper(Reason.NOT_CONSUMED, "billing")


def disk(sizes: dict[str, int], freed: dict[str, int]) -> Disk:
    """By topics of one partition."""
    return Disk(
        {TopicPartition(name, 0): size for name, size in sizes.items()},
        {TopicPartition(name, 0): size for name, size in freed.items()},
    )


def names(look: ClusterLook) -> list[str]:
    return [topic.topic for topic in look.topics]


def only(rows: list[PlanRow], of: Disk | None = None) -> TopicLook:
    (topic,) = (look_at(rows, of) if of else look_at(rows)).topics
    return topic


def test_a_topic_sums_up_its_partitions() -> None:
    topic = only([rest(), replace(rest(), partition=1), replace(unread("orders"), partition=2)])
    assert (topic.records, topic.freed_records, topic.unread) == (380, 180, 1)
    assert topic.kept == ((BILLING, 100, None), (YOUTH, 100, None))
    assert [each.partition for each in topic.rows] == [0, 1, 2]


def test_topics_are_sorted_by_the_bytes_that_they_free_then_by_those_on_disk() -> None:
    rows = [rest(topic=name) for name in "abc"] + [
        row(name, reason=Reason.NO_GROUP) for name in "de"
    ]
    sizes = dict.fromkeys("abc", 50) | {"d": 10, "e": 90}
    look = look_at(rows, disk(sizes, {"a": 1, "b": 3, "c": 2}))
    assert names(look) == ["b", "c", "a", "e", "d"]


def test_where_no_disk_could_be_read_topics_are_sorted_by_records() -> None:
    rows = [
        rest(topic="few", cutoff=20),
        row("none", reason=Reason.NO_GROUP),
        rest(topic="many"),
        row("less", reason=Reason.EMPTY),
    ]
    look = look_at(rows)
    assert names(look)[:2] == ["many", "few"]
    assert look.freed_bytes is None
    assert {topic.freed_bytes for topic in look.topics} == {None}


def test_bytes_that_are_not_known_of_one_partition_are_not_known_of_its_topic() -> None:
    rows = [rest(), replace(rest(), partition=1)]
    topic = only(rows, disk({"orders": 90}, {"orders": 40}))
    assert (topic.size_bytes, topic.freed_bytes) == (None, None)


def test_a_deletion_whose_bytes_are_not_foretold_frees_an_unknown_number() -> None:
    assert only([rest()], disk({"orders": 90}, {})).freed_bytes is None


def test_a_topic_with_nothing_to_delete_frees_0_bytes() -> None:
    assert only([row("orders", reason=Reason.NO_GROUP)], disk({"orders": 90}, {})).freed_bytes == 0


def test_the_cluster_sums_up_what_is_known_and_says_whether_it_is_all() -> None:
    rows = [rest(topic="a"), rest(topic="b")]
    look = look_at(rows, disk({"a": 90, "b": 10}, {"a": 40, "b": 5}))
    assert (look.freed_bytes, look.is_bytes_known) == (45, True)
    look = look_at(rows, disk({"a": 90}, {"a": 40}))
    assert (look.freed_bytes, look.is_bytes_known) == (40, False)
    assert (look.records, look.freed_records) == (380, 180)


def test_who_keeps_the_most_bytes_of_the_cluster_comes_first() -> None:
    rows = [rest(topic="a"), row("b", reason=Reason.NO_GROUP), rest(topic="c")]
    look = look_at(rows, disk({"a": 1_900, "b": 190, "c": 1_900}, {"a": 900, "c": 900}))
    assert look.kept == (
        (BILLING, 100, 1_000),
        (YOUTH, 100, 1_000),
        (Keeper(Reason.NO_GROUP), 190, 190),
    )


def test_a_topic_that_belongs_to_a_system_says_to_which() -> None:
    assert only([rest(topic="app-store-changelog")]).owner is not None
    assert only([rest()]).owner is None


def test_what_is_kept_takes_its_share_of_each_partitions_bytes() -> None:
    rows = [rest(), replace(rest(Reason.NO_GROUP), partition=1)]
    sizes = {TopicPartition("orders", 0): 190, TopicPartition("orders", 1): 19_000}
    topic = only(rows, Disk(sizes))
    assert topic.kept == (
        (Keeper(Reason.NO_GROUP), 190, 19_000),
        (BILLING, 50, 50),
        (YOUTH, 50, 50),
    )
