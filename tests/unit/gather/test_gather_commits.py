"""The guard's reading of commits: which groups are asked for all of them, and which by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import pytest

from retentiond.errors import KafkaUnavailable
from retentiond.gather.commits import MORE_PARTITIONS
from retentiond.memory.readers import GroupOnTopic, RememberedReader
from retentiond.memory.remembered import NOTHING, KnownTopic, Remembered
from retentiond.model import Commit, Failure, GroupKind, TopicPartition
from retentiond.snapshot import VANISHED, Snapshot
from tests.support.builders.gather_worlds import (
    CLICKS_0,
    ORDERS_0,
    ORDERS_1,
    commits,
    groups,
    healthy,
    readers,
    second_snapshot,
    snapshot,
    topic,
)
from tests.support.builders.remembered import readers_table
from tests.support.fakes import FakeCluster

SECRETS = [TopicPartition("secrets", number) for number in range(9)]
"""Of a topic that the policy does not enable; what it has there counts as well."""

Named = tuple[str, ...]


class Asked(FakeCluster):
    """Keeps the groups that it was asked about: for all commits, and on named partitions."""

    def __init__(self) -> None:
        super().__init__(brokers=3, offsets_partitions=4)
        self.__dict__.update(healthy().__dict__)
        self.all: list[Named] = []
        self.on: list[tuple[Named, tuple[TopicPartition, ...]]] = []

    def commits(
        self, groups: Collection[str], on: Collection[TopicPartition] | None = None
    ) -> Mapping[str, Sequence[Commit] | Failure]:
        if on is None:
            self.all.append(tuple(groups))
        else:
            self.on.append((tuple(groups), tuple(on)))
        return super().commits(groups, on)


@pytest.fixture
def kafka() -> Asked:
    """Group billing has commits on eleven partitions, the others on two at most."""
    kafka = Asked()
    kafka.commit("billing", dict.fromkeys(SECRETS, 1))
    return kafka


def second(
    kafka: Asked, first: Snapshot, remembered: Remembered = NOTHING, *, about: TopicPartition
) -> Snapshot:
    kafka.all.clear()
    kafka.on.clear()
    return second_snapshot(kafka, first, [about], remembered=remembered)


def test_the_plans_reading_asks_every_group_for_all_it_has(kafka: Asked) -> None:
    taken = snapshot(kafka)
    assert kafka.on == []
    assert taken.commit_counts["billing"] == 11
    assert taken.commit_counts["newcomer"] == 0


def test_a_group_with_more_commits_than_partitions_are_asked_about_is_asked_by_name(
    kafka: Asked,
) -> None:
    first = snapshot(kafka)
    taken = second(kafka, first, about=ORDERS_0)
    assert kafka.on == [(("billing",), (ORDERS_0, ORDERS_1))]  # both of the topic
    assert kafka.all == [("newcomer", "pipeline", "search", "stranger")]
    assert commits(taken) == {("billing", ORDERS_0): 3, ("billing", ORDERS_1): 4} | {
        ("search", ORDERS_0): 5
    }


def test_a_group_that_comes_to_read_the_topic_is_found_by_name(kafka: Asked) -> None:
    first = snapshot(kafka)
    kafka.commit("billing", {CLICKS_0: 0})
    taken = second(kafka, first, about=CLICKS_0)
    assert kafka.on == [(("billing", "search"), (CLICKS_0,))]
    assert commits(taken)["billing", CLICKS_0] == 0


def test_a_group_that_was_not_there_for_the_plan_tells_all(kafka: Asked) -> None:
    first = snapshot(kafka)
    kafka.commit("late", dict.fromkeys((*SECRETS, ORDERS_0), 1))
    taken = second(kafka, first, about=CLICKS_0)
    assert "late" in kafka.all[0]
    assert taken.other_topics["late"] == {"orders"}  # to be remembered there


def test_a_group_that_could_not_be_read_for_the_plan_tells_all(kafka: Asked) -> None:
    kafka.fail("commits", "billing", Failure("LOST", "gone"))
    first = snapshot(kafka)
    second(kafka, first, about=ORDERS_0)
    assert kafka.on == []


def test_who_may_read_the_topic_as_a_member_counts_whatever_it_is_asked(kafka: Asked) -> None:
    first = snapshot(kafka)
    kafka.join("billing", ["clicks"])
    taken = second(kafka, first, about=CLICKS_0)
    assert ("billing", "clicks") in readers(taken)
    assert ("billing", CLICKS_0) not in commits(taken)


def test_a_commit_or_a_group_that_goes_after_the_plan_is_not_read_and_is_remembered(
    kafka: Asked,
) -> None:
    first = snapshot(kafka)
    known = RememberedReader(GroupKind.CLASSIC, {0: 3, 1: 4})
    remembered = Remembered(
        {"orders": KnownTopic(kafka.topics["orders"].topic_id)},
        readers_table({GroupOnTopic("billing", "orders"): known}),
    )
    del kafka.groups["billing"].commits[ORDERS_0]
    taken = second(kafka, first, remembered, about=ORDERS_0)
    assert kafka.on[0][0] == ("billing",)
    assert ("billing", ORDERS_0) not in commits(taken)
    assert taken.commits["remembered_offset"].drop_null().to_pylist() == [4, 3]

    kafka.delete_group("billing")
    taken = second(kafka, first, remembered, about=ORDERS_0)
    assert kafka.on == []
    assert groups(taken)["billing"].state == VANISHED


def test_a_group_whose_answer_fails_is_unreadable(kafka: Asked) -> None:
    first = snapshot(kafka)
    kafka.fail("commits", "billing", Failure("NOT_COORDINATOR", "it has moved"))
    taken = second(kafka, first, about=ORDERS_0)
    assert groups(taken)["billing"].failure == Failure("NOT_COORDINATOR", "it has moved")


# The topic changes between its description and the commits


def grow(kafka: FakeCluster) -> None:
    """The topic gets a partition, and group billing, which is no member, commits on that alone."""
    old = kafka.topics["clicks"].partitions
    old.append(type(old[0])(old[0].replicas, old[0].leader))
    kafka.commit("billing", {("clicks", 1): 0})


def test_a_partition_that_the_names_lack_makes_the_topic_unreadable(kafka: Asked) -> None:
    first = snapshot(kafka)
    kafka.script.before("commits", lambda: grow(kafka))
    taken = second(kafka, first, about=CLICKS_0)
    assert topic(taken, "clicks").failure == MORE_PARTITIONS


def test_a_reading_without_names_sees_that_commit_itself(kafka: Asked) -> None:
    kafka.groups["billing"].commits = {ORDERS_0: 3}
    kafka.groups["search"].commits = {CLICKS_0: 1}
    first = snapshot(kafka)
    kafka.script.before("commits", lambda: grow(kafka))
    taken = second(kafka, first, about=CLICKS_0)
    assert kafka.on == []
    assert topic(taken, "clicks").failure is None
    assert ("billing", "clicks") in readers(taken)


@pytest.mark.parametrize("what", ["gone", "hidden"])
def test_a_topic_that_can_not_be_described_after_the_commits_is_unreadable(
    kafka: Asked, what: str
) -> None:
    first = snapshot(kafka)
    hide: Callable[[], object] = (
        (lambda: kafka.delete_topic("clicks"))
        if what == "gone"
        else (lambda: kafka.fail("describe_topics", "clicks", Failure("HIDDEN", "not for you")))
    )
    kafka.script.after("commits", hide)
    assert topic(second(kafka, first, about=CLICKS_0), "clicks").failure is not None


def test_a_cluster_that_does_not_answer_then_ends_the_reading(kafka: Asked) -> None:
    first = snapshot(kafka)

    def fail_next() -> None:
        kafka.script.fail_next("describe_topics", KafkaUnavailable("nobody answers"))

    kafka.script.after("commits", fail_next)
    with pytest.raises(KafkaUnavailable, match="nobody answers"):
        second(kafka, first, about=CLICKS_0)


def test_an_incomplete_listing_is_one_whatever_the_commits_say(kafka: Asked) -> None:
    first = snapshot(kafka)
    kafka.script.after("commits", lambda: kafka.not_at_work.add(2))
    taken = second(kafka, first, about=ORDERS_0)
    assert kafka.on
    assert not taken.complete
