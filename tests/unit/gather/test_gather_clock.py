"""Two clocks: the earlier one says how old a record is."""

from __future__ import annotations

from typing import Any

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


@pytest.mark.parametrize(
    ("host_ms", "cluster_ms", "taken_ms", "retention_offset"),
    [
        (0, 0, 0, 4),
        (10 * HOUR_MS, 0, 0, 4),  # a host's clock that is ahead makes no record older
        (-10 * HOUR_MS, 0, -10 * HOUR_MS, 0),  # and one that is behind keeps more
        (0, -1, -1, 4),
        (0, -HOUR_MS, -HOUR_MS, 0),
        (HOUR_MS, None, HOUR_MS, 4),  # the cluster has no clock
    ],
)
def test_the_time_of_a_reading_is_the_earlier_of_both_clocks(
    host_ms: int, cluster_ms: int | None, taken_ms: int, retention_offset: int
) -> None:
    """Less the time at which the records came."""
    kafka = healthy()
    kafka.cluster_clock = None if cluster_ms is None else kafka.now_ms + cluster_ms
    taken = read(kafka, kafka.now_ms + host_ms)
    assert taken.taken_at_ms == kafka.now_ms + taken_ms
    assert partitions(taken)[ORDERS_0].retention_offset == retention_offset
    assert taken.complete


def test_how_old_records_without_a_timestamp_are_is_judged_by_the_same_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A host's clock that is ahead makes them no older."""
    kafka = healthy()
    look_up, told = kafka.offsets_at, list[int | None]()

    def offsets_at(times_ms: Any, logs: Any = None, now_ms: int | None = None) -> Any:
        told.append(now_ms)
        return look_up(times_ms, logs, now_ms)

    monkeypatch.setattr(kafka, "offsets_at", offsets_at)
    second_snapshot(kafka, read(kafka, kafka.now_ms + 10 * HOUR_MS), [ORDERS_0])
    assert told == [kafka.now_ms] * 2


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
