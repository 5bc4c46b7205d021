"""When an entry is written, what stands in it, and what is told where it can't be."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from retentiond.history.table import HistoryTable
from retentiond.model import TopicPartition
from tests.support.builders.histories import (
    MINUTE_MS,
    START_MS,
    Cycles,
    World,
    entries_in,
    rows_in,
    settings,
)

ORDERS_0 = TopicPartition("orders", 0)
AT = ("billing", "orders", 0)


def test_no_more_than_one_entry_in_an_interval_and_no_deletion_is_lost(tmp_path: Path) -> None:
    cycles, world = Cycles(str(tmp_path), interval="15m"), World()
    for _ in range(7):
        cycles.one(world, deleted=[ORDERS_0])
    found = list(entries_in(tmp_path))
    assert [each.cycle["observed_ms"] for each in found] == [None, 15 * MINUTE_MS, 15 * MINUTE_MS]
    assert [len(each.deletions) for each in found] == [1, 3, 3]
    (first,) = (row for row in rows_in(tmp_path) if row["kind"] == "deletion" and row["entry"] == 1)
    assert (first["cutoff"], first["records"], first["outcome"]) == (5, 5, "deleted")


def test_time_passes_from_the_begin_of_a_cycle_to_that_of_the_next(tmp_path: Path) -> None:
    """Else records would be older than they were when a long cycle judged them."""
    cycles, world = Cycles(str(tmp_path)), World()
    for took_ms in (60_000, 1_000):
        cycles.elapsed_ms += 5 * MINUTE_MS
        seen = world.seen(START_MS + cycles.elapsed_ms)
        cycles.keeper.see(replace(seen, took_ms=took_ms, read_ms=300))
        cycles.keeper.keep()
        assert cycles.keeper.finish(60)
    found = [each.cycle for each in entries_in(tmp_path)]
    assert [each["observed_ms"] for each in found] == [None, 5 * MINUTE_MS + 59_000]
    assert [each["read_ms"] for each in found] == [300, 300]


def test_a_cycle_that_begins_a_little_earlier_has_its_entry(tmp_path: Path) -> None:
    cycles = Cycles(str(tmp_path), interval="5m")
    cycles.one(World())
    cycles.elapsed_ms -= 1500
    cycles.one(World())
    assert len(list(entries_in(tmp_path))) == 2


def test_what_two_daemons_write_in_turn_counts_no_time_twice(tmp_path: Path) -> None:
    """What changed between the entries of one is not known, so each after another's is whole."""
    one, other, world = Cycles(str(tmp_path)), Cycles(str(tmp_path)), World()
    for cycles in (one, one, other, one, one, other):
        cycles.one(world)
    assert one.told == other.told == []
    found = [each.cycle for each in entries_in(tmp_path)]
    later = 5 * MINUTE_MS
    assert [each["entry"] for each in found] == [1, 2, 3, 4, 5, 6]
    assert [each["observed_ms"] for each in found] == [None, later, None, None, later, None]
    assert [each["is_whole"] for each in found] == [True, False, True, True, False, True]


