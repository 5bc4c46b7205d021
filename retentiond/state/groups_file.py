"""The file of the remembered groups: how it is created, opened, read, and kept aside if it is
damaged."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from retentiond.errors import StateError, StateReplaced
from retentiond.memory.remembered import Remembered
from retentiond.state.audit_file import AUDIT_NAME
from retentiond.state.groups_tables import read_all, read_cluster_id
from retentiond.state.state_dir import DatabaseFiles, connect, created, is_there, version_of

NAME = "groups.db"
SCHEMA_VERSION = 7

SCHEMA = """
CREATE TABLE topics (
    topic TEXT NOT NULL PRIMARY KEY,
    topic_id TEXT NOT NULL,
    groups TEXT NOT NULL,  -- JSON: [group_id, ...]
    agreed INTEGER NOT NULL  -- complete cycles in a row that saw these groups
) STRICT, WITHOUT ROWID;

CREATE TABLE readers (
    topic TEXT NOT NULL PRIMARY KEY,
    crc INTEGER NOT NULL,  -- of the topic and the rows
    rows BLOB NOT NULL  -- an Arrow stream, see `retentiond.memory.readers.READERS`
) STRICT;

CREATE TABLE losses (
    sentence TEXT NOT NULL  -- until an operator accepts it, nothing is deleted
) STRICT;

CREATE TABLE cluster (
    cluster_id TEXT NOT NULL  -- one row: all of this is about that cluster
) STRICT;

CREATE TABLE observed (
    boot_id TEXT NOT NULL,  -- one row: the last complete cycle in which something was absent
    ms INTEGER NOT NULL  -- since that boot
) STRICT;

CREATE TABLE gone (
    topic TEXT NOT NULL PRIMARY KEY,
    ms INTEGER NOT NULL  -- for how long the cluster was observed to lack it
) STRICT, WITHOUT ROWID;
"""

ACCEPT = "`retentiond groups accept` goes on without it"


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Opens the file for the holder of the state lock: creates a missing one, and keeps a damaged
    one aside. Raises `StateError` for a file of another schema, `OSError` and `sqlite3.Error`."""
    if not is_there(path):
        lost = loss_of_missing(path)
        _put_aside(path)  # SQLite would replay a leftover write-ahead log into the new file
        _create(path, lost)
    elif (damage := _damage(path)) is not None:
        aside = _put_aside(path)
        _create(
            path, f"the remembered groups were damaged ({damage}) and are kept in {aside}; {ACCEPT}"
        )
    connection = connect(path)
    try:
        if (
            read_cluster_id(connection) is None
            and (cluster_id := _cluster_of_audit(path)) is not None
        ):
            write_cluster(connection, cluster_id)
    except BaseException:
        connection.close()
        raise
    return connection


def open_shared(path: Path) -> sqlite3.Connection:
    """Opens a file that another process may be using. Neither creates nor repairs it. Raises
    `StateError`, `OSError` and `sqlite3.Error`."""
    if not is_there(path):
        if loss_of_missing(path):
            raise StateError(
                f"the remembered groups are gone: {path} is missing; restart retentiond, which "
                f"starts with an empty memory, then {ACCEPT}"
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


def check_files(path: Path, files: DatabaseFiles) -> None:
    if (lost := files.lost()) is not None:
        raise StateReplaced(
            f"the remembered groups in {path} were removed or replaced while they were in use "
            f"({lost.name}), so nothing is deleted; put them back before you restart retentiond: "
            "without them it waits for no group that has vanished"
        )


def loss_of_missing(path: Path) -> str | None:
    """Why the missing file is a loss; None if nothing was ever remembered."""
    leftovers = (f"{path.name}-wal", f"{path.name}.damaged-*")
    # A recorded cycle had groups to remember, and an unreadable log proves nothing.
    cycles = _asked_of_audit(path, "SELECT 1 FROM cycles LIMIT 1")
    if any(any(path.parent.glob(pattern)) for pattern in leftovers) or cycles != []:
        return f"the remembered groups are gone: {path} is missing; {ACCEPT}"
    return None


def check_version(connection: sqlite3.Connection, path: Path) -> None:
    """Raises `StateError` for a file that a newer or an older version has written."""
    version = version_of(connection)
    if version == 0:
        raise sqlite3.DatabaseError("it has no schema")
    if version != SCHEMA_VERSION:
        which = "a newer" if version > SCHEMA_VERSION else "an earlier"
        raise StateError(
            f"the remembered groups in {path} were written by {which} retentiond (schema "
            f"{version}, this version knows {SCHEMA_VERSION}); a new state_dir would wait for no "
            "group that has vanished, and what such a group has not read could be deleted; run "
            "that version, or choose another state_dir"
        )


def with_cluster(remembered: Remembered, path: Path) -> Remembered:
    """The memory with its cluster's id, which the audit log may know if the file is missing or
    new."""
    if remembered.cluster_id is not None:
        return remembered
    return replace(remembered, cluster_id=_cluster_of_audit(path))


def cluster_of(connection: sqlite3.Connection, path: Path) -> str | None:
    """Without reading the groups."""
    return read_cluster_id(connection) or _cluster_of_audit(path)


def write_cluster(connection: sqlite3.Connection, cluster_id: str) -> None:
    """Unless the file has one."""
    connection.execute(
        "INSERT INTO cluster SELECT ? WHERE NOT EXISTS (SELECT 1 FROM cluster)", (cluster_id,)
    )


def _cluster_of_audit(path: Path) -> str | None:
    """The cluster of all cycles in the audit log; None if there are several, or none."""
    clusters = _asked_of_audit(path, "SELECT DISTINCT cluster_id FROM cycles LIMIT 2") or []
    return str(clusters[0]) if len(clusters) == 1 else None


def _asked_of_audit(path: Path, query: str) -> list[object] | None:
    """A column of the audit log beside the file ``path``; empty if there is no log, None if it
    can't be read: its own writer reports what is wrong with it."""
    audit = path.with_name(AUDIT_NAME)
    try:
        if not is_there(audit):
            return []
        with closing(connect(audit, read_only=True)) as connection:
            return [value for (value,) in connection.execute(query)]
    except (OSError, sqlite3.Error):
        return None


def _damage(path: Path) -> str | None:
    """What is wrong with the file's contents, or None. Other errors are raised."""
    try:
        with closing(connect(path)) as connection:
            check_version(connection, path)
            ((verdict,),) = connection.execute("PRAGMA quick_check(1)").fetchall()
            if verdict == "ok":
                read_all(connection)
    except (sqlite3.Error, ValueError, TypeError) as error:
        # A lock, a permission or a full disk is no damage.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        damage_codes = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
        if code & 0xFF not in damage_codes:
            raise
        return str(error)
    return None if verdict == "ok" else " ".join(str(verdict).split())  # on one line


def _put_aside(path: Path) -> Path:
    """Renames the file and its write-ahead log, and returns the file's new name. The file comes
    first: after a crash, a file without its write-ahead log would look whole."""
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
