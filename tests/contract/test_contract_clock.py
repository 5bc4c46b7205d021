"""The cluster tells its time, where the metadata are in Kafka (KRaft)."""

from __future__ import annotations

from tests.contract.driver import Driver

A_MINUTE_MS = 60_000


def test_the_cluster_tells_its_time(any_driver: Driver) -> None:
    time_ms = any_driver.kafka.cluster_time()
    if not any_driver.tells_time:
        assert time_ms is None
        return
    assert isinstance(time_ms, int)
    assert abs(time_ms - any_driver.now_ms) < A_MINUTE_MS
