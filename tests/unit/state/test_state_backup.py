"""A copy of the state while somebody writes it."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import wrapt

from retentiond.errors import StateError, UsageError
from retentiond.state.audit_file import AUDIT_NAME
from retentiond.state.backup import back_up
from retentiond.state.groups import GroupMemory
from retentiond.state.groups_file import NAME as GROUPS_NAME
from retentiond.state.groups_lookup import recall
from retentiond.state.operator_actions import read_pause
from retentiond.state.state import open_state
from tests.support.builders.gather_worlds import healthy
from tests.support.builders.group_memories import cycle


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    state_dir = tmp_path / "state"
    with open_state(state_dir) as state:
        cycle(state.memory, healthy())
    return state_dir


def test_a_copy_knows_the_same_readers_and_is_paused(state_dir: Path, tmp_path: Path) -> None:
    assert back_up(state_dir, tmp_path / "copy") == (AUDIT_NAME, GROUPS_NAME, "paused")
    assert recall(tmp_path / "copy").commits == recall(state_dir).commits
    assert recall(tmp_path / "copy").commits
    assert "look before you resume" in str(read_pause(tmp_path / "copy"))
    assert read_pause(state_dir) is None


def test_only_its_owner_may_read_it(state_dir: Path, tmp_path: Path) -> None:
    back_up(state_dir, tmp_path / "copy")
    copy = tmp_path / "copy"
    assert {each.stat().st_mode & 0o077 for each in (copy, *copy.iterdir())} == {0}


def test_a_writer_at_work_tears_no_copy(state_dir: Path, tmp_path: Path) -> None:
    """Each transaction writes two rows; a copy never has one of them alone."""
    stop = threading.Event()
    with closing(sqlite3.connect(state_dir / AUDIT_NAME)) as log, log:
        log.execute("CREATE TABLE pairs (value INTEGER)")

    def write() -> None:
        with closing(sqlite3.connect(state_dir / AUDIT_NAME)) as log:
            value = 0
            while not stop.is_set():
                with log:
                    log.executemany("INSERT INTO pairs VALUES (?)", [(value,), (value,)])
                value += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        counts = []
        for number in range(5):
            back_up(state_dir, tmp_path / f"copy-{number}")
            with closing(sqlite3.connect(tmp_path / f"copy-{number}" / AUDIT_NAME)) as copy:
                counts += copy.execute("SELECT count(*) FROM pairs GROUP BY value").fetchall()
    finally:
        stop.set()
        writer.join()
    assert set(counts) <= {(2,)}


def test_nothing_is_written_over_and_nothing_half_is_left(state_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(UsageError, match="already exists"):
        back_up(state_dir, tmp_path / "there")
    (state_dir / GROUPS_NAME).write_bytes(b"no database at all")
    with pytest.raises(StateError, match="can't be copied"):
        back_up(state_dir, tmp_path / "copy")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["state", "there"]


def test_without_a_state_there_is_nothing_to_copy(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="there is nothing to back up"):
        back_up(tmp_path / "state", tmp_path / "copy")


def test_a_backup_without_the_remembered_groups_is_none(state_dir: Path, tmp_path: Path) -> None:
    for each in state_dir.glob(f"{GROUPS_NAME}*"):
        each.rename(each.with_name(f"{GROUPS_NAME}.damaged-1{each.suffix}"))
    with pytest.raises(StateError, match="the remembered groups are gone"):
        back_up(state_dir, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_memory_opens_from_the_copy(state_dir: Path, tmp_path: Path) -> None:
    back_up(state_dir, tmp_path / "copy")
    with closing(GroupMemory.open(tmp_path / "copy")) as memory:
        assert memory.recall().commits


def test_connections_that_a_tracing_tool_has_wrapped_are_copied(
    state_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenTelemetry's instrumentation puts a proxy of wrapt's in place of each connection."""
    connect = sqlite3.connect

    def traced(*arguments: Any, **named: Any) -> Any:
        return wrapt.ObjectProxy(connect(*arguments, **named))

    monkeypatch.setattr("sqlite3.connect", traced)
    back_up(state_dir, tmp_path / "copy")
    assert recall(tmp_path / "copy").commits == recall(state_dir).commits


def test_a_copy_keeps_the_write_ahead_log_and_the_schemas_number(
    state_dir: Path, tmp_path: Path
) -> None:
    """Without that log a reader would keep the daemon from writing."""
    back_up(state_dir, tmp_path / "copy")
    for name in (AUDIT_NAME, GROUPS_NAME):
        said = []
        for folder in (state_dir, tmp_path / "copy"):
            with closing(sqlite3.connect(folder / name)) as database:
                pragmas = ("journal_mode", "user_version", "auto_vacuum", "page_size")
                said.append([database.execute(f"PRAGMA {each}").fetchall() for each in pragmas])
        assert said[0] == said[1]
