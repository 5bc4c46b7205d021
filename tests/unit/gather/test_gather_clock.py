"""Two clocks: the earlier one says how old a record is."""

from __future__ import annotations

import pytest

from retentiond.gather.gather import gather
from retentiond.model import Failure
from retentiond.snapshot import Snapshot
from tests.support.builders.gather_worlds import (
    HOUR_MS,
    ORDERS_0,
    config,
    healthy,
    partitions,
    second_snapshot,
)
from tests.support.fakes import FakeCluster

UNREADABLE = Failure("NOT_LEADER_OR_FOLLOWER", "no controller")


def read(kafka: FakeCluster, host_ms: int) -> Snapshot:
    return gather(kafka, config(), host_ms, wait_until=lambda _: None)


def test_a_host_clock_that_is_ahead_makes_no_record_older() -> None:
    kafka = healthy()
    honest = read(kafka, kafka.now_ms)
    ahead = read(kafka, kafka.now_ms + 10 * HOUR_MS)
    assert partitions(ahead) == partitions(honest)
    assert partitions(honest)[ORDERS_0].retention_offset == 4
    assert ahead.taken_at_ms == honest.taken_at_ms == kafka.now_ms


def test_a_host_clock_that_is_behind_keeps_more() -> None:
    kafka = healthy()
    behind = read(kafka, kafka.now_ms - 10 * HOUR_MS)
    assert partitions(behind)[ORDERS_0].retention_offset == 0
    assert behind.taken_at_ms == kafka.now_ms - 10 * HOUR_MS


def test_without_the_clusters_clock_the_hosts_counts() -> None:
    kafka = healthy()
    kafka.cluster_clock = None
    taken = read(kafka, kafka.now_ms + HOUR_MS)
    assert taken.taken_at_ms == kafka.now_ms + HOUR_MS
    assert taken.complete


def test_a_clock_that_fails_makes_the_reading_incomplete() -> None:
    kafka = healthy()
    kafka.cluster_clock = UNREADABLE
    assert read(kafka, kafka.now_ms).problems == (
        f"the cluster's clock could not be read ({UNREADABLE})",
    )


def test_a_second_reading_is_about_the_moment_of_the_first() -> None:
    kafka = healthy()
    first = read(kafka, kafka.now_ms - HOUR_MS)
    kafka.cluster_clock = UNREADABLE
    again = second_snapshot(kafka, first, [ORDERS_0])
    assert again.taken_at_ms == first.taken_at_ms
    assert again.complete


@pytest.mark.parametrize("ahead_ms", [0, 1, HOUR_MS])
def test_the_time_of_a_reading_is_never_later_than_either_clock(ahead_ms: int) -> None:
    kafka = healthy()
    kafka.cluster_clock = kafka.now_ms - ahead_ms
    assert read(kafka, kafka.now_ms).taken_at_ms == kafka.now_ms - ahead_ms
