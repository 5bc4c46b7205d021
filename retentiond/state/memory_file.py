"""The file of the remembered groups: how it is made, opened and, when damaged, kept aside."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from retentiond.errors import StateError
from retentiond.state.schema import AUDIT_NAME

NAME = "groups.db"
SCHEMA_VERSION = 1

SCHEMA = """
CREATE TABLE topics (
    topic TEXT NOT NULL PRIMARY KEY,
    topic_id TEXT NOT NULL,
    groups TEXT NOT NULL,  -- JSON: [group_id, ...]
    agreed INTEGER NOT NULL  -- complete cycles in a row that saw these groups
) STRICT, WITHOUT ROWID;

CREATE TABLE commits (
    group_id TEXT NOT NULL,
    topic TEXT NOT NULL,
    kind TEXT NOT NULL,
    offsets TEXT NOT NULL,  -- JSON: {partition: committed offset}
    absent_since_ms INTEGER,  -- NULL while the group has a commit on the topic
    PRIMARY KEY (group_id, topic)
) STRICT, WITHOUT ROWID;

CREATE TABLE losses (
    sentence TEXT NOT NULL  -- until an operator accepts it, nothing is deleted
) STRICT;
"""

ACCEPT = "`retentiond groups accept` goes on without it"


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Raises `StateError` for a file of a newer version, `OSError` and `sqlite3.Error`."""
    if path.exists():
        connection = connect(path)
        damage = _damage(connection, path)
        if damage is None:
            return connection
        connection.close()
        aside = _put_aside(path)
        _create(path, f"the remembered groups were damaged ({damage}) and are kept in {aside}")
    elif _has_run(path.with_name(AUDIT_NAME)):
        _create(path, f"the remembered groups are gone: {path} is missing")
    else:
        _create(path, None)
    return connect(path)


def _has_run(audit: Path) -> bool:
    """Whether a cycle has left its trace, and with it groups to remember."""
    if not audit.exists():
        return False
    try:
        with closing(connect(audit, read_only=True)) as connection:
            return connection.execute("SELECT 1 FROM cycles LIMIT 1").fetchone() is not None
    except sqlite3.Error:
        return True  # it can't tell


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rw'}"
    connection = sqlite3.connect(
        uri, uri=True, timeout=5.0, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA synchronous = FULL")  # a commit is on disk when it returns
    return connection


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


def _damage(connection: sqlite3.Connection, path: Path) -> str | None:
    """What is wrong with the file's contents; other errors are raised."""
    try:
        check_version(connection, path)
        ((verdict,),) = connection.execute("PRAGMA quick_check(1)").fetchall()
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):  # locked, unreadable, disk full
            raise
        return str(error)
    return None if verdict == "ok" else str(verdict)


def _put_aside(path: Path) -> Path:
    aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")
    for suffix in ("-wal", "-shm", ""):
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.rename(aside.with_name(aside.name + suffix))
    return aside


def _create(path: Path, loss: str | None) -> None:
    """Built beside its place and moved in whole: a half-made file is never found there."""
    unfinished = path.with_name(f"{path.name}.new")
    unfinished.unlink(missing_ok=True)
    connection = sqlite3.connect(unfinished, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.executescript(f"BEGIN; {SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
        if loss is not None:
            connection.execute("INSERT INTO losses VALUES (?)", (f"{loss}; {ACCEPT}",))
    finally:
        connection.close()
    unfinished.rename(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
