"""``retentiond delete-records`` by the age of records."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.support.brokers.deleting import RECORDS, Bench

pytestmark = pytest.mark.broker

HOUR_MS = 3_600_000


def aged(bench: Bench, name: str) -> str:
    """Partition 0: four records of two hours ago, six of now; 1: ten old ones; 2: ten new ones."""
    now, old = bench.driver.now_ms, bench.driver.now_ms - 2 * HOUR_MS
    bench.driver.create_topic(name, 3)
    for partition, count in ((0, 4), (1, RECORDS), (2, 0)):
        times = [old] * count + [now] * (RECORDS - count)
        bench.driver.produce(name, times, partition)
    return name


def test_records_older_than_a_time_go_and_younger_ones_stay(bench: Bench, topic_name: str) -> None:
    name = aged(bench, topic_name)
    done = bench.run("--topic", name, "--older-than", "1h", "--yes")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        f"{name}-0  low watermark 4",
        f"{name}-1  low watermark 10",
        f"{name}-2  left out: nothing to delete: it begins at 0, and 0 is the bound",
        "2 partitions done, 0 failed, 1 left out",
    ]
    assert bench.log_starts(name, 3) == [4, 10, 0]


def test_a_time_without_a_zone_is_utc(bench: Bench, topic_name: str) -> None:
    name = aged(bench, topic_name)
    hour_ago = datetime.fromtimestamp((bench.driver.now_ms - HOUR_MS) / 1000, UTC)
    for zone in ("", "+00:00", "Z"):
        at = hour_ago.strftime("%Y-%m-%dT%H:%M:%S.000") + zone
        done, rows = bench.rows("--topic", name, "--to-datetime", at, "--dry-run")
        assert done.code == 0
        assert [(row["offset"], row["records"]) for row in rows] == [(4, 4), (10, 10), (None, 0)]