def test_what_comes_while_an_entry_is_written_stands_in_the_next(tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    class Slow(HistoryTable):
        def append(self, cluster_id: str, entry: int, rows: object) -> None:
            begun.set()
            assert go_on.wait(30)
            super().append(cluster_id, entry, rows)

    cycles, world = Cycles(str(tmp_path)), World()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("retentiond.history.keeper.HistoryTable", Slow)
        cycles.keeper.see(world.seen(START_MS, "c1", [ORDERS_0]))
        cycles.keeper.keep()
        assert begun.wait(30)
        world.commits = {AT: 4}
        cycles.keeper.see(world.seen(START_MS + 1, "c2", [ORDERS_0]))
        cycles.keeper.keep()  # nothing: one is being written
        assert not cycles.keeper.finish(0)
        go_on.set()
        assert cycles.keeper.finish(30)
    world.commits = {AT: 6}
    cycles.one(world)
    first, second = entries_in(tmp_path)
    assert [each[0] for each in first.deletions] == ["c1"]
    assert [each[0] for each in second.deletions] == ["c2"]
    assert (first.commits, second.commits) == ({}, {AT: 6})


def test_an_entry_whose_answer_was_lost_is_not_told_twice(tmp_path: Path) -> None:
    class Silent(HistoryTable):
        def append(self, cluster_id: str, entry: int, rows: object) -> None:
            super().append(cluster_id, entry, rows)
            raise OSError("no answer")

    cycles, world = Cycles(str(tmp_path)), World(commits={AT: 1})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("retentiond.history.keeper.HistoryTable", Silent)
        cycles.one(world, deleted=[ORDERS_0])
    cycles.one(world)
    first, second = entries_in(tmp_path)
    assert (len(first.deletions), len(second.deletions)) == (1, 0)
    assert not second.cycle["is_whole"]


def test_nothing_is_kept_where_it_is_turned_off(tmp_path: Path) -> None:
    cycles = Cycles(str(tmp_path / "history"), enabled=False)
    cycles.one(World())
    assert not (tmp_path / "history").exists()


def test_a_problem_is_told_once_for_each_cause_and_its_end_once(tmp_path: Path) -> None:
    place = tmp_path / "history"
    place.write_text("in the way")
    cycles = Cycles(str(place))
    for _ in range(3):
        cycles.one(World())
    (told,) = cycles.told
    assert told is not None
    assert str(place) in str(told)
    status = cycles.keeper.status
    assert (status.failures, status.problem, status.written_at) == (3, str(told), None)
    place.unlink()
    cycles.one(World())
    cycles.one(World())
    assert cycles.told == [told, None]
    status = cycles.keeper.status
    assert (status.failures, status.problem) == (3, None)
    assert status.bytes == sum(each.size_bytes for each in HistoryTable.open(place).files())


@pytest.mark.parametrize("error", [ZeroDivisionError("a bug"), SystemExit(1), GeneratorExit()])
def test_whatever_ends_the_thread_is_counted_and_told(tmp_path: Path, error: BaseException) -> None:
    cycles = Cycles(str(tmp_path))

    def fail(*_: object, **__: object) -> None:
        raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("retentiond.history.keeper.rows_of", fail)
        cycles.one(World())
    (told,) = cycles.told
    assert type(error).__name__ in str(told)
    assert "please report" in str(told)
    assert (cycles.keeper.status.failures, cycles.keeper.problem) == (1, str(told))


def test_a_panic_of_deltalake_is_counted_and_told(tmp_path: Path) -> None:
    """A link may lead elsewhere than when the configuration was read. A panic is no `Exception`."""
    place, misread = tmp_path / "history", tmp_path / "x[1]"
    cycles = Cycles(str(place))
    misread.mkdir()
    place.symlink_to(misread)
    cycles.one(World())
    (told,) = cycles.told
    assert "deltalake has failed: Invalid object store url" in str(told)
    assert (cycles.keeper.status.failures, cycles.keeper.problem) == (1, str(told))


def test_another_cluster_has_entries_of_its_own(tmp_path: Path) -> None:
    cycles, world = Cycles(str(tmp_path)), World()
    cycles.one(world, deleted=[ORDERS_0])
    world.cluster_id = "cluster-b"
    cycles.one(world)
    cycles.one(world)
    assert [each.cycle["entry"] for each in entries_in(tmp_path)] == [1]
    first, second = entries_in(tmp_path, "cluster-b")
    assert (first.cycle["is_whole"], first.cycle["observed_ms"]) == (True, None)
    assert first.deletions == second.deletions == []


def test_no_cycle_fails_of_what_it_leaves(tmp_path: Path) -> None:
    cycles = Cycles(str(tmp_path))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("retentiond.history.keeper.deletions_of", lambda _: 1 / 0)
        cycles.one(World())
    assert "please report" in str(cycles.told[0])
    assert cycles.keeper.problem == str(cycles.told[0])
    cycles.keeper.config = settings(tmp_path, enabled=False)
    assert cycles.keeper.problem is None
