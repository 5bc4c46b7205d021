"""A damaged file of a history costs its own entries; a damaged log is told with what to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import copytree

import pytest

from retentiond.errors import HistoryUnavailable
from retentiond.history import upkeep
from retentiond.history.ask.past import Gap, Past, history_at, open_past
from retentiond.history.table import HistoryFile, HistoryTable
from tests.support.builders.histories import CLUSTER, DAY_MS, START_MS, Cycles, World, entries_in

Damage = Callable[[Path], object]

UNTIL_MS = START_MS + DAY_MS // 4


def middle_replaced(file: Path) -> None:
    sound = file.read_bytes()
    file.write_bytes(sound[:100] + b"x" * 200 + sound[300:])


def footer_replaced(file: Path) -> None:
    sound = file.read_bytes()
    file.write_bytes(sound[:-60] + bytes(52) + sound[-8:])


OF_A_FILE: dict[str, Damage] = {
    "truncated to nothing": lambda file: file.write_bytes(b""),
    "truncated in the middle": lambda file: file.write_bytes(file.read_bytes()[:4000]),
    "a footer of garbage": footer_replaced,
    "no footer": lambda file: file.write_bytes(file.read_bytes()[:-8] + b"garbage!"),
    "pages of garbage": middle_replaced,
    "missing": lambda file: file.unlink(),
}

OF_THE_LOG: dict[str, Damage] = {
    "truncated in the middle": lambda file: file.write_bytes(file.read_bytes()[:100]),
    "garbage": lambda file: file.write_bytes(bytes(range(256))),
    "missing": lambda file: file.unlink(),
}


def recorded(place: Path, entries: int = 5) -> tuple[Cycles, World]:
    cycles, world = Cycles(str(place), merge=upkeep.merge), World()
    for offset in range(entries):
        world.commits = {("billing", "orders", 0): offset}
        cycles.one(world)
    assert cycles.told == []
    return cycles, world


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five entries; a test that damages them takes a copy."""
    place = tmp_path_factory.mktemp("sound")
    recorded(place)
    return place


def file_of(place: Path, entry: int) -> Path:
    (found,) = (each for each in HistoryTable.open(place).files() if each.first_entry == entry)
    return place / found.path


def asked(place: Path) -> Past:
    return open_past(history_at(place), "local[1]", START_MS, UNTIL_MS)


def entries(past: Past) -> list[int]:
    return [each.entry.entry for each in past.timeline.moments]


@pytest.mark.parametrize("how", OF_A_FILE)
def test_a_damaged_file_costs_its_own_entries_and_its_time_is_a_gap(
    sound: Path, tmp_path: Path, how: str
) -> None:
    copytree(sound, tmp_path, dirs_exist_ok=True)
    whole = asked(tmp_path)
    file = file_of(tmp_path, 3)
    OF_A_FILE[how](file)
    table = history_at(tmp_path)
    open_past(table, "local[1]", START_MS, UNTIL_MS)
    table.find_damage()  # as after Spark has met a page that nobody read before
    past = open_past(table, "local[1]", START_MS, UNTIL_MS)
    assert entries(past) == [1, 2, 4, 5]
    assert [tmp_path / path for path in table.damaged] == [file]
    assert len(past.files) == 4
    second, _, fourth = (each.entry.at_ms for each in whole.timeline.moments[1:4])
    assert Gap(second, fourth) in past.timeline.gaps
    offsets = past.query(
        "SELECT committed_offset FROM history WHERE {within} AND kind = 'commit' ORDER BY 1"
    )
    assert offsets["committed_offset"].to_pylist() == [0, 1, 3, 4]


@pytest.mark.parametrize("entry", [1, 5])
def test_a_damaged_file_at_an_end_of_the_time_is_a_gap_too(
    sound: Path, tmp_path: Path, entry: int
) -> None:
    copytree(sound, tmp_path, dirs_exist_ok=True)
    OF_A_FILE["missing"](file_of(tmp_path, entry))
    timeline = asked(tmp_path).timeline
    if entry == 1:
        assert timeline.gaps[0] == Gap(START_MS, timeline.moments[0].entry.at_ms)
    else:
        assert timeline.gaps[-1] == Gap(timeline.moments[-1].entry.at_ms, UNTIL_MS)


def test_a_cluster_whose_only_file_is_damaged_is_known_all_the_same(tmp_path: Path) -> None:
    """Else a question would be answered for the other one, as if that were the only one."""
    recorded(tmp_path, 1)
    Cycles(str(tmp_path)).one(World(cluster_id="cluster-b"))
    OF_A_FILE["missing"](tmp_path / HistoryTable.open(tmp_path).files("cluster-b")[0].path)
    table = HistoryTable.open(tmp_path)
    found = table.query("SELECT DISTINCT cluster_id FROM history")
    assert found["cluster_id"].to_pylist() == [CLUSTER]
    assert table.clusters() == {CLUSTER, "cluster-b"}


