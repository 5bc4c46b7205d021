"""When a reading waits for coordinators to stand still, and what it may skip."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from retentiond.errors import OtherCluster
from retentiond.gather.gather import gather, gather_again
from retentiond.gather.groups import (
    LONG_STANDSTILL_S,
    STANDSTILL_S,
    LastCoordinators,
    problems,
    read_groups,
    with_completeness,
)
from retentiond.model import TopicPartition
from retentiond.snapshot import Snapshot
from tests.support.builders.gather_worlds import config, entry
from tests.support.fakes.cluster import FakeCluster
from tests.support.fakes.world import OFFSETS_TOPIC

CONFIG = config(entry("orders"))


@pytest.fixture
def cluster() -> FakeCluster:
    cluster = FakeCluster(brokers=2)
    cluster.create_topic("orders")
    cluster.commit("billing", {("orders", 0): 0})
    return cluster


@pytest.fixture
def watch() -> LastCoordinators:
    return LastCoordinators()


def read(cluster: FakeCluster, watch: LastCoordinators) -> Snapshot:
    return gather(cluster, CONFIG, cluster.now_ms, coordinators=watch, wait_until=lambda _: None)


def reread(cluster: FakeCluster, first: Snapshot, watch: LastCoordinators) -> Snapshot:
    """As the guard does."""
    only = {TopicPartition("orders", 0)}
    return gather_again(
        cluster, CONFIG, cluster.now_ms, first, only, coordinators=watch, wait_until=lambda _: None
    )


def move_coordinator(cluster: FakeCluster) -> None:
    leader = cluster.partition(OFFSETS_TOPIC, 0).leader
    cluster.move_leader(OFFSETS_TOPIC, 0, to=2 if leader == 1 else 1)


Happens = Callable[[FakeCluster], object]


def meanwhile(happens: Happens) -> Happens:
    return lambda cluster: cluster.script.after("list_groups", lambda: happens(cluster))


def test_a_first_reading_waits_until_the_coordinators_have_stood_still(
    cluster: FakeCluster, watch: LastCoordinators
) -> None:
    assert watch.seconds_to_wait(cluster.coordinator_state()) == STANDSTILL_S


@pytest.mark.parametrize(
    ("before", "after", "wait_s"),
    [
        (lambda _: None, lambda _: None, 0),  # they stand as the last reading has left them
        (lambda _: None, move_coordinator, STANDSTILL_S),
        (meanwhile(move_coordinator), lambda _: None, STANDSTILL_S),  # although none moves any more
    ],
)
def test_a_reading_waits_unless_it_finds_them_as_the_last_one_left_them(
    cluster: FakeCluster, watch: LastCoordinators, before: Happens, after: Happens, wait_s: float
) -> None:
    """Nor does it rely on what that one saw."""
    before(cluster)
    read(cluster, watch)
    after(cluster)
    assert watch.seconds_to_wait(cluster.coordinator_state()) == wait_s
    assert read(cluster, watch).complete


@pytest.mark.parametrize("trouble", ["not_at_work", "behind"])
@pytest.mark.parametrize("ends", ["meanwhile", "afterwards"])
def test_after_coordinators_slept_or_were_behind_the_next_reading_asks_them_again(
    cluster: FakeCluster, watch: LastCoordinators, trouble: str, ends: str
) -> None:
    setattr(cluster, trouble, {1, 2})
    if ends == "meanwhile":
        cluster.script.after("list_groups", getattr(cluster, trouble).clear)
    assert not read(cluster, watch).complete
    getattr(cluster, trouble).clear()

    assert read(cluster, watch).complete


def test_a_second_reading_begins_as_the_first_one_has_left_them(
    cluster: FakeCluster, watch: LastCoordinators
) -> None:
    first = read(cluster, watch)
    assert first.complete
    cluster.script.calls.clear()

    assert reread(cluster, first, watch).complete
    assert cluster.script.apis.count("coordinator_state") == 1


def test_a_later_reading_asks_once_only_whether_coordinators_are_at_work(
    cluster: FakeCluster, watch: LastCoordinators
) -> None:
    read(cluster, watch)
    cluster.script.calls.clear()

    assert read(cluster, watch).complete
    asked = [api for api in cluster.script.apis if api.startswith("coordinator")]
    assert asked == ["coordinators_since", "coordinator_state"]


def test_where_coordinators_may_not_be_asked_an_earlier_reading_proves_nothing(
    cluster: FakeCluster, watch: LastCoordinators
) -> None:
    watch.last = replace(cluster.coordinator_state(), not_at_work=(0, 1, 2, 3), may_ask=False)

    assert watch.before(cluster) == cluster.coordinator_state()


@pytest.mark.parametrize("right", ["may_describe_cluster", "may_describe_offsets"])
def test_rights_are_asked_for_before_each_listing(
    cluster: FakeCluster, watch: LastCoordinators, right: str
) -> None:
    read(cluster, watch)
    setattr(cluster, right, False)
    cluster.script.after("list_groups", lambda: setattr(cluster, right, True))

    assert not read(cluster, watch).complete


def test_a_coordinator_that_moves_between_the_two_readings_makes_the_second_incomplete(
    cluster: FakeCluster, watch: LastCoordinators
) -> None:
    first = read(cluster, watch)
    move_coordinator(cluster)

    moved = reread(cluster, first, watch)

    assert moved.problems == ("group coordinators moved while the groups were listed",)


def test_two_clusters_in_one_listing_end_it(cluster: FakeCluster, watch: LastCoordinators) -> None:
    def another_answers() -> None:
        cluster.id = "another"

    cluster.script.after("list_groups", another_answers)

    with pytest.raises(OtherCluster):
        read(cluster, watch)


def test_a_census_that_failed_leaves_nothing_to_rely_on(
    cluster: FakeCluster, watch: LastCoordinators
) -> None:
    read(cluster, watch)
    before = cluster.coordinator_state()
    cluster.fence_broker(2)
    cluster.kill_broker(1)

    census = with_completeness(read_groups(cluster), cluster, before, watch, lambda _: None)

    assert census.problems
    assert watch.last is None


def test_the_last_look_at_the_coordinators_comes_after_the_listing_has_settled(
    cluster: FakeCluster, watch: LastCoordinators
) -> None:
    waits: list[float] = []
    before = cluster.coordinator_state()
    census = read_groups(cluster)

    with_completeness(census, cluster, before, watch, waits.append)

    assert waits == [census.listed_at + STANDSTILL_S]
    assert cluster.script.apis[-1] == "coordinator_state"


def test_where_coordinators_may_not_be_asked_they_must_stand_still_for_longer(
    cluster: FakeCluster, watch: LastCoordinators
) -> None:
    unproved = replace(cluster.coordinator_state(), not_at_work=(0, 1, 2, 3), may_ask=False)

    assert problems(unproved, unproved) == ()
    assert watch.seconds_to_wait(unproved) == LONG_STANDSTILL_S


def test_brokers_that_do_not_agree_who_coordinates_make_the_listing_incomplete(
    cluster: FakeCluster,
) -> None:
    state = cluster.coordinator_state()
    partition, leader, epoch = min(state.leaders)
    torn = replace(state, leaders=state.leaders | {(partition, leader + 1, epoch + 1)})

    assert problems(state, state) == ()
    assert problems(torn, torn) == ("group coordinators moved while the groups were listed",)
