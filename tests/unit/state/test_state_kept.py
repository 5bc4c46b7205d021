"""What one cycle leaves for the next one, over a restart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from retentiond.clock import Uptime
from retentiond.disks.freed import PendingFree
from retentiond.disks.log_dirs import LogDirCapacity, ReplicaKey
from retentiond.disks.recent import RecentDisks
from retentiond.disks.stuck import Stuck, StuckCause
from retentiond.errors import StateError
from retentiond.model import Reason, TopicPartition
from retentiond.state.state import KEPT_NAME, Held, Kept, KeptFile, LastComplete, read_kept

AT, HERE, NOW = TopicPartition("orders", 0), (1, "/a"), Uptime("this-boot", 0)

SPACE = [LogDirCapacity(*HERE, 1000, 100)]

SIZES = {HERE: {("orders", 0, False): 800, ("orders", 0, True): 7, ("clicks", 3, False): 9}}

KEPT = Kept(
    waiting=(AT, TopicPartition("clicks", 3)),
    awaited=(PendingFree("c1", ReplicaKey(AT, *HERE), "id", 0, 7, 700, 900, 9, 1_000),),
    under_pressure=frozenset({HERE, (2, "/a")}),
    recent_disks=RecentDisks().with_reading(SPACE, SIZES, NOW),
    stuck=(Stuck(*AT, StuckCause.REPLICA_GROWS, "broker 1 keeps 1 GiB of it"),),
    held=(Held("orders", Reason.NO_GROUP, 600.5, (0, 1)), Held("clicks", Reason.PAUSED, 0, (3,))),
    last_complete=LastComplete("cluster-a", 1_790_000_000_123),
)

VALUES = {name: getattr(KEPT, name) for name in Kept.__dataclass_fields__}


def test_without_a_file_nothing_is_kept(tmp_path: Path) -> None:
    assert read_kept(tmp_path / "none") == KeptFile(tmp_path).kept == Kept()


def test_what_was_written_is_read_and_the_rest_stays(tmp_path: Path) -> None:
    file = KeptFile(tmp_path)
    file.keep(**VALUES)
    assert read_kept(tmp_path) == file.kept == KEPT
    KeptFile(tmp_path).keep(waiting=(), held=())
    left = read_kept(tmp_path)
    assert (left.waiting, left.held) == ((), ())
    assert (left.awaited, left.recent_disks) == (KEPT.awaited, KEPT.recent_disks)


def test_what_has_not_changed_is_not_written_again(tmp_path: Path) -> None:
    file = KeptFile(tmp_path)
    file.keep(**VALUES)
    (tmp_path / KEPT_NAME).unlink()
    file.keep(waiting=KEPT.waiting)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["", "{", "[]", "null", "3", "[" * 100_000, "\udcff"])
def test_a_file_that_can_not_be_understood_is_as_good_as_none(tmp_path: Path, content: str) -> None:
    (tmp_path / KEPT_NAME).write_bytes(content.encode(errors="surrogateescape"))
    assert read_kept(tmp_path) == Kept()


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("waiting", [["orders"]]),
        ("waiting", "orders"),
        ("awaited", [["c", ["t", 0, 1], "id"]]),
        ("under_pressure", [[1]]),
        ("recent_disks", [1]),
        ("recent_disks", {"boot_id": "b", "uses": [[HERE, [[1, 2, 3, 4]]]]}),
        ("recent_disks", {"boot_id": "b", "sizes": [[HERE, [[["orders", 0], 7]]]]}),
        ("recent_disks", {"boot_id": "b", "sizes": {"1": {}}}),
        ("stuck", [["orders", "no_such_cause", "it stands"]]),
        ("held", [["orders", "no_such_reason", 1, [0]]]),
        ("held", [["orders", "no_group", -1, [0]]]),
        ("held", [["orders", "no_group", float("inf"), [0]]]),
        ("held", [["orders", "no_group", 1, 0]]),
        ("last_complete", ["cluster-a"]),
        ("last_complete", ["a", "b"]),
        ("last_complete", ["a", float("inf")]),
    ],
)
def test_a_value_that_can_not_be_understood_is_none_and_the_others_count(
    tmp_path: Path, name: str, stored: Any
) -> None:
    KeptFile(tmp_path).keep(**VALUES)
    written = json.loads((tmp_path / KEPT_NAME).read_bytes())
    (tmp_path / KEPT_NAME).write_text(json.dumps(written | {name: stored, "of_a_later_one": 1}))
    assert read_kept(tmp_path) == Kept(**VALUES | {name: getattr(Kept(), name)})


def test_what_can_not_be_written_is_an_error_and_counts_as_not_kept(tmp_path: Path) -> None:
    (tmp_path / f"{KEPT_NAME}.new").mkdir()
    file = KeptFile(tmp_path)
    with pytest.raises(StateError, match="a restart would not know what waits"):
        file.keep(**VALUES)
    assert file.kept == Kept()


def test_a_last_complete_cycle_that_is_still_to_come_is_none() -> None:
    """It would keep an alert silent until then."""
    last = KEPT.last_complete
    assert last is not None
    assert KEPT.complete_by(last.planned_at_ms) == last
    assert KEPT.complete_by(last.planned_at_ms - 1) is None
    assert Kept(last_complete=LastComplete("cluster-a", 0)).complete_by(1) is None


def test_a_restart_goes_on_with_the_recent_disks(tmp_path: Path) -> None:
    """As far as they can be dated."""

    def reading(before: RecentDisks, log_bytes: int, now: Uptime) -> RecentDisks:
        return before.with_reading(SPACE, {HERE: {("orders", 0, False): log_bytes}}, now)

    KeptFile(tmp_path).keep(recent_disks=reading(RecentDisks(), 800, NOW))
    second = reading(read_kept(tmp_path).recent_disks, 500, Uptime("this-boot", 30_000))
    assert second.removed_bytes([HERE]) == 300
    KeptFile(tmp_path).keep(recent_disks=second)
    third = reading(read_kept(tmp_path).recent_disks, 500, Uptime("this-boot", 60_000))
    assert third == reading(second, 500, Uptime("this-boot", 60_000))
    assert reading(third, 500, Uptime("a-later-boot", 90_000)).removed_bytes([HERE]) == 0
