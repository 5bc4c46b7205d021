"""The remembered groups: who reads each enabled topic, with its last commits, and the topics' ids.

Invariants:

- A reader's absence alone never drops it. An operator or the policy may release it, and a topic
  that is gone for long takes its readers along.
- A cycle that could not see everything may add readers and removes none.
- The file is about one cluster.
- A reading is on disk before anything is deleted on its account.
- A file that can't be read is kept aside, and everything is held until an operator accepts the
  loss.

The file is SQLite (WAL, synchronous=FULL). A cycle writes one transaction, with only the changes.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple, Self

from retentiond.clock import Uptime, elapsed_ms, uptime
from retentiond.errors import StateError
from retentiond.gather.gather import refuse_another_cluster
from retentiond.memory.by_partition import NONE
from retentiond.memory.changes import Changes, NewlySeen, with_stale
from retentiond.memory.remembered import (
    GroupOnTopic,
    ReaderName,
    Remembered,
    RememberedReader,
)
from retentiond.state import groups_file
from retentiond.state.groups_rows import (
    KEEP_READER,
    RENEW_READER,
    read_again,
    read_all,
    read_observed,
    rows_of,
)
from retentiond.state.state_dir import DatabaseFiles, say_remedy

_KEEP_TOPIC = """
INSERT INTO topics (topic, topic_id, groups, agreed) VALUES (?, ?, ?, ?)
ON CONFLICT (topic) DO UPDATE
SET topic_id = excluded.topic_id, groups = excluded.groups, agreed = excluded.agreed
"""

_KEEP_GONE = """
INSERT INTO gone (topic, ms) VALUES (?, ?) ON CONFLICT (topic) DO UPDATE SET ms = excluded.ms
"""

_FORGET_VANISHED = """
DELETE FROM commits
WHERE group_id = ?1 AND is_external = ?4 AND topic IN (SELECT value FROM json_each(?2))
AND NOT EXISTS (
    SELECT 1 FROM commits AS other WHERE other.group_id = ?1 AND other.is_external = ?4
    AND (other.absent_since_ms IS NULL OR other.absent_ms < ?3)
)
RETURNING topic
"""


class _Written(NamedTuple):
    """The readers that a transaction writes as they are, and those whose rows it changes by
    statements, so that only the file knows what they are then."""

    readers: Mapping[GroupOnTopic, RememberedReader]
    by_statements: Set[GroupOnTopic]


class GroupMemory:
    """The writer of ``groups.db``. Other processes may read it, and forget groups, meanwhile."""

    def __init__(
        self, connection: sqlite3.Connection, path: Path, uptime: Callable[[], Uptime] = uptime
    ) -> None:
        self.uptime = uptime
        self._connection = connection
        self._path = path
        self._files = DatabaseFiles(connection, path)
        self._complete_at: Uptime | None = None  # the last complete reading of this process
        self._unwritten_new: dict[GroupOnTopic, RememberedReader] = {}
        self._unwritten_changed: dict[GroupOnTopic, RememberedReader] = {}
        """New and changed readers of cycles that could not write the file; see `Changes`."""
        self._last_read: tuple[int, Remembered] | None = None
        """The file's contents, and their `_version`."""

    @classmethod
    def open(cls, state_dir: Path, *, shared: bool = False) -> Self:
        """Creates the file if there is none; keeps a damaged one aside and remembers the loss.

        Only the holder of the state lock may do that. ``shared`` is for other processes: a daemon
        may be using the file, so a missing or damaged file is an error. Raises `StateError` then,
        and if the file can't be used or is of another version.
        """
        path = state_dir / groups_file.NAME
        with _errors_translated(path):
            opened = groups_file.open_shared if shared else groups_file.open_for_writing
            return cls(opened(path), path)

    def close(self) -> None:
        self._connection.close()

    def recall(self) -> Remembered:
        """The memory. The file is read again only if it may have changed since the last time."""
        with _errors_translated(self._path):
            groups_file.check_files(self._path, self._files)
            # Asked before the reading: if another process writes meanwhile, the next call reads it.
            version = self._version()
            if self._last_read is None or self._last_read[0] != version:
                self._last_read = (version, read_all(self._connection))
            remembered = self._last_read[1]
        if not self._unwritten_new and not self._unwritten_changed:
            return remembered
        commits = {**remembered.commits, **self._unwritten_new}
        changed = {at: last for at, last in self._unwritten_changed.items() if at in commits}
        return replace(remembered, commits={**commits, **changed})

    def _version(self) -> int:
        """SQLite's data_version: it changes if another process writes."""
        ((version,),) = self._connection.execute("PRAGMA data_version").fetchall()
        return int(version)

    def observed_ms(self, most_ms: int) -> int:
        """How much time has certainly passed since the last complete reading, ``most_ms`` at most:
        a cycle can't know what happened while no cycle was running."""
        with _errors_translated(self._path):
            since = self._complete_at or read_observed(self._connection)
        return min(elapsed_ms(since, self.uptime()), most_ms)

    def remember(self, seen: Changes, before: Remembered) -> None:
        """Writes the changes that a cycle has seen, and returns once they are on disk. ``before``
        is the memory that the cycle has recalled.

        Raises `StateError`, also if the memory is about another cluster. Then nothing has changed
        on disk, but this process remembers the cycle's readers until it can write them.
        """
        refuse_another_cluster(before.cluster_id, seen.cluster_id, self._path.parent)
        now = self.uptime()
        if seen or self._unwritten_new or self._unwritten_changed or before.cluster_id is None:
            others = chain(seen.absent, seen.still_absent, seen.forgotten)
            topics = {*seen.void_topics, *seen.dropped_topics}
            with (
                _errors_translated(self._path),
                self._writing(seen.new_readers, seen.changed_readers, others, topics),
            ):
                if before.cluster_id is None:
                    groups_file.write_cluster(self._connection, seen.cluster_id)
                self._apply(seen)
                if seen.counts_time:
                    self._connection.execute("DELETE FROM observed")
                    self._connection.execute("INSERT INTO observed VALUES (?, ?)", now)
        if seen.is_complete:
            self._complete_at = now

    def remember_newcomers(self, seen: NewlySeen, before: Remembered) -> Remembered:
        """Writes what only the guard's reading has seen. Returns the memory ``before`` with it, for
        the next readings. Raises `StateError`."""
        if not seen.new_readers and not seen.stale:
            return before
        known = self.recall().commits
        renewed = {
            at: with_stale(known[at], offsets, seen.now_ms)
            for at, offsets in seen.stale.items()
            if at in known and at not in seen.new_readers
        }
        with _errors_translated(self._path), self._writing(seen.new_readers, renewed):
            self._connection.executemany(KEEP_READER, rows_of(seen.new_readers))
            self._connection.executemany(RENEW_READER, rows_of(renewed))
        return replace(before, commits={**before.commits, **seen.new_readers, **renewed})

    def forget(
        self,
        group_id: str,
        topics: Collection[str] | None = None,
        *,
        is_external: bool | None = None,
    ) -> tuple[str, ...]:
        """Releases a reader on these topics, or on all, in one transaction. Returns the topics
        where it was remembered, sorted.

        ``is_external``: whether to release the external reader or the group of that name; None
        releases both."""
        named = None if topics is None else json.dumps([*topics])
        with _errors_translated(self._path), self._transaction():
            rows = self._connection.execute(
                "DELETE FROM commits WHERE group_id = ?1 "
                "AND (?2 IS NULL OR topic IN (SELECT value FROM json_each(?2))) "
                "AND ifnull(is_external = ?3, ?3 IS NULL) RETURNING topic",
                (group_id, named, is_external),
            ).fetchall()
        return tuple(sorted({topic for (topic,) in rows}))

    def forget_vanished(
        self, readers: Mapping[ReaderName, Collection[str]], vanished_for_ms: int
    ) -> dict[ReaderName, tuple[str, ...]]:
        """Releases readers on these topics, if they are absent on all their topics and were
        observed to be absent for at least ``vanished_for_ms``. Returns the topics of each released
        reader. It is one transaction, so that a reader that a cycle has seen again meanwhile
        stays."""
        forgotten = {}
        with _errors_translated(self._path), self._transaction():
            for reader, topics in readers.items():
                rows = self._connection.execute(
                    _FORGET_VANISHED,
                    (
                        reader.group_id,
                        json.dumps([*topics]),
                        vanished_for_ms,
                        reader.is_external,
                    ),
                ).fetchall()
                if rows:
                    forgotten[reader] = tuple(sorted(name for (name,) in rows))
        return forgotten

    def accept_losses(self) -> tuple[str, ...]:
        """Accepts that remembered groups were lost. Returns the sentences about the losses."""
        with _errors_translated(self._path), self._transaction():
            rows = self._connection.execute("DELETE FROM losses RETURNING sentence").fetchall()
        return tuple(sentence for (sentence,) in rows)

    def _apply(self, changed: Changes) -> None:
        run = self._connection.executemany
        nothing = NONE.packed()
        run(
            "UPDATE commits SET offsets = ?, moved_at_ms = ?, stale = '[]' WHERE topic = ?",
            [(nothing, nothing, topic) for topic in changed.void_topics],
        )
        run(
            _KEEP_TOPIC,
            [
                (name, topic.topic_id, json.dumps(topic.groups), topic.agreed)
                for name, topic in changed.topics.items()
            ],
        )
        run(KEEP_READER, rows_of(changed.new_readers))
        run(RENEW_READER, rows_of(changed.changed_readers))
        run(
            "UPDATE commits SET absent_since_ms = ?, absent_ms = 0 "
            "WHERE group_id = ? AND topic = ? AND is_external = ?",
            [(changed.now_ms, *at) for at in changed.absent],
        )
        run(
            "UPDATE commits SET absent_ms = absent_ms + ? "
            "WHERE group_id = ? AND topic = ? AND is_external = ?",
            [(changed.observed_ms, *at) for at in changed.still_absent],
        )
        run(
            "DELETE FROM commits WHERE group_id = ? AND topic = ? AND is_external = ?",
            changed.forgotten,
        )
        run(_KEEP_GONE, changed.gone_ms.items())
        run("DELETE FROM gone WHERE topic = ?", [(topic,) for topic in changed.not_gone])
        for table in ("gone", "topics", "commits"):
            dropped = [(topic,) for topic in changed.dropped_topics]
            run(f"DELETE FROM {table} WHERE topic = ?", dropped)

    @contextmanager
    def _writing(
        self,
        new: Mapping[GroupOnTopic, RememberedReader],
        changed: Mapping[GroupOnTopic, RememberedReader],
        others: Iterable[GroupOnTopic] = (),
        topics: Set[str] = frozenset(),
    ) -> Iterator[None]:
        """A transaction that first writes the readers that could not be written before. If it
        fails, ``new`` and ``changed`` readers wait for the next one. ``others``, and all readers of
        the ``topics``: those whose rows it writes, too."""
        run = self._connection.executemany
        as_written = {**self._unwritten_new, **self._unwritten_changed, **new, **changed}
        by_statements = {*others}
        if self._last_read is not None:
            there = self._last_read[1].commits
            by_statements |= {at for at in there if at.topic in topics}
            # One that is not in the file is not renewed: an operator has released it.
            by_statements |= (
                as_written.keys() - there.keys() - self._unwritten_new.keys() - new.keys()
            )
        try:
            with self._transaction(_Written(as_written, by_statements)):
                run(KEEP_READER, rows_of(self._unwritten_new))
                run(RENEW_READER, rows_of(self._unwritten_changed))
                yield
        except BaseException:
            self._unwritten_new |= new
            self._unwritten_changed |= changed
            raise
        self._unwritten_new, self._unwritten_changed = {}, {}

    @contextmanager
    def _transaction(self, written: _Written | None = None) -> Iterator[None]:
        """A transaction that ends with a checkpoint: SQLite takes a write-ahead log that is gone,
        cut or damaged for an empty or a shorter one, and would lose its last transactions.
        ``written``: the readers whose rows it writes; None: any."""
        groups_file.check_files(self._path, self._files)
        known, self._last_read = self._last_read, None
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            news = None
            if known is not None and written is not None:
                # Of the version that it was: what others have written since is read by a recall.
                version, before = known
                as_written = replace(before, commits={**before.commits, **written.readers})
                news = version, read_again(self._connection, as_written, written.by_statements)
            self._connection.execute("COMMIT")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            groups_file.check_files(self._path, self._files)
        except BaseException:
            if self._connection.in_transaction:  # SQLite itself rolls back when the disk is full
                self._connection.execute("ROLLBACK")
            raise
        self._last_read = news


@contextmanager
def _errors_translated(path: Path) -> Iterator[None]:
    """Turns errors of SQLite and of the file system into `StateError`."""
    try:
        yield
    except (OSError, sqlite3.Error, ValueError, KeyError, TypeError) as error:
        raise StateError(
            f"the remembered groups in {path} can't be used ({error}); without them nothing is "
            f"deleted: {say_remedy(error)}"
        ) from error
