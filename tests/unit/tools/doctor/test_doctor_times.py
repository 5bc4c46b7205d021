"""How long commits are kept, and whether the clocks agree."""

from __future__ import annotations

import pytest

from retentiond.model import Failure
from retentiond.tools.doctor.cluster import check_clocks, check_offsets_retention
from retentiond.tools.doctor.examine import clock_skew_ms
from retentiond.tools.doctor.finding import Level
from tests.support.builders.examined_clusters import bad, config, only, topic
from tests.support.fakes import FakeCluster

WEEK_MINUTES = str(7 * 24 * 60)

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(("hours", "is_short"), [(168, False), (169, True)])
def test_commits_must_be_kept_at_least_as_long_as_records(hours: int, is_short: bool) -> None:
    mine = config({"name": "orders", "retention.commitoffset.hours": hours})
    found = check_offsets_retention([topic("orders", mine)], {1: WEEK_MINUTES})
    assert bad(found) == ([(Level.WARNING, "topic orders")] if is_short else [])


def test_the_broker_that_keeps_commits_for_the_shortest_time_counts() -> None:
    mine = config({"name": "orders", "retention.commitoffset.hours": 2})
    found = only(check_offsets_retention([topic("orders", mine)], {1: WEEK_MINUTES, 2: "60"}))
    assert "expire after 1 hour (offsets.retention.minutes)" in found.sentence


def test_a_broker_that_does_not_tell_is_said_with_the_right_that_is_missing() -> None:
    mine = config({"name": "orders"})
    denied = Failure("CLUSTER_AUTHORIZATION_FAILED", "Cluster authorization failed.")
    found = only(check_offsets_retention([topic("orders", mine)], {1: denied}))
    assert found.level is Level.WARNING
    assert found.remedy is not None
    assert "DESCRIBE_CONFIGS on CLUSTER" in found.remedy


@pytest.mark.parametrize(
    ("skew_ms", "level"),
    [
        (0, Level.OK),
        (4_000, Level.OK),
        (6_000, Level.WARNING),
        (-6_000, Level.WARNING),
        (600_000, Level.PROBLEM),
        (-600_000, Level.PROBLEM),
    ],
)
def test_clocks_that_differ_are_told(skew_ms: int, level: Level) -> None:
    """Ahead by so much is this host."""
    (found,) = check_clocks(skew_ms)
    assert found.level is level
    assert ("ahead of" in found.sentence, "behind" in found.sentence) == (
        level is not Level.OK and skew_ms > 0,
        level is not Level.OK and skew_ms < 0,
    )


@pytest.mark.parametrize(
    ("cluster_ms", "skew_ms"), [(-7_000, 7_000), (0, 0), (20_000, 0), (26_000, -6_000)]
)
def test_the_time_that_the_answer_took_is_no_skew(cluster_ms: int, skew_ms: int) -> None:
    """It took 20 s."""
    cluster = FakeCluster()
    cluster.cluster_clock = NOW_MS + cluster_ms
    assert clock_skew_ms(cluster, iter([NOW_MS, NOW_MS + 20_000]).__next__) == skew_ms


def test_a_cluster_that_does_not_tell_its_time_is_said() -> None:
    found = only(check_clocks(None))
    assert found.level is Level.WARNING
