"""Files of the state directory that are none, for whose other end nothing waits, and files that
belong to another user."""

from __future__ import annotations

import os
import pwd
import sqlite3
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest

from retentiond.errors import StateError
from retentiond.state.audit_file import AUDIT_NAME, oldest_entry_s
from retentiond.state.groups_file import NAME as GROUPS_NAME
from retentiond.state.groups_lookup import recall
from retentiond.state.operator_actions import PAUSE_NAME, Pause, read_pause, write_pause
from retentiond.state.state import KEPT_NAME, Kept, open_state, read_kept, read_stored_state
from retentiond.state.state_dir import LOCK_NAME, connect, holder_of, say_denied
from tests.support.processes import run_python

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


AS_ANOTHER_USER = """
import os, sys
from pathlib import Path
from retentiond.errors import StateError
from retentiond.state.audit import Audit
from retentiond.state.backup import back_up
from retentiond.state.groups import GroupMemory
from retentiond.state.groups_lookup import recall

if os.getuid() == 0:
    os.setuid(65534)
state_dir = Path(sys.argv[1])
print(recall(state_dir).lost)
for use in (
    lambda: GroupMemory.open(state_dir),
    lambda: GroupMemory.open(state_dir, shared=True),
    lambda: Audit.open(state_dir),
    lambda: back_up(state_dir, state_dir / "backup"),
):
    try:
        use()
    except StateError as error:
        print(error)
"""


def test_a_database_of_another_user_says_whose_it_is_and_what_to_do() -> None:
    """Where the tests run as a user of their own, no other user's file can be made: there the file
    is not for its own user to read."""
    with TemporaryDirectory() as made:
        state_dir = Path(made)
        with open_state(state_dir):
            pass
        state_dir.chmod(0o777)
        for path in state_dir.iterdir():
            path.chmod(0o600 if os.getuid() == 0 else 0)

        memory, *others = run_python(AS_ANOTHER_USER, state_dir).stdout.splitlines()

    files = [state_dir / name for name in (GROUPS_NAME, GROUPS_NAME, AUDIT_NAME, AUDIT_NAME)]
    assert memory == f"the remembered groups in {files[0]} can't be read ({denied(files[0])})"
    assert [told.partition(denied(path))[1:] for told, path in zip(others, files, strict=True)] == [
        (denied(path), "") for path in files
    ]


def denied(path: Path) -> str:
    if os.getuid() != 0:
        return f"{path} may not be read or written by its own user; run `chmod u+rwX {path}`"
    nobody = pwd.getpwuid(65534).pw_name
    return (
        f"{path} belongs to user root, and retentiond runs as {nobody}; run it as root, or let it "
        f"own that (`chown {nobody} {path}`)"
    )


def test_a_folder_of_another_user_is_named_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with TemporaryDirectory() as made:
        path = Path(made) / AUDIT_NAME
        path.touch()
        may_use = {path: True, path.parent: False}
        monkeypatch.setattr(os, "access", lambda part, mode, **_: may_use[part])
        assert f"{path.parent} may not be read or written by its own user" in str(say_denied(path))
        may_use[path.parent] = True
        assert say_denied(path) is None


def test_a_file_system_that_is_mounted_read_only_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY))
    assert say_denied(tmp_path / AUDIT_NAME) == (
        f"{tmp_path} is on a file system that is mounted read-only; mount it for writing"
    )


IN_A_FOLDER_OF_ANOTHER_USER = """
import os, sys
from pathlib import Path
from retentiond.errors import RetentiondError
from retentiond.history.place import errors_explained
from deltalake import DeltaTable
from retentiond.state.audit_file import opened_for_reading
from retentiond.state.audit_records import deleted_by_day, last_requests
from retentiond.state.backup import back_up
from retentiond.state.groups import GroupMemory
from retentiond.state.groups_lookup import cluster_of, readers_of, recall, topics_read_by
from retentiond.state.operator_actions import Pause, write_pause
from retentiond.state.state import check_stored

state_dir = Path(sys.argv[1])
if os.getuid() == 0:
    os.setuid(65534)

def read_history():
    with errors_explained(str(state_dir / "history")):
        DeltaTable(str(state_dir / "history"))

print(recall(state_dir).lost)
for use in (
    lambda: opened_for_reading(state_dir).__enter__(),
    lambda: check_stored(state_dir),
    lambda: back_up(state_dir, Path("/tmp/nowhere-to-be-made")),
    lambda: GroupMemory.open(state_dir, shared=True),
    lambda: write_pause(state_dir, Pause("why")),
    read_history,
):
    try:
        use()
    except RetentiondError as error:
        print(error)
assert deleted_by_day(state_dir, "orders", 0, 1) is None
assert last_requests(state_dir, "orders") is None
assert cluster_of(state_dir) is None
assert readers_of(state_dir, "orders") is None
assert topics_read_by(state_dir, "billing") is None
"""


def test_a_folder_of_another_user_is_an_error_in_one_sentence() -> None:
    """Where the tests run as a user of their own, the folder is not for its own user to enter."""
    with TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        state_dir = Path(made) / "state"
        with open_state(state_dir):
            pass
        state_dir.chmod(0o700 if os.getuid() == 0 else 0)
        *told, history = run_python(IN_A_FOLDER_OF_ANOTHER_USER, state_dir).stdout.splitlines()
        state_dir.chmod(0o700)

    assert len(told) == 6
    whose = denied(state_dir).replace("`chown", "`chown -R")
    assert [sentence for sentence in told if whose not in sentence] == []
    assert history == (
        f"the history in {state_dir}/history can't be used ({state_dir}: Permission denied); run "
        "the command as the daemon's user"
    )