def test_a_commit_of_the_log_that_a_power_cut_left_empty_costs_its_own_entry(
    tmp_path: Path,
) -> None:
    cycles, world = recorded(tmp_path)
    (tmp_path / "_delta_log" / f"{5:020}.json").write_bytes(b"")
    assert entries(asked(tmp_path)) == [1, 2, 3, 4]
    for _ in range(2):
        cycles.one(world)
    assert cycles.told == []
    found = list(entries_in(tmp_path))
    assert [(each.cycle["entry"], each.cycle["is_whole"]) for each in found[3:]] == [
        (4, False),
        (5, True),
        (6, False),
    ]


@pytest.mark.parametrize("how", OF_THE_LOG)
def test_a_damaged_log_is_told_with_what_to_do_and_is_left_as_it_is(
    tmp_path: Path, how: str
) -> None:
    place = tmp_path / "history"
    cycles, world = recorded(place)
    commit = place / "_delta_log" / f"{3:020}.json"
    OF_THE_LOG[how](commit)
    before = sorted(each.name for each in commit.parent.iterdir())
    with pytest.raises(HistoryUnavailable) as caught:
        history_at(place)
    assert str(caught.value).endswith(f"; move {place} aside, and a new history begins")
    for _ in range(2):
        cycles.one(world)
    assert [str(each) for each in cycles.told] == [str(caught.value)]  # once
    assert sorted(each.name for each in commit.parent.iterdir()) == before
    place.rename(tmp_path / "aside")
    cycles.one(world)
    assert cycles.keeper.status.problem is None
    assert entries(asked(place)) == [1]


@pytest.mark.parametrize("how", ["truncated in the middle", "missing"])
def test_a_damaged_file_of_a_day_that_is_over_is_told_without_a_question(
    tmp_path: Path, how: str
) -> None:
    _, world = recorded(tmp_path, 1)
    file = file_of(tmp_path, 1)
    OF_A_FILE[how](file)
    again = Cycles(str(tmp_path), keep="2d")
    for _ in range(2):
        again.one(world, ahead_ms=DAY_MS)
    (told,) = again.told  # once
    assert told is not None
    assert str(told).startswith(f"{file} of the history is left out: ")
    assert again.keeper.problem == str(told)
    again.elapsed_ms += DAY_MS // 24
    again.one(world, ahead_ms=9 * DAY_MS)
    assert again.told == [told, None]  # its day is too old
    assert again.keeper.status.failures == 0


@pytest.mark.long
@pytest.mark.parametrize("how", ["truncated to nothing", "a footer of garbage"])
def test_a_damaged_file_keeps_no_other_from_being_put_together(tmp_path: Path, how: str) -> None:
    cycles, world = Cycles(str(tmp_path)), World()
    for _ in range(3):
        cycles.one(world)
    OF_A_FILE[how](file_of(tmp_path, 2))
    for day in (1, 1, 2, 2):
        cycles.one(world, ahead_ms=day * DAY_MS)
    cycles.one(world, ahead_ms=3 * DAY_MS)
    found = [
        (each.day[-2:], each.first_entry, each.last_entry)
        for each in HistoryTable.open(tmp_path).files()
    ]
    assert ("21", 1, 3) in found  # of the sound ones of the day
    assert ("22", 4, 5) in found
    assert ("23", 6, 7) in found
    assert cycles.keeper.status.failures == 0
    assert "is left out" in (cycles.keeper.problem or "")
    entry = HistoryTable.open(tmp_path).query("SELECT DISTINCT entry FROM history ORDER BY 1")
    assert entry["entry"].to_pylist() == [1, 3, 4, 5, 6, 7, 8]


def test_a_day_that_can_not_be_put_together_keeps_no_other_waiting(tmp_path: Path) -> None:
    tried: list[str] = []

    def merge(table: HistoryTable, cluster_id: str, files: Sequence[HistoryFile]) -> None:
        tried.append(files[0].day)
        if files[0].day != "2026-09-21":
            upkeep.merge(table, cluster_id, files)

    cycles = Cycles(str(tmp_path), merge=merge)
    for day in (0, 0, 1, 1, 2, 2, 3, 3):
        cycles.one(World(), ahead_ms=day * DAY_MS)
    assert tried == ["2026-09-21", "2026-09-22", "2026-09-23"]


def test_a_day_of_a_shared_table_goes_although_a_file_of_it_is_damaged(tmp_path: Path) -> None:
    cycles, other = Cycles(str(tmp_path), keep="2d"), Cycles(str(tmp_path))
    cycles.one(World())
    cycles.one(World())
    other.one(World(cluster_id="cluster-b"))
    OF_A_FILE["missing"](file_of(tmp_path, 2))
    cycles.elapsed_ms += DAY_MS
    cycles.one(World(), ahead_ms=9 * DAY_MS)
    assert cycles.keeper.status.failures == 0
    table = HistoryTable.open(tmp_path)
    assert table.query("SELECT DISTINCT cluster_id, entry FROM history").num_rows == 2
    assert len(table.files("cluster-b")) == 1
