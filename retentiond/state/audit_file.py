"""The tables of the audit log, and how its file is created and opened.

Invariant: an existing file is never replaced, and a new one appears as a whole. So an empty or
incomplete file is damaged. A file that this version can't trust is refused with a sentence that
says why.

Most of the log is evidence (each relevant group's commit), and the partitions of a topic share
their groups. So a list of groups is stored once, and a deletion has the committed offsets in the
order of that list. The view ``evidence`` shows one row for each deletion and group.
"""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from retentiond.errors import StateError
from retentiond.fields import Storage
from retentiond.model import ROW_FIELDS
from retentiond.state.state_dir import connect, created, is_there, say_remedy, version_of

AUDIT_NAME = "audit.db"
SCHEMA_VERSION = 2

SQL_TYPES = {
    Storage.TEXT: "TEXT",
    Storage.FLAG: "INTEGER",
    Storage.INT32: "INTEGER",
    Storage.INT64: "INTEGER",
}

AUDITED = tuple(field for field in ROW_FIELDS if field.said.audit is not None)
"""The fields of a plan's row that the log keeps."""

_ROW_COLUMNS = "".join(
    f"    {field.name} {SQL_TYPES[field.said.type.storage]} {field.said.audit},\n"
    for field in AUDITED
)

SCHEMA = f"""
CREATE TABLE cycles (
    cycle_id TEXT NOT NULL PRIMARY KEY,
    cluster_id TEXT NOT NULL,
    planned_at_ms INTEGER NOT NULL,
    dry_run INTEGER NOT NULL CHECK (dry_run IN (0, 1)),
    complete INTEGER NOT NULL CHECK (complete IN (0, 1)),
    partitions INTEGER NOT NULL,
    to_delete INTEGER NOT NULL,
    held INTEGER NOT NULL,
    finished_at_ms INTEGER,  -- NULL: it runs, or the process ended
    result TEXT CHECK (result IN ('ok', 'incomplete', 'failed')),
    deleted INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    not_attempted INTEGER NOT NULL,
    unknown INTEGER NOT NULL,
    records_deleted INTEGER NOT NULL,
    error TEXT,
    observed_ms INTEGER NOT NULL  -- how much time had certainly passed in this log
) STRICT, WITHOUT ROWID;

CREATE TABLE group_lists (
    id INTEGER PRIMARY KEY,
    groups TEXT NOT NULL UNIQUE  -- JSON: [[group_id, kind], ...]
) STRICT;

CREATE TABLE deletions (
    id INTEGER PRIMARY KEY,
    cycle_id TEXT NOT NULL REFERENCES cycles,
{_ROW_COLUMNS}    freed_bytes INTEGER CHECK (freed_bytes >= 0),  -- NULL: not known, or not yet
    group_list INTEGER NOT NULL REFERENCES group_lists,
    committed_offsets TEXT NOT NULL,  -- JSON: [offset, ...] in the order of the group list
    evidence_at_ms INTEGER NOT NULL,  -- when the second reading began
    requested_at_ms INTEGER NOT NULL,
    outcome TEXT CHECK (outcome IN ('deleted', 'failed', 'not_attempted', 'unknown')),
    low_watermark INTEGER,
    error TEXT,
    settled_at_ms INTEGER,  -- NULL with the outcome: an open intent
    unsettled INTEGER NOT NULL DEFAULT 1 CHECK (unsettled IN (0, 1)),
    CHECK ((outcome IS NULL) = (settled_at_ms IS NULL)),
    CHECK (outcome IS NOT 'deleted' OR ifnull(low_watermark >= cutoff, 0)),
    CHECK (unsettled = 0 OR outcome IS NULL OR outcome = 'unknown'),
    UNIQUE (cycle_id, topic, partition)
) STRICT;

CREATE TABLE actions (
    id INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    operator TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT,
    detail TEXT NOT NULL,
    observed_ms INTEGER NOT NULL  -- as in cycles
) STRICT;

CREATE TABLE passed (
    boot_id TEXT NOT NULL,  -- one row: the last look at the clock
    ms INTEGER NOT NULL,  -- since that boot
    total_ms INTEGER NOT NULL  -- how much time had certainly passed since the log began
) STRICT;

CREATE INDEX deletions_unsettled ON deletions (id) WHERE unsettled = 1;
CREATE INDEX deletions_by_partition ON deletions (topic, partition);
CREATE INDEX deletions_by_time ON deletions (requested_at_ms);
CREATE INDEX deletions_by_topic_and_time ON deletions (topic, requested_at_ms);
CREATE INDEX deletions_by_list ON deletions (group_list);  -- whether anything refers to a list
CREATE INDEX cycles_by_age ON cycles (observed_ms);

CREATE VIEW evidence (deletion_id, group_id, kind, committed_offset) AS
SELECT
    deletions.id,
    json_extract(listed.value, '$[0]'),
    json_extract(listed.value, '$[1]'),
    json_extract(deletions.committed_offsets, '$[' || listed.key || ']')
FROM deletions
JOIN group_lists ON group_lists.id = deletions.group_list
JOIN json_each(group_lists.groups) AS listed;
"""

