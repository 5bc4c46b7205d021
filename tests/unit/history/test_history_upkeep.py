"""Days that become one file, and those that go."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow.compute as pc
import pytest

from retentiond.errors import HistoryUnavailable
from retentiond.history import upkeep
from retentiond.history.table import HistoryFile, HistoryTable
from tests.support.builders.histories import (
    CLUSTER,
    DAY_MS,
    MINUTE_MS,
    Cycles,
    World,
    dataset_in,
    entries_in,
    rows_in,
)


def file(day: str, first: int, last: int) -> HistoryFile:
    return HistoryFile(f"day={day}/{first}", day, CLUSTER, first, last, 1, 100)


def test_which_files_are_put_together() -> None:
    small = [file("2026-01-02", number, number) for number in range(3, 3 + upkeep.SMALL_FILES)]
    over = [file("2026-01-01", 1, 1), file("2026-01-01", 2, 2)]
    assert upkeep.to_merge([*over, *small], "2026-01-02") == over
    assert upkeep.to_merge([file("2026-01-01", 1, 2), *small], "2026-01-02") == small
    assert upkeep.to_merge([file("2026-01-02", 1, 2), *small[1:]], "2026-01-02") == []
    assert upkeep.to_merge([], "2026-01-02") == []


@pytest.mark.parametrize("rows_at_a_time", [1, 4, 1000])
def test_the_order_is_the_same_however_few_rows_are_sorted_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_at_a_time: int
) -> None:
    monkeypatch.setattr(upkeep, "SLICE_ROWS", rows_at_a_time)
    topics = ("a", "b'; --", "ü")
    world = World(partitions={(topic, at): 9 for topic in topics for at in range(3)})
    cycles = Cycles(str(tmp_path), merge=upkeep.merge)
    for offset in range(3):
        world.commits = {(group, *at): offset for at in world.partitions for group in ("x", "y")}
        cycles.one(world)
    before = rows_in(tmp_path)
    cycles.one(World(), ahead_ms=DAY_MS)
    assert cycles.told == []
    table = HistoryTable.open(tmp_path)
    (day, _) = table.files()
    of_day = pc.field("day") == day.day
    rows = dataset_in(tmp_path).to_table(filter=of_day).to_pylist()
    keys = [
        [str(row[name] or "") for name in ("kind", "topic", "partition", "group", "entry")]
        for row in rows
    ]
    assert keys == sorted(keys)
    assert sorted(map(str, rows)) == sorted(map(str, before))


def test_days_that_are_too_old_go(tmp_path: Path) -> None:
    cycles = Cycles(str(tmp_path), merge=upkeep.merge, keep="3d")
    for day in range(6):
        cycles.elapsed_ms += 60 * MINUTE_MS
        cycles.one(World(), ahead_ms=day * DAY_MS)
    assert cycles.told == []
    assert [each.cycle["entry"] for each in entries_in(tmp_path)] == [3, 4, 5, 6]


def test_the_oldest_days_go_where_there_are_too_many_bytes(tmp_path: Path) -> None:
    free = Cycles(str(tmp_path / "free"), merge=upkeep.merge)
    free.one(World())
    of_a_day = free.keeper.status.bytes
    assert of_a_day is not None
    cycles = Cycles(str(tmp_path / "bound"), merge=upkeep.merge, max_bytes=int(of_a_day * 2.5))
    for day in range(5):
        cycles.elapsed_ms += 60 * MINUTE_MS
        cycles.one(World(), ahead_ms=day * DAY_MS)
    assert cycles.told == []
    assert [each.cycle["entry"] for each in entries_in(tmp_path / "bound")] == [4, 5]


def test_the_day_of_the_last_entry_stays(tmp_path: Path) -> None:
    cycles = Cycles(str(tmp_path), merge=upkeep.merge, max_bytes=1, keep="1s")
    cycles.one(World())
    cycles.elapsed_ms += 60 * MINUTE_MS
    cycles.one(World(), ahead_ms=-3 * DAY_MS)
    assert cycles.told == []
    assert [each.cycle["entry"] for each in entries_in(tmp_path)] == [2]


@pytest.mark.long
def test_a_merge_that_fails_is_told_and_tried_again_later(tmp_path: Path) -> None:
    asked: list[int] = []

    def merge(*_: object) -> None:
        asked.append(cycles.elapsed_ms)
        raise HistoryUnavailable("it can't be put together", kind="merge")

    cycles = Cycles(str(tmp_path), merge=merge)
    for _ in range(2):
        cycles.one(World())
    for _ in range(20):
        cycles.one(World(), ahead_ms=DAY_MS)
    assert [str(each) for each in cycles.told] == ["it can't be put together"]
    assert cycles.keeper.status.problem == "it can't be put together"
    assert cycles.keeper.status.failures == 2
    first, second = asked
    assert second - first == 60 * MINUTE_MS
    assert len(list(entries_in(tmp_path))) == 22


def test_the_end_of_a_problem_is_told_once_the_day_is_merged(tmp_path: Path) -> None:
    problems = [HistoryUnavailable("it can't be put together", kind="merge")]

    def merge(table: HistoryTable, cluster_id: str, files: Sequence[HistoryFile]) -> None:
        if problems:
            raise problems[0]
        upkeep.merge(table, cluster_id, files)

    cycles = Cycles(str(tmp_path), merge=merge)
    for ahead_ms in (0, 0, DAY_MS):
        cycles.one(World(), ahead_ms=ahead_ms)
    del problems[:]
    cycles.one(World(), ahead_ms=DAY_MS)
    assert [each and str(each) for each in cycles.told] == ["it can't be put together"]
    cycles.elapsed_ms += 60 * MINUTE_MS
    cycles.one(World(), ahead_ms=DAY_MS)
    assert [each and str(each) for each in cycles.told] == ["it can't be put together", None]


def test_a_file_that_a_killed_merge_has_left_goes_once_nobody_writes_to_it(tmp_path: Path) -> None:
    cycles = Cycles(str(tmp_path))
    cycles.one(World())
    table = HistoryTable.open(tmp_path)
    (written,) = table.files()
    left, growing = (tmp_path / f"{written.path}#{number}" for number in (1, 2))
    for unfinished in (left, growing):
        unfinished.write_bytes(b"PAR1")
    hours_ago = time.time() - 2 * 3600
    os.utime(left, (hours_ago, hours_ago))
    table.vacuum(1)
    assert not left.exists()
    assert growing.exists()
    assert (tmp_path / written.path).exists()


@pytest.mark.long
def test_a_process_of_its_own_that_fails_says_why(tmp_path: Path) -> None:
    cycles = Cycles(str(tmp_path))
    for _ in range(2):
        cycles.one(World())
    table = HistoryTable.open(tmp_path)
    torn, _ = table.files()
    (tmp_path / torn.path).write_bytes(b"PAR1 and no more")
    cycles.one(World(), ahead_ms=DAY_MS)
    (told,) = cycles.told
    assert told is not None
    assert str(tmp_path) in str(told)
    assert len(HistoryTable.open(tmp_path).files()) == 3


@pytest.mark.long
def test_thousands_of_entries_stay_quick_to_open(tmp_path: Path) -> None:
    cycles = Cycles(str(tmp_path), merge=upkeep.merge)
    for _ in range(100):
        cycles.one(World())
    table = HistoryTable.open(tmp_path)
    assert len(table.files()) <= 2 * upkeep.SMALL_FILES
    checkpoints = sorted((tmp_path / "_delta_log").glob("*.checkpoint.parquet"))
    behind = [
        each
        for each in (tmp_path / "_delta_log").glob("*.json")
        if int(each.stem) > int(checkpoints[-1].name.partition(".")[0])
    ]
    assert len(behind) <= 20


def test_files_stay_where_not_all_of_their_rows_were_read(tmp_path: Path) -> None:
    cycles = Cycles(str(tmp_path))
    for _ in range(3):
        cycles.one(World())
    table = HistoryTable.open(tmp_path)
    before = table.files()
    first, _, third = before
    with pytest.raises(HistoryUnavailable, match="they stay as they are"):
        upkeep.merge(table, CLUSTER, [first, third])  # the rows between them are another file's
    assert HistoryTable.open(tmp_path).files() == before
    assert len([*tmp_path.rglob("day=*/*")]) == 3  # what was written of the merged one is gone


def test_a_host_that_starts_no_process_is_a_problem_until_the_next_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object, **__: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr("retentiond.history.upkeep.subprocess.Popen", refuses)
    cycles = Cycles(str(tmp_path))
    for ahead_ms in (0, 0, DAY_MS, DAY_MS):
        cycles.one(World(), ahead_ms=ahead_ms)
    (told,) = cycles.told
    assert told is not None
    assert (told.kind, "Cannot allocate memory" in str(told)) == ("merge", True)
    assert cycles.keeper.status.problem == str(told)


def test_the_problem_of_one_place_is_none_of_the_next(tmp_path: Path) -> None:
    def merge(*_: object) -> None:
        raise HistoryUnavailable("it can't be put together", kind="merge")

    cycles = Cycles(str(tmp_path / "one"), merge=merge)
    for ahead_ms in (0, 0, DAY_MS):
        cycles.one(World(), ahead_ms=ahead_ms)
    assert cycles.keeper.status.problem == "it can't be put together"
    history = cycles.keeper.config.history.model_copy(update={"path": str(tmp_path / "two")})
    cycles.keeper.config = cycles.keeper.config.model_copy(update={"history": history})
    cycles.one(World(), ahead_ms=DAY_MS)
    assert cycles.keeper.status.problem is None
