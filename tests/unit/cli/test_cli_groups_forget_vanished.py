"""``groups forget --pattern, --vanished-for``: many vanished groups, and none that lives."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from retentiond.errors import StateError
from retentiond.memory.readers import GroupOnTopic, RememberedReader
from retentiond.model import GroupKind
from retentiond.state.groups import GroupMemory
from retentiond.state.groups_lookup import recall
from retentiond.state.operator_actions import actions_in
from tests.support.builders.group_memories import add_readers
from tests.unit.cli.conftest import Command, Transcript

DAY_MS = 24 * 3_600_000

MANY = 3000


def remembered(state_dir: Path, group: str, topic: str = "orders", days: int | None = None) -> None:
    """``days``: for how long it was observed to be gone; None: it is there."""
    at = GroupOnTopic(group, topic)
    since_ms, absent_ms = (None, 0) if days is None else (1, days * DAY_MS)
    last = RememberedReader(GroupKind.CLASSIC, {0: 3}, since_ms, absent_ms=absent_ms)
    add_readers(state_dir, {at: last})


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    state_dir = tmp_path / "state"
    state_dir.mkdir()
    for group, days in (("pr-1", 40), ("pr-2", 10), ("pr-live", None), ("billing", 40)):
        remembered(state_dir, group, days=days)
    remembered(state_dir, "pr-moved", "clicks")
    remembered(state_dir, "pr-moved", "orders", days=40)
    return state_dir


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """No terminal to ask on."""
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))


def groups(state_dir: Path) -> set[str]:
    return {at.group_id for at in recall(state_dir).commits}


@pytest.mark.parametrize(
    ("arguments", "gone"),
    [
        (["--pattern", "pr-.*"], {"pr-1", "pr-2"}),
        (["--pattern", "pr-.*", "--vanished-for", "30d"], {"pr-1"}),
        (["--vanished-for", "30d"], {"pr-1", "billing"}),
        (["--pattern", "pr-1", "--pattern", "b.*"], {"pr-1", "billing"}),
    ],
)
def test_those_that_have_vanished_are_forgotten_and_none_that_lives(
    command: Command, config: Path, state_dir: Path, arguments: list[str], gone: set[str]
) -> None:
    before = groups(state_dir)
    done = command("groups", "forget", *arguments, "--yes", "--config", config)
    assert (done.code, done.err) == (0, "")
    assert before - groups(state_dir) == gone
    assert all(name in done.out for name in gone)
    living = "Not vanished, and so not forgotten: pr-live, pr-moved.\n"
    assert (living in done.out) is ("pr-.*" in arguments)
    assert {each.subject for each in actions_in(state_dir)} == gone


def test_without_a_terminal_it_shows_them_and_does_nothing(
    command: Command, config: Path, state_dir: Path
) -> None:
    before = groups(state_dir)
    done = command("groups", "forget", "--vanished-for", "30d", "--config", config)
    assert done.code == 2
    assert "billing" in done.out
    assert "there is no terminal to ask on; --yes does it without a question" in done.err
    assert groups(state_dir) == before
    assert not (state_dir / "audit.db").exists()


def test_what_is_wrong_forgets_nobody(
    transcript: Transcript, config: Path, state_dir: Path
) -> None:
    """tests/golden/groups."""
    before = groups(state_dir)
    for arguments in (
        [],
        ["x", "--pattern", "y"],
        ["--pattern", "("],
        ["--vanished-for", "a month"],
        ["--pattern", "nobody"],
    ):
        transcript.refused("groups", "forget", *arguments, "--yes", "--config", config)
    transcript("groups", "forget", "--pattern", "pr-live", "--yes", "--config", config)
    assert groups(state_dir) == before
    transcript.check("groups/refused.txt")


class Meanwhile(io.StringIO):
    """A terminal whose user answers yes, after something has happened."""

    def __init__(self, happens: Callable[[], object]) -> None:
        super().__init__("y\n")
        self._happens = happens

    def isatty(self) -> bool:
        return True

    def readline(self, *_: Any) -> str:  # type: ignore[override]  # as StringIO itself does
        self._happens()
        return super().readline()


@pytest.mark.parametrize("arguments", [["pr-1"], ["--pattern", "pr-1"]])
def test_it_is_forgotten_where_that_was_shown_and_on_no_topic_that_came_meanwhile(
    command: Command,
    config: Path,
    state_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
) -> None:
    seen = Meanwhile(lambda: remembered(state_dir, "pr-1", "payments", days=40))
    monkeypatch.setattr("sys.stdin", seen)
    assert command("groups", "forget", *arguments, "--config", config).code == 0
    assert [at.topic for at in recall(state_dir).commits if at.group_id == "pr-1"] == ["payments"]
    (action,) = actions_in(state_dir)
    assert (action.subject, action.detail) == ("pr-1", "on orders")


def test_one_that_comes_back_while_it_asks_is_not_recorded_as_forgotten(
    command: Command, config: Path, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Meanwhile(lambda: remembered(state_dir, "pr-1")))
    done = command("groups", "forget", "--pattern", "pr-[12]", "--config", config)
    assert "Seen again meanwhile, and so not forgotten: pr-1." in done.out
    assert {"pr-1", "pr-2"} & groups(state_dir) == {"pr-1"}
    assert [(each.action, each.subject) for each in actions_in(state_dir)] == [
        ("forget", "pr-1"),
        ("forget", "pr-2"),
        ("forget-withdrawn", "pr-1"),
    ]


@pytest.mark.parametrize("is_forgotten", [False, True])
def test_what_could_not_be_forgotten_is_not_recorded_as_forgotten(
    command: Command,
    config: Path,
    state_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_forgotten: bool,
) -> None:
    """What was forgotten before an error stays recorded."""
    forget = GroupMemory.forget

    def fails(*args: Any, **named: Any) -> None:
        if is_forgotten:
            forget(*args, **named)
        raise StateError("the disk is full")

    monkeypatch.setattr(GroupMemory, "forget", fails)
    assert command("groups", "forget", "pr-1", "--yes", "--config", config).code != 0
    withdrawn = [] if is_forgotten else ["forget-withdrawn"]
    assert [each.action for each in actions_in(state_dir)] == ["forget", *withdrawn]


def test_three_thousand_take_seconds_and_a_running_daemon_knows_it_at_once(
    command: Command, config: Path, state_dir: Path
) -> None:
    reader = RememberedReader(GroupKind.CLASSIC, {0: 3}, 1, absent_ms=1)
    jobs = {GroupOnTopic(f"job-{number}", "orders"): reader for number in range(MANY)}
    add_readers(state_dir, jobs)
    with closing(GroupMemory.open(state_dir)) as daemons:
        began = time.process_time()
        done = command("groups", "forget", "--pattern", "job-.*", "--yes", "--config", config)
        assert time.process_time() - began < 30
        assert "… and 2,980 more groups\n" in done.out
        assert done.out.endswith("3,000 groups are forgotten.\n")
        left = {at.group_id for at in daemons.recall().commits}
    assert left == {"pr-1", "pr-2", "pr-live", "pr-moved", "billing"}
