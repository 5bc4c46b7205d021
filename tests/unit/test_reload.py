"""A configuration that is read again, at a pace of its own."""

from __future__ import annotations

import queue
from collections.abc import Iterator

import pytest

from retentiond.config import Config
from retentiond.errors import ConfigError
from retentiond.reload import RELOAD_TIMEOUT_S, Reload
from tests.support.builders.daemons import settings
from tests.support.waiting import eventually


class Files:
    """What each reading finds once it is there."""

    def __init__(self) -> None:
        self.found: queue.SimpleQueue[Config | Exception] = queue.SimpleQueue()
        self.readings = 0
        self.taken: list[Config | ConfigError] = []
        self.now_s = 0.0
        self.reload = Reload(self._load, self.taken.append, self.taken.append, lambda: self.now_s)

    def _load(self) -> Config:
        self.readings += 1
        found = self.found.get()
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture
def files() -> Iterator[Files]:
    made = Files()
    yield made
    for _ in range(made.readings):  # nobody is left waiting
        made.found.put(ConfigError("the end"))


def test_whoever_asks_waits_for_no_file(files: Files) -> None:
    files.reload.begin()
    assert files.taken == []
    files.found.put(settings())
    eventually(lambda: files.taken == [settings()])


def test_what_is_asked_for_during_a_reading_follows_it_once(files: Files) -> None:
    changed = settings(dry_run=False)
    for _ in range(3):
        files.reload.begin()
    files.found.put(settings())
    files.found.put(changed)
    eventually(lambda: files.taken == [settings(), changed])
    assert files.readings == 2


def test_a_secret_that_does_not_come_is_given_up_and_its_late_answer_passed_over(
    files: Files,
) -> None:
    files.reload.begin()
    files.now_s += RELOAD_TIMEOUT_S
    files.reload.give_up_late()
    assert files.taken == []
    files.now_s += 1
    files.reload.give_up_late()
    (refusal,) = files.taken
    assert "could not be read within 30 s" in str(refusal)
    files.reload.begin()
    eventually(lambda: files.readings == 2)
    files.found.put(settings(dry_run=False))  # whoever of the two gets it
    files.found.put(settings(dry_run=False))
    eventually(lambda: files.taken[1:] == [settings(dry_run=False)])


def test_a_reading_that_breaks_is_refused(files: Files) -> None:
    files.reload.begin()
    files.found.put(RuntimeError("a bug"))
    eventually(
        lambda: [str(each) for each in files.taken] == ["it can't be read: RuntimeError('a bug')"]
    )
