"""The file of the remembered groups: how it is made, opened and, when damaged, kept aside."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

from retentiond.errors import StateError
from retentiond.state.memory_rows import read_all
from retentiond.state.schema import AUDIT_NAME
from retentiond.state.sqlite import connect, created

NAME = "groups.db"
SCHEMA_VERSION = 1

SCHEMA = """
CREATE TABLE topics (
    topic TEXT NOT NULL PRIMARY KEY,
    topic_id TEXT NOT NULL,
    groups TEXT NOT NULL,  -- JSON: [group_id, ...]
    agreed INTEGER NOT NULL,  -- complete cycles in a row that saw these groups
    ends TEXT NOT NULL  -- JSON: [[epoch ms, {partition: high watermark}], ...]
) STRICT, WITHOUT ROWID;

CREATE TABLE commits (
    group_id TEXT NOT NULL,
    topic TEXT NOT NULL,
    kind TEXT NOT NULL,
    offsets TEXT NOT NULL,  -- JSON: {partition: committed offset}
    absent_since_ms INTEGER,  -- NULL while the group has a commit on the topic
    moved_at_ms TEXT NOT NULL,  -- JSON: {partition: epoch ms at which the offset was first seen}
    PRIMARY KEY (group_id, topic)
) STRICT, WITHOUT ROWID;

CREATE TABLE losses (
    sentence TEXT NOT NULL  -- until an operator accepts it, nothing is deleted
) STRICT;
"""

ACCEPT = "`retentiond groups accept` goes on without it"


def open_for_writing(path: Path) -> sqlite3.Connection:
    """For the holder of the state lock: makes the file, or keeps a damaged one aside.

    Raises `StateError` for a file of a newer version, `OSError` and `sqlite3.Error`.
    """
    if not path.exists():
        lost = loss_of_missing(path)
        _put_aside(path)  # a log without its file would be replayed into the new one
        _create(path, lost)
    elif (damage := _damage(path)) is not None:
        aside = _put_aside(path)
        _create(
            path, f"the remembered groups were damaged ({damage}) and are kept in {aside}; {ACCEPT}"
        )
    return connect(path)


def open_shared(path: Path) -> sqlite3.Connection:
    """Of a file that another process may be using: it is neither made nor mended.

    Raises `StateError`, `OSError` and `sqlite3.Error`.
    """
    if not path.exists():
        if loss_of_missing(path):
            raise StateError(
                f"the remembered groups are gone: {path} is missing; restart retentiond, which "
                f"begins anew, then {ACCEPT}"
            )
        raise StateError(
            f"there are no remembered groups in {path.parent}; give the configuration of a "
            "retentiond that has run"
        )
    if (damage := _damage(path)) is not None:
        raise StateError(
            f"the remembered groups in {path} are damaged ({damage}); restart retentiond, which "
            f"keeps them aside, then {ACCEPT}"
        )
    return connect(path)


def identity(path: Path) -> tuple[int, int]:
    """What stays the same as long as it is the same file."""
    status = path.stat()
    return status.st_dev, status.st_ino


def check_place(path: Path, known: tuple[int, int]) -> None:
    """Raises `StateError` if it is no longer the file that was opened: what is written to a
    removed one is gone with the process."""
    if not path.exists() or identity(path) != known:
        raise StateError(
            f"the remembered groups in {path} were removed or replaced while they were in use; "
            "restart retentiond to go on with what is there"
        )


def loss_of_missing(path: Path) -> str | None:
    """Why it is a loss that there is no file; None where nothing was ever remembered."""
    left_behind = (f"{path.name}-wal", f"{path.name}.damaged-*")
    if any(any(path.parent.glob(each)) for each in left_behind) or _has_run(
        path.with_name(AUDIT_NAME)
    ):
        return f"the remembered groups are gone: {path} is missing; {ACCEPT}"
    return None


def _has_run(audit: Path) -> bool:
    """Whether a cycle has left its trace, and with it groups to remember."""
    if not audit.exists():
        return False
    try:
        with closing(connect(audit, read_only=True)) as connection:
            return connection.execute("SELECT 1 FROM cycles LIMIT 1").fetchone() is not None
    except sqlite3.Error:
        return True  # it can't tell


def check_version(connection: sqlite3.Connection, path: Path) -> None:
    ((version,),) = connection.execute("PRAGMA user_version").fetchall()
    if version > SCHEMA_VERSION:
        raise StateError(
            f"the remembered groups in {path} were written by a newer retentiond (schema "
            f"{version}, this version knows {SCHEMA_VERSION}); run that version, or choose "
            "another state_dir"
        )
    if version < SCHEMA_VERSION:
        raise sqlite3.DatabaseError("it has no schema")


def _damage(path: Path) -> str | None:
    """What is wrong with the file's contents; other errors are raised."""
    try:
        with closing(connect(path)) as connection:
            check_version(connection, path)
            ((verdict,),) = connection.execute("PRAGMA quick_check(1)").fetchall()
            if verdict == "ok":
                read_all(connection)
    except (sqlite3.Error, ValueError, TypeError) as error:
        if _is_passing(error):
            raise
        return str(error)
    return None if verdict == "ok" else " ".join(str(verdict).split())  # it has lines


def _is_passing(error: Exception) -> bool:
    """Locked, not permitted, disk full: nothing that the file's contents are to blame for."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    blamed = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    return code & 0xFF not in blamed


def _put_aside(path: Path) -> Path:
    """The file first: one that lacks its log would look whole."""
    aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")
    for suffix in ("", "-wal", "-shm"):
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.rename(aside.with_name(aside.name + suffix))
    return aside


def _create(path: Path, loss: str | None) -> None:
    with created(path, SCHEMA, SCHEMA_VERSION) as connection:
        if loss is not None:
            connection.execute("INSERT INTO losses VALUES (?)", (loss,))
