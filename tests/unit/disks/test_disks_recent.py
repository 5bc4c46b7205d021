"""What has left the logs and not the disk, by the readings of the last minutes."""

from __future__ import annotations

import pytest

from retentiond.clock import Uptime
from retentiond.disks.log_dirs import LogDirCapacity, ReplicaKey
from retentiond.disks.recent import RecentDisks
from retentiond.model import TopicPartition

HERE = (1, "/a")

BOOT = "this-boot"


class Disk:
    """A disk of 1000 with one log, or none, and its readings."""

    def __init__(self) -> None:
        self.recent = RecentDisks()

    def on_its_way(
        self,
        log_bytes: int | None,
        usable: int,
        at_s: int,
        boot_id: str = BOOT,
        freed_bytes: int = 0,
    ) -> int:
        space = [LogDirCapacity(*HERE, 1000, usable)]
        logs = {} if log_bytes is None else {("orders", 0, False): log_bytes}
        now = Uptime(boot_id, 1000 * at_s)
        freed = {ReplicaKey(TopicPartition("orders", 0), *HERE): freed_bytes}
        self.recent = self.recent.with_reading(space, {HERE: logs}, now, freed)
        return self.recent.removed_bytes([HERE])


def disks_of(*readings: tuple[int, ...], size: int = 1_000_000_000) -> list[list[str]]:
    """The directories a, b, … of a broker, by disk; for each reading their usable bytes."""
    recent = RecentDisks()
    for at_s, reading in enumerate(readings):
        space = [
            LogDirCapacity(1, path, size, usable)
            for path, usable in zip("abc", reading, strict=False)
        ]
        recent = recent.with_reading(
            space, {log_dir.key: {} for log_dir in space}, Uptime(BOOT, 1000 * at_s)
        )
    return [[path for _, path in disk] for disk in recent.disks().values()]


@pytest.mark.parametrize(
    ("readings", "disks"),
    [
        ([(100_000_000, 100_009_000, 100_100_000)], [["a", "b"], ["c"]]),
        # equally full once
        ([(500_000, 900_000), (600_000, 800_000), (700_000, 700_000)], [["a"], ["b"]]),
        # the broker has looked at it slowly once
        ([(500_000, 500_000), (700_000, 700_000), (800_000, 900_000)], [["a", "b"]]),
        # what may be one disk is one
        ([(500_000, 900_000), (700_000, 700_000)], [["a", "b"]]),
        # a directory that was not read is on none
        ([(500_000, 500_000), (500_000,)], [["a"]]),
    ],
)
def test_directories_of_a_broker_on_one_disk_are_told_by_its_space(
    readings: list[tuple[int, ...]], disks: list[list[str]]
) -> None:
    assert disks_of(*readings) == disks


def test_disks_of_two_brokers_or_sizes_are_two() -> None:
    space = [LogDirCapacity(1, "/a", 1000, 9), LogDirCapacity(2, "/a", 1000, 9)]
    space.append(LogDirCapacity(1, "/b", 1001, 9))
    recent = RecentDisks().with_reading(space, {each.key: {} for each in space}, Uptime(BOOT, 0))
    assert len(recent.disks()) == 3


def test_what_has_left_the_logs_and_not_the_disk_is_on_its_way() -> None:
    disk = Disk()
    assert disk.on_its_way(800, 100, 0) == 0  # 100 lie beside the logs
    assert disk.on_its_way(500, 100, 30) == 300  # renamed, and still there
    assert disk.on_its_way(520, 80, 60) == 300  # as 20 were written
    assert disk.on_its_way(520, 280, 90) == 100  # two thirds are gone
    assert disk.on_its_way(520, 380, 120) == 0
    assert disk.on_its_way(None, 380, 150) == 520  # the topic was deleted


def test_a_log_that_is_written_to_while_it_shrinks_has_lost_what_was_found_freed() -> None:
    disk = Disk()
    assert disk.on_its_way(800, 100, 0) == 0
    assert disk.on_its_way(700, 0, 30, freed_bytes=200) == 200  # and 100 were written


def test_other_files_on_the_disk_are_not_taken_for_removed_segments() -> None:
    disk = Disk()
    assert disk.on_its_way(800, 100, 0) == 0
    assert disk.on_its_way(800, 40, 60) == 0  # 60 of something else
    assert disk.on_its_way(780, 40, 120) == 20
    assert disk.on_its_way(780, 40, 1200) == 0


def test_what_has_come_free_does_not_count_again() -> None:
    disk = Disk()
    assert disk.on_its_way(800, 100, 0) == 0
    assert disk.on_its_way(500, 100, 30) == 300
    assert disk.on_its_way(500, 300, 60) == 100
    assert disk.on_its_way(500, 150, 90) == 100  # another file
    assert disk.on_its_way(500, 400, 120) == 0
    assert disk.on_its_way(500, 100, 150) == 0  # another file, as large as what was removed
    assert disk.on_its_way(450, 100, 180) == 50


def test_a_file_that_is_written_and_removed_meanwhile_hides_nothing() -> None:
    """The log cleaner does that."""
    disk = Disk()
    assert disk.on_its_way(800, 100, 0) == 0
    assert disk.on_its_way(500, 100, 30) == 300
    assert disk.on_its_way(500, 60, 60) == 300
    assert disk.on_its_way(500, 100, 90) == 300


def test_readings_of_another_boot_can_not_be_dated() -> None:
    disk = Disk()
    assert disk.on_its_way(800, 100, 0) == 0
    assert disk.on_its_way(500, 100, 30, "a-later-boot") == 0


def test_a_reading_without_the_space_hides_nothing() -> None:
    disk = Disk()
    assert disk.on_its_way(800, 100, 0) == 0
    disk.recent = disk.recent.with_reading([], {HERE: {("orders", 0, False): 500}}, Uptime(BOOT, 1))
    assert disk.on_its_way(500, 100, 30) == 300