LATEST_ROWS = (
    "SELECT * FROM deletions JOIN group_lists ON group_lists.id = group_list"
    " ORDER BY deletions.id DESC LIMIT 1000",
    "SELECT * FROM deletions JOIN cycles USING (cycle_id) WHERE unsettled = 1",
    "SELECT id FROM deletions ORDER BY requested_at_ms DESC LIMIT 1000",
    "SELECT id FROM deletions ORDER BY topic DESC, partition DESC LIMIT 1000",
    "SELECT * FROM cycles ORDER BY cycle_id DESC LIMIT 1000",
    "SELECT * FROM actions ORDER BY id DESC LIMIT 1000",
)
"""Queries that read the entries on which the next cycle builds, from tables and indexes.

A start doesn't read the rest, because the log may be large. If a cycle meets a damaged page later,
it fails, and nothing is deleted.
"""


STEPS_BETWEEN_CHECKS = 1000
"""Steps of SQLite's virtual machine, which takes a million of them in some 10 ms."""

_OLDEST = "SELECT planned_at_ms FROM cycles ORDER BY observed_ms LIMIT 1"
"""By the log's own time, as entries are removed: the host's clock may have been set."""


def open_for_writing(state_dir: Path) -> sqlite3.Connection:
    """The connection of the only writer, for one thread at a time. Creates the file if there is
    none. Raises `StateError` if the file is damaged, of another version or unusable."""
    path = state_dir / AUDIT_NAME
    try:
        if not is_there(path):
            leftover = path.with_name(f"{path.name}-wal")
            if leftover.exists():  # SQLite would replay it into the new file
                raise damaged(path, f"it is missing, and its {leftover.name} is there")
            with created(path, SCHEMA, SCHEMA_VERSION):
                pass
        connection = connect(path)
        try:
            _refuse_damaged(connection, path)
        except BaseException:
            connection.close()
            raise
    except (OSError, sqlite3.Error) as exc:
        raise unusable(path, exc) from exc
    return connection


def is_begun(state_dir: Path) -> bool:
    """Whether there is an audit log. Raises `StateError` if this user may not know."""
    path = state_dir / AUDIT_NAME
    try:
        return is_there(path)
    except OSError as exc:
        raise unusable(path, exc) from exc


@contextmanager
def opened_for_reading(
    state_dir: Path, timeout_s: float = math.inf
) -> Iterator[sqlite3.Connection]:
    """Raises `StateError` if there is no audit log, if it can't be read, or once the time is
    over."""
    path = state_dir / AUDIT_NAME
    if not is_begun(state_dir):
        raise StateError(
            f"there is no audit log in {state_dir}; the first cycle of a daemon with this "
            "state_dir begins one"
        )
    try:
        with closing(connect(path, read_only=True)) as connection:
            connection.row_factory = sqlite3.Row
            check_schema(connection, path)
            if math.isfinite(timeout_s):
                give_up_at = time.monotonic() + timeout_s
                connection.set_progress_handler(
                    lambda: int(time.monotonic() > give_up_at), STEPS_BETWEEN_CHECKS
                )
            yield connection
    except sqlite3.Error as exc:
        raise unusable(path, exc) from exc


