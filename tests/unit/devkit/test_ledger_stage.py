"""The ledger's operator lets go of one guest after another."""

from __future__ import annotations

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


def test_a_group_that_the_daemon_never_saw_does_not_keep_the_next_one_from_being_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "FORGET_AGAIN_SECONDS", 0.01)
    removed: list[str] = []
    cluster = SimpleNamespace(
        kafka=SimpleNamespace(bootstrap_servers="not asked"), remove_group=removed.append
    )
    stage = Stage(cast(Any, cluster), Book(), "a seed", tmp_path, topics=(), groups=())

    for group in ("missed", "seen"):
        stage.let_go(group, cast(Any, Daemon("seen")))

    eventually(lambda: not stage.goers)
    assert removed == ["missed", "seen"]
    assert stage.book.counts["groups forgotten"] == 1
    stage.stop_reading()
