"""When a log directory is full, by what the last day saw."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from retentiond.clock import Uptime
from retentiond.config.disks import DiskPressure
from retentiond.disks import broker_disks
from retentiond.disks.broker_disks import BrokerDisks, SpaceHistory, trend
from retentiond.disks.log_dirs import LogDirCapacity, LogDirKey
from retentiond.disks.recent import RecentDisks
from retentiond.kafka.interface import LogDirs
from retentiond.kafka.log_dirs import NOT_YET
from tests.support.builders.gather_worlds import config as policy
from tests.support.builders.gather_worlds import entry, healthy, snapshot
from tests.support.fakes import FakeCluster

HOUR_MS = 3_600_000
AT = (1, "/kafka")


def space(usable: int) -> list[LogDirCapacity]:
    return [LogDirCapacity(*AT, 10_000, usable)]


class Space:
    """The history of one boot."""

    def __init__(self) -> None:
        self.history = SpaceHistory()

    def until_full(
        self, space: list[LogDirCapacity], at_ms: int, boot_id: str = "this-boot"
    ) -> dict[LogDirKey, float]:
        now = Uptime(boot_id, at_ms)
        until_full = self.history.seconds_until_full(space, now)
        self.history = self.history.with_reading(space, now)
        return until_full


ELSEWHERE = LogDirCapacity(2, "/kafka", 10_000, 1000)


@pytest.mark.parametrize(
    ("readings", "full_s"),
    [
        ([(0, space(1000))], None),
        ([(0, space(1000)), (0.5, space(950))], None),  # too short to tell
        ([(0, space(1000)), (0.5, space(950)), (1, space(900))], 9 * 3600),
        # it does not fill
        ([(0, space(1000)), (1, space(1000))], None),
        ([(0, space(1000)), (1, space(1000)), (2, space(1500))], None),
        # it is full and stays so, though nothing is written any more
        *(([(hour, space(0)) for hour in range(hours)], 0) for hours in (1, 2, 30)),
        ([(0, space(0)), (1, [LogDirCapacity(*AT, 0, 0)])], None),  # a contradiction
        # a reading that failed, or a broker that does not answer, forgets nothing
        ([(0, space(1000)), (1, [])], None),
        ([(0, space(1000)), (1, []), (2, space(500))], 2 * 3600),
        ([(0, [*space(1000), ELSEWHERE]), (1, [ELSEWHERE])], None),
        (
            [(0, [*space(1000), ELSEWHERE]), (1, [ELSEWHERE]), (2, [*space(500), ELSEWHERE])],
            2 * 3600,
        ),
    ],
)
def test_it_goes_on_as_it_did(
    readings: list[tuple[float, list[LogDirCapacity]]], full_s: float | None
) -> None:
    disks = Space()
    for hour, read in readings:
        found = disks.until_full(read, int(hour * HOUR_MS))
    assert found == ({} if full_s is None else {AT: full_s})


def test_only_the_last_day_counts() -> None:
    disks = Space()
    usable = 100_000
    for hour in range(24):
        usable -= 1000
        disks.until_full(space(usable), hour * HOUR_MS)
    for hour in range(24, 49):
        usable -= 10
        full = disks.until_full(space(usable), hour * HOUR_MS)
    assert full == {AT: usable * 24 * 3600 / 240}


def test_a_directory_that_is_gone_for_a_day_is_forgotten() -> None:
    disks, elsewhere = Space(), ELSEWHERE
    disks.until_full([*space(1000), elsewhere], 0)
    disks.until_full([elsewhere], 25 * HOUR_MS)
    assert disks.history.readings == {elsewhere.key: [(25 * HOUR_MS, 1000)]}


def test_one_reading_in_ten_minutes_is_remembered() -> None:
    disks = Space()
    for at_ms in (0, 300_000, 599_999, 600_000):
        disks.until_full(space(1000), at_ms)
    assert disks.history.readings == {AT: [(0, 1000), (600_000, 1000)]}


def test_readings_of_another_boot_can_not_be_dated() -> None:
    disks = Space()
    disks.until_full(space(1000), 0, "an-earlier-boot")
    assert disks.until_full(space(500), HOUR_MS) == {}
    assert disks.history.readings == {AT: [(HOUR_MS, 500)]}


def sawtooth(fall: int, rise: int, steps: int = 144) -> list[tuple[int, int]]:
    """Free space that falls with each step, and rises with each twelfth."""
    free, points = 1_000_000, []
    for step in range(steps):
        free += (rise if step % 12 == 11 else 0) - fall
        points.append((step, free))
    return points


def test_the_trend_of_a_sawtooth_is_not_that_of_a_tooth() -> None:
    assert trend(sawtooth(300, 3600)) == 0
    assert trend(sawtooth(300, 3600)[:-5]) == 0
    assert trend(sawtooth(300, 3000)) == pytest.approx(-50)
    assert trend(sawtooth(300, 0)) == pytest.approx(-300)


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
