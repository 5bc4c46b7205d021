"""When a log directory is under pressure, by what the brokers say of its space."""

from __future__ import annotations

import pytest

from retentiond.clock import Uptime
from retentiond.config.disks import DiskPressure
from retentiond.disks.freed import FreedProgress, PendingFree
from retentiond.disks.log_dirs import DiskReading, LogDirCapacity, ReplicaKey, disk_reading
from retentiond.disks.pressure import pressure
from retentiond.disks.recent import RecentDisks
from retentiond.kafka.interface import LogDir, LogDirs
from retentiond.model import Failure, TopicPartition

RULES = DiskPressure(below_free=20.0, until_free=25.0)

HERE = (1, "/a")


def under_pressure(
    *space: tuple[str, int, int], before: frozenset[tuple[int, str]] = frozenset()
) -> list[str]:
    reading = DiskReading(space=tuple(LogDirCapacity(1, *each) for each in space))
    return [each.log_dir for each in pressure(reading, RULES, before, FreedProgress()).log_dirs]


def test_it_begins_below_one_line_and_ends_at_another() -> None:
    assert under_pressure(("/a", 100, 20)) == []
    assert under_pressure(("/a", 100, 19)) == ["/a"]
    assert under_pressure(("/a", 100, 24), before=frozenset({HERE})) == ["/a"]
    assert under_pressure(("/a", 100, 25), before=frozenset({HERE})) == []


def test_while_it_lasts_something_is_needed_be_it_a_byte() -> None:
    """A quarter of 1001 bytes is 250.25."""
    space = (LogDirCapacity(1, "/a", 1001, 250),)
    (found,) = pressure(DiskReading(space=space), RULES, {HERE}, FreedProgress()).log_dirs
    assert (found.until_bytes, found.needed_bytes) == (251, 1)
    assert under_pressure(("/a", 1001, 251), before=frozenset({HERE})) == []


@pytest.mark.parametrize(
    "contradiction", [("/a", 0, 0), ("/a", 100, 101), ("/a", 100, -1), ("/a", -5, -9)]
)
def test_space_that_contradicts_itself_is_no_pressure(contradiction: tuple[str, int, int]) -> None:
    assert under_pressure(contradiction, before=frozenset({HERE})) == []


def test_what_is_not_known_now_is_no_pressure_and_is_not_forgotten() -> None:
    found = pressure(DiskReading(), RULES, {HERE}, FreedProgress())
    assert found.log_dirs == ()
    assert found.remembered == {HERE}
    space = (LogDirCapacity(1, "/a", 100, 24),)
    assert pressure(DiskReading(space=space), RULES, found.remembered, FreedProgress()).log_dirs


def test_what_is_on_its_way_off_counts_as_free() -> None:
    replica = ReplicaKey(TopicPartition("orders", 0), 1, "/a")
    awaited = PendingFree("cycle", replica, "id", 0, 9, 8, 50, 10, asked_at_ms=0)
    reading = DiskReading(space=(LogDirCapacity(1, "/a", 100, 10),))
    (found,) = pressure(reading, RULES, (), FreedProgress((awaited,))).log_dirs
    assert (found.awaited_bytes, found.needed_bytes) == (8, 7)
    freed = FreedProgress((awaited._replace(freed_bytes=8),))
    (found,) = pressure(reading, RULES, (), freed).log_dirs
    assert (found.awaited_bytes, found.needed_bytes) == (0, 15)


def test_directories_on_one_disk_await_the_same_bytes_and_end_together() -> None:
    replica = ReplicaKey(TopicPartition("orders", 0), 1, "/b")
    awaited = PendingFree("cycle", replica, "id", 0, 9, 8, 50, 10, asked_at_ms=0)
    space = tuple(LogDirCapacity(1, path, 100, 22) for path in ("/a", "/b"))
    recent = RecentDisks().with_reading(space, {each.key: {} for each in space}, Uptime("boot", 0))
    found = pressure(DiskReading(space=space), RULES, {HERE}, FreedProgress((awaited,)), recent)
    assert [each.awaited_bytes for each in found.log_dirs] == [8, 8]
    assert [each.disk_key for each in found.log_dirs] == [HERE, HERE]


def test_a_broker_that_does_not_answer_hides_no_pressure_on_the_others() -> None:
    full = LogDir("/a", (), total_bytes=100, usable_bytes=1)
    offline = LogDir("/b", failure=Failure("KAFKA_STORAGE_ERROR", "the disk is gone"))
    silent = Failure("REQUEST_TIMED_OUT", "no answer")
    read = disk_reading(LogDirs({1: silent, 2: (full, offline)}, {}), ())
    found = pressure(read, RULES, {HERE}, FreedProgress())
    assert [each.key for each in found.log_dirs] == [(2, "/a")]
    assert found.remembered == {HERE, (2, "/a")}
