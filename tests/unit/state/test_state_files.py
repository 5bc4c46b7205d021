"""Files of the state directory that are none: nothing waits for the other end of a pipe."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

import pytest

from retentiond.errors import StateError
from retentiond.state.audit_file import AUDIT_NAME, oldest_entry_s
from retentiond.state.groups_file import NAME as GROUPS_NAME
from retentiond.state.groups_lookup import recall
from retentiond.state.operator_actions import PAUSE_NAME, Pause, read_pause, write_pause
from retentiond.state.state import KEPT_NAME, Kept, open_state, read_kept, read_stored_state
from retentiond.state.state_dir import LOCK_NAME, connect, holder_of

pytestmark = pytest.mark.timeout(20)


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    with open_state(tmp_path):
        pass
    return tmp_path


def make_pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def make_device(path: Path) -> None:
    """What never ends."""
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


def make_folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


KINDS = (make_pipe, make_device, make_folder)


@pytest.mark.parametrize("make", KINDS)
def test_a_pause_that_is_no_file_pauses(state_dir: Path, make: type) -> None:
    make(state_dir / PAUSE_NAME)
    pause = read_pause(state_dir)
    assert pause is not None
    why = "Is a directory" if make is make_folder else "paused is no regular file"
    assert pause.reason == f"{state_dir / PAUSE_NAME} can't be read ({why})"


@pytest.mark.parametrize("make", KINDS)
def test_what_a_cycle_left_counts_as_nothing(state_dir: Path, make: type) -> None:
    make(state_dir / KEPT_NAME)
    assert read_kept(state_dir) == Kept()


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
def test_remembered_groups_that_are_no_file_are_lost(
    state_dir: Path, make: type, suffix: str
) -> None:
    make(state_dir / f"{GROUPS_NAME}{suffix}")
    assert "is no regular file" in str(recall(state_dir).lost)


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
def test_an_audit_log_that_is_no_file_is_refused(state_dir: Path, make: type, suffix: str) -> None:
    make(state_dir / f"{AUDIT_NAME}{suffix}")
    assert oldest_entry_s(state_dir) is None
    with pytest.raises(StateError, match="is no regular file"), open_state(state_dir):
        pass


@pytest.mark.parametrize("make", KINDS)
def test_a_lock_that_is_no_file_is_refused(state_dir: Path, make: type) -> None:
    make(state_dir / LOCK_NAME)
    assert holder_of(state_dir) is None
    with pytest.raises(StateError, match=r"lock is no regular file|Is a directory"):  # noqa: SIM117
        with open_state(state_dir):
            pass


@pytest.mark.parametrize("make", KINDS)
def test_what_is_written_in_place_of_a_file_is_refused(state_dir: Path, make: type) -> None:
    make(state_dir / f"{PAUSE_NAME}.new")
    with pytest.raises(StateError, match="so nothing is paused"):
        write_pause(state_dir, Pause("a test"))


@pytest.mark.parametrize(
    "name", [PAUSE_NAME, KEPT_NAME, GROUPS_NAME, AUDIT_NAME, LOCK_NAME, f"{KEPT_NAME}.new"]
)
def test_no_pipe_keeps_a_process_waiting(state_dir: Path, name: str) -> None:
    make_pipe(state_dir / name)
    read_stored_state(state_dir)
    with suppress(StateError), open_state(state_dir) as state:
        state.pause()
        state.kept_file.keep(waiting=())


def test_a_database_that_is_a_link_to_a_file_is_opened(state_dir: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(state_dir / AUDIT_NAME)
    connect(link, read_only=True).close()
    with pytest.raises(sqlite3.Error):
        connect(tmp_path / "nowhere.db", read_only=True)
