"""The ledger's operator lets go of one guest after another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from devkit.ledger import stage as stages
from devkit.ledger.book import Book
from devkit.ledger.stage import Stage
from tests.support.waiting import eventually


class Daemon:
    """It has seen only one group. Whenever it is asked how many, it has made one more cycle."""

    def __init__(self, seen: str) -> None:
        self.seen, self.cycles = seen, 0

    @property
    def complete_cycles(self) -> int:
        self.cycles += 1
        return self.cycles

    def forget(self, group: str) -> bool:
        return group == self.seen


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """On a cluster whose groups can be removed at once."""
    monkeypatch.setattr(stages, "FORGET_AGAIN_SECONDS", 0.01)
    cluster = SimpleNamespace(
        kafka=SimpleNamespace(bootstrap_servers="not asked"), remove_group=lambda _: None
    )
    made = Stage(cast(Any, cluster), Book(), "a seed", tmp_path, topics=(), groups=())
    yield made
    made.stop_reading()


def test_a_group_that_the_daemon_never_saw_does_not_keep_the_next_one_from_being_forgotten(
    stage: Stage,
) -> None:
    for group in ("missed", "seen"):
        stage.let_go(group, cast(Any, Daemon("seen")))

    eventually(lambda: not stage.goers)
    assert stage.book.counts["groups forgotten"] == 1


def test_an_operator_who_breaks_down_is_told(stage: Stage) -> None:
    stage.let_go("seen", cast(Any, SimpleNamespace(complete_cycles=1)))  # it can't forget

    eventually(lambda: not stage.goers)
    (told,) = stage.troubles()
    assert "has no attribute 'forget'" in told