def log_bytes(state_dir: Path) -> int:
    """With its write-ahead log; 0 if there is none."""
    path = state_dir / AUDIT_NAME
    sizes = 0
    for part in (path, path.with_name(f"{path.name}-wal")):
        with suppress(OSError):
            sizes += part.stat().st_size
    return sizes


def entry_bytes(state_dir: Path) -> int | None:
    """What the log's entries take, as ``audit.max_bytes`` counts it: without the free room in its
    file. None if there is no log, or it can't be read now."""
    with suppress(StateError), opened_for_reading(state_dir) as connection:
        pages, free, page_bytes = page_counts(connection)
        return (pages - free) * page_bytes
    return None


def page_counts(connection: sqlite3.Connection) -> tuple[int, int, int]:
    """How many pages the file has, how many of them are free, and the size of a page."""
    ((pages,),) = connection.execute("PRAGMA page_count").fetchall()
    ((free,),) = connection.execute("PRAGMA freelist_count").fetchall()
    ((page_bytes,),) = connection.execute("PRAGMA page_size").fetchall()
    return pages, free, page_bytes


def oldest_entry_s(state_dir: Path) -> float | None:
    """When the oldest cycle in the log was planned, in epoch seconds; None if there is none, or
    none can be read now."""
    with suppress(StateError), opened_for_reading(state_dir) as connection:
        for (planned_at_ms,) in connection.execute(_OLDEST):
            return float(planned_at_ms / 1000)
    return None


def check_schema(connection: sqlite3.Connection, path: Path) -> None:
    version = version_of(connection)
    if version > SCHEMA_VERSION:
        raise StateError(
            f"the audit log {path} was written by a newer retentiond (its schema is {version}, "
            f"this version knows {SCHEMA_VERSION}); run that version, or choose another state_dir, "
            "which waits for no group that has vanished"
        )
    if version == 0:
        raise StateError(
            f"{path} is not an audit log of retentiond; move it away, or choose another state_dir"
        )
    columns = {name for _, name, *_ in connection.execute("PRAGMA table_info (deletions)")}
    if version < SCHEMA_VERSION or not columns.issuperset(field.name for field in AUDITED):
        raise StateError(
            f"the audit log {path} was begun by another version of retentiond, whose schema this "
            "one does not know; run that version, or move the file away to begin a new log"
        )


def unusable(path: Path, cause: Exception) -> StateError:
    code = getattr(cause, "sqlite_errorcode", None)
    is_damaged = code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    if is_damaged or "Could not decode" in str(cause):  # Python's own error has no code
        return damaged(path, "a text in it can't be decoded" if not is_damaged else cause)
    return StateError(
        f"the audit log {path} can't be used ({cause}); without it nothing is deleted: "
        f"{say_remedy(cause, path)}"
    )


def damaged(path: Path, cause: object) -> StateError:
    return StateError(
        f"the audit log {path} is damaged ({cause}); restore it, or move it away to begin a new one"
    )


def _refuse_damaged(connection: sqlite3.Connection, path: Path) -> None:
    if path.stat().st_size == 0:
        raise damaged(path, "it is empty")
    check_schema(connection, path)
    ((pages,),) = connection.execute("PRAGMA page_count").fetchall()
    ((page_bytes,),) = connection.execute("PRAGMA page_size").fetchall()
    wal = path.with_name(f"{path.name}-wal")  # has pages that are not in the file yet
    on_disk = path.stat().st_size + (wal.stat().st_size if wal.exists() else 0)
    if on_disk < pages * page_bytes:
        raise damaged(path, f"it has only {on_disk} of {pages * page_bytes} bytes")
    for query in LATEST_ROWS:
        connection.execute(query).fetchall()
