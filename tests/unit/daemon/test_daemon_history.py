"""The daemon and its history: what is kept, told and left behind."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from retentiond.history.keeper import HistoryKeeper
from retentiond.history.table import HistoryTable
from retentiond.tell import logs
from retentiond.tell.report import CycleReport
from tests.support.builders.daemons import Bench, Step, live, settings
from tests.support.builders.histories import CLUSTER, START_MS, World, entries_in
from tests.support.builders.reports import report
from tests.support.waiting import eventually


def cycle(bench: Bench, at_ms: int = START_MS) -> Step:
    """One that leaves what it has seen with whoever keeps it."""

    def run() -> CycleReport:
        bench.engines[-1].finished = World().seen(at_ms, f"cycle-{at_ms}")
        return report()

    return run


def written(folder: Path) -> bool:
    return (folder / "_delta_log").exists() and bool(HistoryTable.open(folder).files(CLUSTER))


def test_a_cycle_leaves_an_entry_in_a_dry_run_too(tmp_path: Path) -> None:
    def play(bench: Bench) -> None:
        bench.tick(cycle(bench))
        eventually(lambda: written(tmp_path / "history"))
        eventually(lambda: "retentiond_history_bytes " in bench.get("/metrics").text)

    live(play, settings(tmp_path, history={}))
    (entry,) = entries_in(tmp_path / "history")
    assert entry.cycle["dry_run"]


def test_without_a_history_nobody_waits_for_its_next_entry(tmp_path: Path) -> None:
    """An alert tells that none was written for a day."""
    name, size = (
        f"\nretentiond_history_{each} " for each in ("last_write_timestamp_seconds", "bytes")
    )

    def play(bench: Bench) -> None:
        bench.tick(cycle(bench))
        eventually(lambda: size in metrics(bench))
        assert name in metrics(bench)
        bench.reload(settings(tmp_path, history={"enabled": False}))
        bench.tick(cycle(bench, START_MS + 1))
        assert name not in metrics(bench)
        assert size in metrics(bench)

    live(play, settings(tmp_path, history={}))


@pytest.mark.long
def test_what_is_wrong_is_in_the_detail_of_readiness_and_changes_nothing_else(
    tmp_path: Path,
) -> None:
    place = tmp_path / "history"
    place.write_text("in the way")

    def play(bench: Bench) -> None:
        for number in range(3):
            bench.tick(cycle(bench, START_MS + number))
            told = f"retentiond_history_failures_total {number + 1}"
            eventually(lambda told=told: told in metrics(bench))  # type: ignore[misc] # mypy's own limit
        answer = bench.get("/readyz")
        assert answer.status_code == 200
        assert answer.text.startswith("ready; the history in ")

    bench = live(play, settings(tmp_path, history={}))
    assert len(bench.events(logs.CYCLE)) == 3
    (told,) = bench.events(logs.HISTORY_FAILED)
    assert str(place) in told["error"]
    assert bench.finished


def metrics(bench: Bench) -> str:
    return bench.get("/metrics").text


@pytest.mark.long
def test_a_reload_moves_the_history_and_begins_it_anew_there(tmp_path: Path) -> None:
    def play(bench: Bench) -> None:
        bench.tick(cycle(bench))
        eventually(lambda: written(tmp_path / "history"))
        other = {"path": str(tmp_path / "other"), "interval": "1s"}
        bench.reload(settings(tmp_path, history=other))
        bench.tick(cycle(bench, START_MS + 1))

        def is_kept() -> bool:
            bench.tick(cycle(bench, START_MS + 2))
            return written(tmp_path / "other")

        eventually(is_kept)

    live(play, settings(tmp_path, history={}))
    assert len(list(entries_in(tmp_path / "history"))) == 1
    assert next(entries_in(tmp_path / "other")).cycle["is_whole"]


def test_no_entry_begins_after_the_end_has_waited_for_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interpreter that ends while deltalake writes may crash."""
    begun, waited, order = threading.Event(), threading.Event(), []
    finish = HistoryKeeper.finish

    def keep(_: HistoryKeeper) -> None:
        begun.set()
        waited.wait(0.5)  # which it must not see
        order.append("begins")

    def noted_finish(keeper: HistoryKeeper, patience_s: float) -> bool:
        order.append("waits")
        waited.set()
        return finish(keeper, patience_s)

    monkeypatch.setattr(HistoryKeeper, "keep", keep)
    monkeypatch.setattr(HistoryKeeper, "finish", noted_finish)
    ticks: list[threading.Thread] = []

    def play(bench: Bench) -> None:
        ticks.append(threading.Thread(target=bench.tick, args=(cycle(bench),)))
        ticks[0].start()
        assert begun.wait(60)

    live(play, settings(tmp_path, history={}))
    ticks[0].join(60)
    assert order == ["begins", "waits"]
