"""The file of the remembered groups: how it is created, opened, read, and kept aside if it is
damaged."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from retentiond.errors import StateError, StateReplaced
from retentiond.memory.remembered import (
    Remembered,
)
from retentiond.state.audit_file import AUDIT_NAME
from retentiond.state.groups_rows import read_all, read_cluster_id
from retentiond.state.state_dir import DatabaseFiles, connect, created, version_of

NAME = "groups.db"
SCHEMA_VERSION = 6

# The key's columns come first. Otherwise SQLite's quick_check takes other columns for missing.
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
    is_external INTEGER NOT NULL DEFAULT 0,  -- 1 if kind is: a group of that name is another reader
    kind TEXT NOT NULL,
    offsets BLOB NOT NULL,  -- by partition, see `ByPartition.unpacked`
    absent_since_ms INTEGER,  -- NULL while there is a trace of the group on the topic
    moved_at_ms BLOB NOT NULL,  -- by partition: epoch ms at which the offset was first seen
    absent_ms INTEGER NOT NULL DEFAULT 0,  -- how much of the absence was observed
    seen_at_ms INTEGER,  -- epoch ms at which it was first seen to read the topic; NULL: not known
    stale TEXT NOT NULL DEFAULT '[]',  -- JSON: [partition, ...]: see `RememberedReader`
    PRIMARY KEY (group_id, topic, is_external)
) STRICT, WITHOUT ROWID;

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
    one aside.

    Raises `StateError` for a file of another schema, `OSError` and `sqlite3.Error`.
    """
    if not path.exists():
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
    """Opens a file that another process may be using. Neither creates nor repairs it.

    Raises `StateError`, `OSError` and `sqlite3.Error`.
    """
    if not path.exists():
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
    """Raises `StateReplaced` if these are no longer the files that were opened."""
    if (lost := files.lost()) is not None:
        raise StateReplaced(
            f"the remembered groups in {path} were removed or replaced while they were in use "
            f"({lost.name}), so nothing is deleted; put them back before you restart retentiond: "
            "without them it waits for no group that has vanished"
        )


def loss_of_missing(path: Path) -> str | None:
    """Why the missing file is a loss; None if nothing was ever remembered."""
    leftovers = (f"{path.name}-wal", f"{path.name}.damaged-*")
    if any(any(path.parent.glob(pattern)) for pattern in leftovers) or _has_recorded_cycles(
        path.with_name(AUDIT_NAME)
    ):
        return f"the remembered groups are gone: {path} is missing; {ACCEPT}"
    return None


def _has_recorded_cycles(audit: Path) -> bool:
    """Whether a cycle has ever run, so that there were groups to remember."""
    if not audit.exists():
        return False
    try:
        with closing(connect(audit, read_only=True)) as connection:
            return connection.execute("SELECT 1 FROM cycles LIMIT 1").fetchone() is not None
    except sqlite3.Error:
        return True  # an unreadable log proves nothing


def check_version(connection: sqlite3.Connection, path: Path) -> None:
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
    """The id of the file's cluster, without reading the groups."""
    return read_cluster_id(connection) or _cluster_of_audit(path)


def write_cluster(connection: sqlite3.Connection, cluster_id: str) -> None:
    """Writes the id of the file's cluster, unless the file has one."""
    connection.execute(
        "INSERT INTO cluster SELECT ? WHERE NOT EXISTS (SELECT 1 FROM cluster)", (cluster_id,)
    )


def _cluster_of_audit(path: Path) -> str | None:
    """The cluster of all cycles in the audit log; None if there are several, or none."""
    audit = path.with_name(AUDIT_NAME)
    if not audit.exists():
        return None
    try:
        with closing(connect(audit, read_only=True)) as connection:
            query = "SELECT DISTINCT cluster_id FROM cycles LIMIT 2"
            clusters = [cluster_id for (cluster_id,) in connection.execute(query)]
    except sqlite3.Error:  # the audit log's own writer reports what is wrong with it
        return None
    return clusters[0] if len(clusters) == 1 else None


def _damage(path: Path) -> str | None:
    """What is wrong with the file's contents, or None. Other errors are raised."""
    try:
        with closing(connect(path)) as connection:
            check_version(connection, path)
            ((verdict,),) = connection.execute("PRAGMA quick_check(1)").fetchall()
            if verdict == "ok":
                read_all(connection)
    except (sqlite3.Error, ValueError, TypeError) as error:
        if not _is_damage(error):
            raise
        return str(error)
    return None if verdict == "ok" else " ".join(str(verdict).split())  # on one line


def _is_damage(error: Exception) -> bool:
    """Whether the file's contents cause the error; not a lock, a permission or a full disk."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    damage_codes = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    return code & 0xFF in damage_codes


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
