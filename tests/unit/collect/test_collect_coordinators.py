"""When a reading waits for coordinators to stand still, and what it may skip."""

from __future__ import annotations

import pytest

from retentiond.collect.census import SETTLE_S, CoordinatorWatch, completed, take_census
from retentiond.collect.gather import gather
from retentiond.collect.snapshot import Snapshot
from retentiond.config import Config
from tests.fakes.cluster import FakeCluster
from tests.fakes.world import OFFSETS_TOPIC

CONFIG = Config.model_validate(
    {
        "kafka": {"bootstrap.servers": "localhost:9092"},
        "topics": [{"name": "orders", "retention.commitoffset.enable": True}],
    }
)


@pytest.fixture
def cluster() -> FakeCluster:
    cluster = FakeCluster(brokers=2)
    cluster.create_topic("orders")
    cluster.commit("billing", {("orders", 0): 0})
    return cluster


@pytest.fixture
def watch() -> CoordinatorWatch:
    return CoordinatorWatch()


def read(cluster: FakeCluster, watch: CoordinatorWatch) -> Snapshot:
    return gather(cluster, CONFIG, cluster.now_ms, watch=watch, wait_until=lambda _: None)


def move_coordinator(cluster: FakeCluster) -> None:
    leader = cluster.partition(OFFSETS_TOPIC, 0).leader
    cluster.move_leader(OFFSETS_TOPIC, 0, to=2 if leader == 1 else 1)


def test_a_first_reading_waits_until_the_coordinators_have_stood_still(
    cluster: FakeCluster, watch: CoordinatorWatch
) -> None:
    assert watch.seconds_to_settle(cluster.coordinator_state()) == SETTLE_S


def test_a_reading_that_finds_them_as_the_last_one_left_them_need_not_wait(
    cluster: FakeCluster, watch: CoordinatorWatch
) -> None:
    assert read(cluster, watch).complete

    assert watch.seconds_to_settle(cluster.coordinator_state()) == 0


def test_a_coordinator_that_moved_between_two_readings_is_waited_for(
    cluster: FakeCluster, watch: CoordinatorWatch
) -> None:
    read(cluster, watch)
    move_coordinator(cluster)

    assert watch.seconds_to_settle(cluster.coordinator_state()) == SETTLE_S


def test_after_a_move_during_a_reading_the_next_one_waits_although_nothing_moves_any_more(
    cluster: FakeCluster, watch: CoordinatorWatch
) -> None:
    read(cluster, watch)
    cluster.script.after("list_groups", lambda: move_coordinator(cluster))

    assert not read(cluster, watch).complete
    assert watch.seconds_to_settle(cluster.coordinator_state()) == SETTLE_S


def test_a_census_that_failed_leaves_nothing_to_rely_on(
    cluster: FakeCluster, watch: CoordinatorWatch
) -> None:
    read(cluster, watch)
    before = cluster.coordinator_state()
    cluster.fence_broker(2)
    cluster.kill_broker(1)

    census = completed(take_census(cluster), cluster, before, watch, lambda _: None)

    assert census.problems
    assert watch.last is None


def test_the_last_look_at_the_coordinators_comes_after_the_listing_has_settled(
    cluster: FakeCluster, watch: CoordinatorWatch
) -> None:
    waits: list[float] = []
    before = cluster.coordinator_state()
    census = take_census(cluster)

    completed(census, cluster, before, watch, waits.append)

    assert waits == [census.listed_at + SETTLE_S]
    assert cluster.script.apis[-1] == "coordinator_state"
