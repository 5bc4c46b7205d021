"""The remembered groups: each group's last commits on each enabled topic, and the topics' ids.

Invariants: nothing is dropped because it is absent, only because an operator, the policy or a
new topic id says so; what is seen is on disk before anything is deleted on its account; and a
file that can't be read is kept aside, and holds everything until an operator accepts the loss.
SQLite (WAL, synchronous=FULL), one transaction a cycle, and only what has changed.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Self

from retentiond.collect.remembered import NOTHING, GroupOnTopic, LastCommits, Remembered
from retentiond.collect.snapshot import Snapshot
from retentiond.errors import StateError
from retentiond.state import memory_file
from retentiond.state.changes import Changes, changes
from retentiond.state.memory_rows import read_all
from retentiond.state.sqlite import connect

_KEEP_TOPIC = """
INSERT INTO topics (topic, topic_id, groups, agreed, ends) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (topic) DO UPDATE
SET topic_id = excluded.topic_id, groups = excluded.groups, agreed = excluded.agreed,
    ends = excluded.ends
"""

_KEEP_COMMITS = """
INSERT INTO commits (kind, offsets, moved_at_ms, group_id, topic) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (group_id, topic) DO UPDATE
SET kind = excluded.kind, offsets = excluded.offsets, moved_at_ms = excluded.moved_at_ms,
    absent_since_ms = NULL
"""

_RENEW_COMMITS = """
UPDATE commits SET kind = ?, offsets = ?, moved_at_ms = ?, absent_since_ms = NULL
WHERE group_id = ? AND topic = ?
"""
"""No INSERT: an operator may have released the group a moment ago."""


class Memory:
    """The writer of ``groups.db``. Other processes may read it, and forget groups, meanwhile."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._identity = memory_file.identity(path)

    @classmethod
    def open(cls, state_dir: Path, *, shared: bool = False) -> Self:
        """Makes the file if there is none; keeps a damaged one aside and remembers the loss.

        Only who holds the state lock may do that. ``shared`` is for the others: a daemon may be
        using the file, so to them a missing or damaged one is an error. Raises `StateError` then,
        and when the file can't be used or is of a newer version.
        """
        path = state_dir / memory_file.NAME
        with _explained(path):
            opened = memory_file.open_shared if shared else memory_file.open_for_writing
            return cls(opened(path), path)

    def close(self) -> None:
        self._connection.close()

    def recall(self) -> Remembered:
        with _explained(self._path):
            memory_file.check_place(self._path, self._identity)
            return read_all(self._connection)

    def remember(self, snapshot: Snapshot, before: Remembered, settle_cycles: int) -> None:
        """Takes over what a cycle has seen; ``before`` is what it had recalled.

        On disk when it returns. Raises `StateError`, and then nothing has changed.
        """
        changed = changes(snapshot, before, settle_cycles)
        if changed:
            with _explained(self._path):
                memory_file.check_place(self._path, self._identity)
                with self._transaction():
                    self._apply(changed)

    def forget(self, group_id: str) -> tuple[str, ...]:
        """Releases a group; the topics that it was remembered on, sorted."""
        with _explained(self._path), self._transaction():
            rows = self._connection.execute(
                "DELETE FROM commits WHERE group_id = ? RETURNING topic", (group_id,)
            ).fetchall()
        return tuple(sorted(topic for (topic,) in rows))

    def accept_losses(self) -> tuple[str, ...]:
        """Goes on without what was lost; the sentences about it."""
        with _explained(self._path), self._transaction():
            rows = self._connection.execute("DELETE FROM losses RETURNING sentence").fetchall()
        return tuple(sentence for (sentence,) in rows)

    def _apply(self, changed: Changes) -> None:
        run = self._connection.executemany
        run("DELETE FROM commits WHERE topic = ?", [(topic,) for topic in changed.void_topics])
        run(
            _KEEP_TOPIC,
            [
                (
                    name,
                    topic.topic_id,
                    json.dumps(topic.groups),
                    topic.agreed,
                    json.dumps([[seen.at_ms, seen.high_watermarks] for seen in topic.ends]),
                )
                for name, topic in changed.topics.items()
            ],
        )
        run(_KEEP_COMMITS, _rows(changed.found))
        run(_RENEW_COMMITS, _rows(changed.seen))
        run(
            "UPDATE commits SET absent_since_ms = ? WHERE group_id = ? AND topic = ?",
            [(changed.now_ms, *at) for at in changed.absent],
        )
        run("DELETE FROM commits WHERE group_id = ? AND topic = ?", changed.forgotten)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:  # SQLite itself rolls back when the disk is full
                self._connection.execute("ROLLBACK")
            raise


def recall(state_dir: Path) -> Remembered:
    """What is remembered, read without a trace; a file that can't be read is a loss."""
    path = state_dir / memory_file.NAME
    try:
        if not path.exists():
            lost = memory_file.loss_of_missing(path)
            return Remembered(lost=lost) if lost else NOTHING
        with closing(connect(path, read_only=True)) as connection:
            memory_file.check_version(connection, path)
            return read_all(connection)
    except (OSError, sqlite3.Error, ValueError, KeyError, TypeError) as error:
        return Remembered(lost=f"the remembered groups in {path} can't be read ({error})")


def _rows(commits: Mapping[GroupOnTopic, LastCommits]) -> list[tuple[str, str, str, str, str]]:
    return [
        (last.kind.value, json.dumps(last.offsets), json.dumps(last.moved_at_ms), *at)
        for at, last in commits.items()
    ]


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Raises `StateError` in place of SQLite's errors and the file system's."""
    try:
        yield
    except (OSError, sqlite3.Error, ValueError, KeyError, TypeError) as error:
        raise StateError(
            f"the remembered groups in {path} can't be used ({error}); without them nothing is "
            "deleted: see to free space and write permission in state_dir"
        ) from error
