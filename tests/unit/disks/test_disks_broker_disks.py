"""How old a reading of the disks may be."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from retentiond.clock import Uptime
from retentiond.config.disks import DiskPressure
from retentiond.disks import broker_disks
from retentiond.disks.broker_disks import BrokerDisks
from retentiond.disks.recent import RecentDisks
from retentiond.kafka.interface import LogDirs
from retentiond.kafka.log_dirs import NOT_YET
from tests.support.builders.gather_worlds import config as policy
from tests.support.builders.gather_worlds import entry, healthy, snapshot
from tests.support.fakes import FakeCluster

AT = (1, "/kafka")


def test_a_reading_that_has_grown_old_is_no_pressure(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the process stood still between its question and its decision."""
    now_ms = 0
    monkeypatch.setattr(broker_disks, "uptime", lambda: Uptime("the-host", now_ms))
    cluster = FakeCluster()
    cluster.usable_bytes[1] = 1
    taken = snapshot(healthy(), policy(entry("orders")))
    rules = DiskPressure(below_free=20.0, until_free=25.0)

    def pressed() -> list[tuple[int, str]]:
        found = disks.pressure(taken, rules, (), (), RecentDisks())
        return [each.key for each in found.log_dirs]

    disks = BrokerDisks()
    disks.begin(cluster)
    assert pressed() == [AT]
    now_ms = 61_000
    assert pressed() == []
    assert "more than 60 s" in str(disks.pressure(taken, rules, (), (), RecentDisks()).problem)
    disks.begin(cluster)
    assert pressed() == [AT]


def test_a_slow_broker_hides_the_pressure_of_no_other() -> None:
    """And what is reported is what was decided by."""

    class OneIsSlow(FakeCluster):
        def log_dirs(self, give_up: Callable[[], bool] = lambda: False) -> LogDirs:
            found = super().log_dirs()
            while not give_up():
                time.sleep(0.01)
            return LogDirs({**found.brokers, 2: NOT_YET}, found.assigned)

    cluster = OneIsSlow(brokers=2)
    cluster.usable_bytes |= {1: 1, 2: 1}
    taken = snapshot(healthy(), policy(entry("orders")))
    rules = DiskPressure(below_free=20.0, until_free=25.0)
    disks = BrokerDisks()
    disks.begin(cluster)
    found = disks.pressure(taken, rules, [(2, "/kafka")], (), RecentDisks())
    assert [each.key for each in found.log_dirs] == [AT]
    assert found.remembered == {AT, (2, "/kafka")}  # it was under pressure when last known
    reading = disks.reading(taken)
    assert [each.key for each in reading.space] == [AT]
    assert [each.partition(":")[0] for each in reading.problems] == [
        "the disks of broker 2 can't be read"
    ]
