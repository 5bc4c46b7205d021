"""What is read back is what a plain ledger of the cycles says, whatever happens in between."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given
from hypothesis import settings as runs
from hypothesis import strategies as st

from retentiond.history import upkeep
from retentiond.history.keeper import HistoryKeeper
from retentiond.model import TopicPartition
from tests.support.builders.histories import (
    DAY_MS,
    MINUTE_MS,
    START_MS,
    World,
    entries_in,
    settings,
)

GROUPS = ("billing", "search", "etl")
STATES = ("Stable", "Empty", "Vanished")


@dataclass
class Line:
    """What is to stand in the history after an entry."""

    at_ms: int
    cycle_id: str
    partitions: dict[tuple[str, int], str]  # the topic's id
    commits: dict[tuple[str, str, int], int]
    states: dict[str, str]
    readers: set[tuple[str, str]]
    deletions: list[tuple[str, str, int]]
    is_whole: bool
    observed_ms: int | None


@dataclass
class Life:
    """A daemon's cycles with their ledger. Time goes on by five minutes for each cycle."""

    folder: Path
    world: World = field(default_factory=World)
    lines: list[Line] = field(default_factory=list)
    cycles: int = 0
    ahead_ms: int = 0  # of the date
    pending: list[tuple[str, str, int]] = field(default_factory=list)
    elapsed_ms: int = 0
    last: tuple[int, str] | None = None  # the process's last entry: when, and its day
    keeper: HistoryKeeper | None = None

    def restart(self) -> None:
        self.keeper = HistoryKeeper(
            settings(self.folder), elapsed_ms=lambda: self.elapsed_ms, merge=upkeep.merge
        )
        self.pending, self.last = [], None

    def cycle(self, *, deletes: bool, fails: bool) -> None:
        assert self.keeper is not None
        self.cycles += 1
        self.elapsed_ms += 5 * MINUTE_MS
        at_ms = START_MS + self.elapsed_ms + self.ahead_ms
        cycle_id = f"cycle-{self.cycles}"
        deleted = [TopicPartition(*at) for at in sorted(self.world.partitions)] if deletes else []
        self.pending += [(cycle_id, *at) for at in deleted]
        self.keeper.see(self.world.seen(at_ms, cycle_id, deleted))
        with unwritable(self.folder) if fails else nothing():
            self.keeper.keep()
            assert self.keeper.finish(60)
        if fails:
            assert self.keeper.status.problem is not None
            return
        assert self.keeper.status.problem is None
        day = str(at_ms // DAY_MS)
        self.lines.append(
            Line(
                at_ms,
                cycle_id,
                {at: self.world.ids[at[0]] for at in self.world.partitions},
                {key: offset for key, offset in self.world.commits.items() if offset is not None},
                dict(self.world.states),
                self.world.known_readers(),
                self.pending,
                is_whole=self.last is None or self.last[1] != day,
                observed_ms=None if self.last is None else self.elapsed_ms - self.last[0],
            )
        )
        self.pending, self.last = [], (self.elapsed_ms, day)


@contextmanager
def nothing() -> Iterator[None]:
    yield


@contextmanager
def unwritable(folder: Path) -> Iterator[None]:
    """A file stands where the history's folder was."""
    place, aside = folder / "history", folder / "aside"
    had = place.exists()
    if had:
        place.rename(aside)
    place.write_text("not a folder")
    try:
        yield
    finally:
        place.unlink()
        if had:
            aside.rename(place)


def commits_of(draw: Any, world: World) -> dict[tuple[str, str, int], int | None]:
    keys = [(group, *at) for group in world.states for at in world.partitions]
    if not keys:
        return {}
    chosen = draw(st.lists(st.sampled_from(keys), unique=True, max_size=4))
    return {key: draw(st.none() | st.integers(0, 9)) for key in chosen}


def step(draw: Any, life: Life) -> None:
    world = life.world
    match draw(st.sampled_from(("cycle", "cycle", "cycle", "fail", "restart", "clock", "world"))):
        case "cycle":
            world.commits = commits_of(draw, world)
            life.cycle(deletes=draw(st.booleans()), fails=False)
        case "fail":
            life.cycle(deletes=draw(st.booleans()), fails=True)
        case "restart":
            life.restart()
        case "clock":
            life.ahead_ms += draw(st.sampled_from((-DAY_MS, -7 * MINUTE_MS, DAY_MS, 3 * DAY_MS)))
        case _:
            partitions = draw(st.sampled_from((1, 2, 3)))
            topics = draw(st.sampled_from((["orders"], ["clicks", "orders"], ["clicks"])))
            world.partitions = {(topic, at): 100 for topic in topics for at in range(partitions)}
            world.ids = {topic: draw(st.sampled_from(("id-1", "id-2"))) for topic in topics}
            world.states = {
                group: draw(st.sampled_from(STATES))
                for group in draw(st.lists(st.sampled_from(GROUPS), unique=True))
            }
            world.readers = {
                (group, topic) for group in world.states for topic in topics if draw(st.booleans())
            }
            world.commits = commits_of(draw, world)


SHOWN = {"Stable": "live", "Empty": "empty", "Vanished": "vanished"}


# Without shrinking: each example takes many files, so that it would take minutes.
@pytest.mark.long
@runs(max_examples=25, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(st.data())
def test_what_is_read_back_is_what_the_ledger_says(data: st.DataObject) -> None:
    folder = Path(tempfile.mkdtemp())
    patch = pytest.MonkeyPatch()
    patch.setattr(upkeep, "SMALL_FILES", 4)
    try:
        life = Life(folder)
        life.restart()
        for _ in range(data.draw(st.integers(4, 14))):
            step(data.draw, life)
        if life.lines:
            compare(life)
    finally:
        patch.undo()
        shutil.rmtree(folder)


def compare(life: Life) -> None:
    found = list(entries_in(life.folder / "history"))
    assert [each.cycle["entry"] for each in found] == list(range(1, len(life.lines) + 1))
    for entry, line in zip(found, life.lines, strict=True):
        assert entry.cycle["cycle_id"] == line.cycle_id
        assert entry.cycle["at"].timestamp() * 1000 == line.at_ms
        assert entry.cycle["is_whole"] == line.is_whole
        assert entry.cycle["observed_ms"] == line.observed_ms
        ids = {at: partition["topic_id"] for at, partition in entry.partitions.items()}
        assert ids == line.partitions
        assert entry.commits == line.commits
        assert entry.states == {group: SHOWN[state] for group, state in line.states.items()}
        assert entry.readers == line.readers
        assert sorted(entry.deletions) == sorted(line.deletions)
