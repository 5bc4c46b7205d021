"""The remembered groups: who reads each enabled topic, with its last commits, and the topics' ids.

Invariants:

- A reader's absence alone never drops it. An operator or the policy may release it, and a topic
  that is gone for long takes its readers along.
- A cycle that could not see everything may add readers and removes none.
- The file is about one cluster.
- A reading is on disk before anything is deleted on its account.
- A file that can't be read is kept aside, and everything is held until an operator accepts the
  loss.

The file is SQLite (WAL, synchronous=FULL), because other processes may forget groups meanwhile. A
cycle writes the topics whose readers have changed, in one transaction.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np

from retentiond.clock import Uptime, elapsed_ms, uptime
from retentiond.errors import StateError
from retentiond.gather.gather import refuse_another_cluster
from retentiond.memory.changes import Changes, newly_seen, written
from retentiond.memory.readers import NOBODY, ReaderName, Readers
from retentiond.memory.remembered import Remembered
from retentiond.snapshot import Snapshot
from retentiond.state import groups_file
from retentiond.state.groups_tables import read_all, read_observed, read_others, write_readers
from retentiond.state.state_dir import DatabaseFiles, say_remedy

_KEEP_TOPIC = """
INSERT INTO topics (topic, topic_id, groups, agreed) VALUES (?, ?, ?, ?)
ON CONFLICT (topic) DO UPDATE
SET topic_id = excluded.topic_id, groups = excluded.groups, agreed = excluded.agreed
"""

_KEEP_GONE = """
INSERT INTO gone (topic, ms) VALUES (?, ?) ON CONFLICT (topic) DO UPDATE SET ms = excluded.ms
"""


@dataclass(slots=True)
class _Contents:
    """The readers that the file has. As a transaction leaves them, they are written at its end."""

    readers: Readers


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
        self._unwritten = (NOBODY, NOBODY)
        """New and renewed readers of cycles that could not write the file; see `Changes`."""
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
        """The file is read again only if it may have changed since the last time."""
        with _errors_translated(self._path):
            groups_file.check_files(self._path, self._files)
            remembered = self._read()
        readers = written(remembered.readers, *self._unwritten)
        is_written = readers is remembered.readers
        return remembered if is_written else replace(remembered, readers=readers)

    def _read(self) -> Remembered:
        # Asked before the reading: if another process writes meanwhile, the next call reads it.
        version = self._version()
        if self._last_read is None or self._last_read[0] != version:
            self._last_read = (version, read_all(self._connection))
        return self._last_read[1]

    def _version(self) -> int:
        """It changes if another process writes."""
        ((version,),) = self._connection.execute("PRAGMA data_version").fetchall()
        return int(version)

    def observed_ms(self, most_ms: int) -> int:
        """How much time has certainly passed since the last complete reading, ``most_ms`` at most:
        a cycle can't know what happened while no cycle was running."""
        with _errors_translated(self._path):
            since = self._complete_at or read_observed(self._connection)
        return min(elapsed_ms(since, self.uptime()), most_ms)

    def remember(self, changed: Changes, before: Remembered) -> None:
        """Writes the changes that a cycle has seen, and returns once they are on disk. ``before``
        is the memory that the cycle has recalled.

        Raises `StateError`, also if the memory is about another cluster. Then nothing has changed
        on disk, but this process remembers the cycle's readers until it can write them.
        """
        refuse_another_cluster(before.cluster_id, changed.cluster_id, self._path.parent)
        now = self.uptime()
        if changed or any(map(len, self._unwritten)) or before.cluster_id is None:
            with self._writing(changed.new, changed.renewed) as contents:
                if before.cluster_id is None:
                    groups_file.write_cluster(self._connection, changed.cluster_id)
                self._apply(changed, contents)
                if changed.counts_time:
                    self._connection.execute("DELETE FROM observed")
                    self._connection.execute("INSERT INTO observed VALUES (?, ?)", now)
        if changed.is_complete:
            self._complete_at = now

    def remember_newcomers(
        self, second: Snapshot, shown: Readers, before: Remembered
    ) -> Remembered:
        """Writes what only the guard's reading ``second`` has shown (`newly_seen`). Returns the
        memory ``before`` with it, for the next readings. Raises `StateError`."""
        new, renewed = newly_seen(second, shown, before.readers, self.recall().readers)
        if not len(new) and not len(renewed):
            return before
        with self._writing(new, renewed) as contents:
            contents.readers = written(contents.readers, new, renewed)
        return replace(before, readers=before.readers.with_rows(new).with_rows(renewed))

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
        with self._transaction() as contents:
            readers = contents.readers
            is_meant = readers.are(group_id, is_external)
            if topics is not None:
                is_meant &= readers.are_on(topics)
            contents.readers = readers.where(~is_meant)
        return tuple(sorted(readers.where(is_meant).topics))

    def forget_vanished(
        self, meant: Mapping[ReaderName, Collection[str]], vanished_for_ms: int
    ) -> dict[ReaderName, tuple[str, ...]]:
        """Releases the readers that are ``meant`` on these topics, if they are absent on all their
        topics and were observed to be absent for at least ``vanished_for_ms``. Returns the topics
        of each released reader. It is one transaction, so that a reader that a cycle has seen again
        meanwhile stays."""
        forgotten = {}
        with self._transaction() as contents:
            readers = contents.readers
            is_gone = readers.is_absent & (readers.absent_ms >= vanished_for_ms)
            is_released = np.zeros(len(readers), np.bool_)
            for reader, topics in meant.items():
                is_meant = readers.are(*reader)
                if not (is_meant & ~is_gone).any() and (is_meant & readers.are_on(topics)).any():
                    is_meant &= readers.are_on(topics)
                    forgotten[reader] = tuple(sorted(readers.where(is_meant).topics))
                    is_released |= is_meant
            contents.readers = readers.where(~is_released)
        return forgotten

    def accept_losses(self) -> tuple[str, ...]:
        """Returns the sentences about the losses."""
        with self._transaction():
            rows = self._connection.execute("DELETE FROM losses RETURNING sentence").fetchall()
        return tuple(sentence for (sentence,) in rows)

    def _apply(self, changed: Changes, contents: _Contents) -> None:
        contents.readers = changed.applied(contents.readers)
        run = self._connection.executemany
        run(
            _KEEP_TOPIC,
            [
                (name, topic.topic_id, json.dumps(topic.groups), topic.agreed)
                for name, topic in changed.topics.items()
            ],
        )
        run(_KEEP_GONE, changed.gone_ms.items())
        run("DELETE FROM gone WHERE topic = ?", [(topic,) for topic in changed.not_gone])
        for table in ("gone", "topics"):
            dropped = [(topic,) for topic in changed.dropped_topics]
            run(f"DELETE FROM {table} WHERE topic = ?", dropped)

    @contextmanager
    def _writing(self, new: Readers, renewed: Readers) -> Iterator[_Contents]:
        """A transaction that also writes the readers that could not be written before. If it fails,
        ``new`` and ``renewed`` readers wait for the next one."""
        unwritten_new, unwritten_renewed = self._unwritten
        try:
            with self._transaction() as contents:
                contents.readers = written(contents.readers, unwritten_new, unwritten_renewed)
                yield contents
        except BaseException:
            self._unwritten = unwritten_new.with_rows(new), unwritten_renewed.with_rows(renewed)
            raise
        self._unwritten = NOBODY, NOBODY

    @contextmanager
    def _transaction(self) -> Iterator[_Contents]:
        """A transaction that ends with a checkpoint: SQLite takes a write-ahead log that is gone,
        cut or damaged for an empty or a shorter one, and would lose its last transactions. Raises
        `StateError`."""
        with _errors_translated(self._path):
            groups_file.check_files(self._path, self._files)
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                before = self._read().readers
                version, self._last_read = self._version(), None
                contents = _Contents(before)
                yield contents
                write_readers(self._connection, before, contents.readers)
                after = read_others(self._connection, contents.readers)
                self._connection.execute("COMMIT")
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                groups_file.check_files(self._path, self._files)
            except BaseException:
                # SQLite itself rolls back when the disk is full.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            self._last_read = version, after


@contextmanager
def _errors_translated(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error, ValueError, KeyError, TypeError) as error:
        raise StateError(
            f"the remembered groups in {path} can't be used ({error}); without them nothing is "
            f"deleted: {say_remedy(error, path)}"
        ) from error
