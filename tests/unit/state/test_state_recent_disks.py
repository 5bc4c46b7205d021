"""The disks in the last minutes, as one process leaves them for the next."""

from __future__ import annotations

from pathlib import Path

import pytest

from retentiond.clock import Uptime
from retentiond.disks.log_dirs import LogDirCapacity
from retentiond.disks.recent import RecentDisks
from retentiond.state.state import read_recent_disks, write_recent_disks

HERE = (1, "/a")

SPACE = [LogDirCapacity(*HERE, 1000, 100)]


def reading(before: RecentDisks, log_bytes: int, at_ms: int, boot_id: str) -> RecentDisks:
    sizes = {("orders", 0, False): log_bytes, ("orders", 0, True): 7, ("clicks", 3, False): 9}
    return before.with_reading(SPACE, {HERE: sizes}, Uptime(boot_id, at_ms))


def test_a_restart_goes_on_with_the_stored_readings(tmp_path: Path) -> None:
    first = reading(RecentDisks(), 800, 0, "this-boot")
    write_recent_disks(tmp_path, first)
    second = reading(read_recent_disks(tmp_path), 500, 30_000, "this-boot")
    assert second.removed_bytes([HERE]) == 300
    write_recent_disks(tmp_path, second)
    third = reading(read_recent_disks(tmp_path), 500, 60_000, "this-boot")
    assert third == reading(second, 500, 60_000, "this-boot")
    assert reading(third, 500, 90_000, "a-later-boot").removed_bytes([HERE]) == 0


def test_without_a_reading_there_is_no_file(tmp_path: Path) -> None:
    write_recent_disks(tmp_path, reading(RecentDisks(), 800, 0, "this-boot"))
    write_recent_disks(tmp_path, RecentDisks("this-boot"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '["this-boot", [1]]',
        '["this-boot", [[1, "/a", [[1, 2, 3, 4]], {}]]]',
        '["this-boot", [[1, "/a", [], []]]]',
        '["this-boot", [[1, "/a", [], {"orders": [[0, 0]]}]]]',
        '["this-boot", [[1, "/a", [[1, 2, 3, 4, null]], {}]]]',
    ],
)
def test_stored_readings_that_can_not_be_understood_are_none(tmp_path: Path, text: str) -> None:
    assert read_recent_disks(tmp_path) == RecentDisks()
    (tmp_path / "recent_disks.json").write_text(text)
    assert read_recent_disks(tmp_path) == RecentDisks()
