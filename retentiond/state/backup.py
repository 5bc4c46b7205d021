"""Makes a consistent copy of the state directory while a daemon works on it.

SQLite copies each database as of one moment, without holding up the daemon. The audit log is copied
first, so that the copied memory of readers is never older than a deletion in the copied log. The
copy is paused: groups that appeared after the backup are unknown to it.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from retentiond.errors import StateError, UsageError
from retentiond.fields import rfc3339
from retentiond.state.audit_file import AUDIT_NAME
from retentiond.state.groups_file import NAME as GROUPS_NAME
from retentiond.state.groups_file import loss_of_missing
from retentiond.state.operator_actions import Pause, action_now, write_pause
from retentiond.state.state_dir import connect, is_there, say_denied, sync


def back_up(state_dir: Path, to: Path) -> tuple[str, ...]:
    """Copies the files that must not be lost to a new folder, all or none. Returns their names.

    Raises `UsageError` if ``to`` exists, and `StateError` if there is nothing to copy or a file
    can't be copied."""
    if to.exists():
        raise UsageError(f"{to} already exists; give a new folder, such as {to}-2")
    try:
        names = tuple(name for name in (AUDIT_NAME, GROUPS_NAME) if is_there(state_dir / name))
    except OSError as error:
        denied = say_denied(state_dir / AUDIT_NAME)
        raise StateError(f"{state_dir} can't be copied: {denied or error}") from error
    if not names:
        raise StateError(f"there is nothing to back up in {state_dir}: no cycle has written it yet")
    groups = state_dir / GROUPS_NAME
    if GROUPS_NAME not in names and (loss := loss_of_missing(groups)) is not None:
        raise StateError(loss)
    unfinished = to.with_name(f".{to.name}.{os.getpid()}")
    try:
        unfinished.mkdir(mode=0o700, parents=True)
        for name in names:
            _copy(state_dir / name, unfinished / name)
        action = action_now("pause", None, "")
        at = rfc3339(action.at_ms)
        reason = f"restored from the backup of {at}, look before you resume"
        write_pause(unfinished, Pause(reason, at, action.operator))
        for copy in unfinished.iterdir():
            copy.chmod(0o600)
        sync(unfinished)
        unfinished.rename(to)
        sync(to.parent)
    except (OSError, sqlite3.Error) as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        why: object = error
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_CANTOPEN:
            denials = (say_denied(state_dir / name) for name in names)
            why = next(filter(None, denials), error)
        raise StateError(f"{state_dir} can't be copied to {to}: {why}") from error
    return (*names, "paused")


def _copy(source: Path, target: Path) -> None:
    """By an SQL statement: `Connection.backup` takes no connection that a tracing tool has
    wrapped."""
    os.close(os.open(target, os.O_CREAT | os.O_EXCL, 0o600))
    with closing(connect(source, read_only=True)) as reader:
        reader.execute("VACUUM INTO ?", (str(target),))
    with closing(connect(target)) as copy:
        copy.execute("PRAGMA journal_mode = WAL")
        if (problems := copy.execute("PRAGMA quick_check").fetchall()) != [("ok",)]:
            raise sqlite3.DatabaseError(f"{source} is damaged: {problems[0][0]}")
    with target.open("rb") as file:
        os.fsync(file.fileno())
