"""A member that hangs is killed and followed by another, and all that it has told is heard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import psutil
import pytest

from devkit.ledger.book import Book
from devkit.ledger.keeper import Keeper
from devkit.ledger.readers import Reader
from devkit.ledger.scenario import Group, Protocol, Topic, Writing
from tests.support.waiting import eventually

GROUP = Group("billing", (Topic("orders", 1, Writing.PLAIN, 0),), Protocol.CONSUMER)

READS = """
import signal, time
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
print("reads", flush=True)
while not asked:
    print(flush=True)
    time.sleep(0.05)
print("leaves", flush=True)
"""
# As librdkafka may: with Python's lock held, so that not even a handler of signals runs.
HANGS_IN_LEAVING = f"""{READS}
import ctypes
ctypes.PyDLL(None).sleep(3600)
"""
HANGS = """
import time
print("hangs\\nin the midst of a li", end="", flush=True)
time.sleep(3600)
"""
DIES = "import os; print('dies', flush=True); os.abort()"
FAILS = "print(1 / 0)"


class Kept(Keeper):
    """Its lives are pieces of Python, the last of them again and again."""

    kind: ClassVar[str] = "members"
    silent_seconds: ClassVar[float] = 3.0

    def __init__(self, folder: Path, *lives: str) -> None:
        self.book = Book()
        super().__init__("nowhere:9092", GROUP, self.book, "any", folder / "members.log")
        self.heard: list[str] = []
        self._lives = list(lives)

    def _command(self) -> list[str]:
        return ["-c", self._lives.pop(0) if len(self._lives) > 1 else self._lives[0]]

    def _live(self) -> None:
        for line in self._lines():
            if line and line not in self.heard[-1:]:
                self.heard.append(line)


class Broken(Reader):
    def _command(self) -> list[str]:
        return ["-c", FAILS]


@contextmanager
def kept(keeper: Kept) -> Iterator[None]:
    keeper.start()
    try:
        yield
    finally:
        keeper.stop()
        keeper.join()
    assert keeper.error is None


def test_a_member_leaves_when_it_is_asked_to(tmp_path: Path) -> None:
    keeper = Kept(tmp_path, READS)
    with kept(keeper):
        eventually(lambda: keeper.heard == ["reads"])
    assert keeper.heard == ["reads", "leaves"]
    assert not keeper.book.counts


def test_another_one_follows_when_all_are_to_calm_down(tmp_path: Path) -> None:
    keeper = Kept(tmp_path, READS)
    with kept(keeper):
        eventually(lambda: keeper.heard == ["reads"])
        keeper.calm_down()
        eventually(lambda: keeper.heard == ["reads", "leaves", "reads"])


@pytest.mark.long
def test_one_that_hangs_is_killed_and_counted_and_another_follows(tmp_path: Path) -> None:
    keeper = Kept(tmp_path, HANGS, READS)
    with kept(keeper):
        eventually(lambda: keeper.heard == ["hangs", "reads"])
    assert keeper.book.counts == {"members hung": 1}


@pytest.mark.long
def test_one_that_hangs_in_leaving_is_killed_and_counted(tmp_path: Path) -> None:
    keeper = Kept(tmp_path, HANGS_IN_LEAVING)
    with kept(keeper):
        eventually(lambda: keeper.heard == ["reads"])
    assert keeper.heard == ["reads", "leaves"]
    assert keeper.book.counts == {"members hung": 1}


@pytest.mark.long
def test_one_that_is_stopped_by_a_signal_is_killed_and_counted(tmp_path: Path) -> None:
    keeper = Kept(tmp_path, READS)
    with kept(keeper):
        eventually(lambda: keeper.heard == ["reads"])
        next(each for each in psutil.Process().children() if READS in each.cmdline()).suspend()
        eventually(lambda: keeper.book.counts["members hung"])


@pytest.mark.long
def test_one_that_dies_is_counted_and_another_follows(tmp_path: Path) -> None:
    keeper = Kept(tmp_path, DIES, READS)
    with kept(keeper):
        eventually(lambda: keeper.heard == ["dies", "reads"])
    assert keeper.book.counts == {"members died": 1}


def test_a_mistake_in_a_reader_is_no_death_but_an_error(tmp_path: Path) -> None:
    reader = Broken("nowhere:9092", GROUP, Book(), "any", tmp_path / "members.log")
    reader.start()
    assert "ended with exit code 1" in str(eventually(lambda: reader.error))
    assert "ZeroDivisionError" in (tmp_path / "members.log").read_text()
