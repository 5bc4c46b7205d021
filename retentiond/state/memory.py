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

from retentiond.collect.remembered import (
    NOTHING,
    GroupOnTopic,
    KnownTopic,
    LastCommits,
    Remembered,
)
from retentiond.collect.snapshot import Snapshot
from retentiond.errors import StateError
from retentiond.model import GroupKind
from retentiond.state import memory_file
from retentiond.state.changes import Changes, changes

_KEEP_TOPIC = """
INSERT INTO topics (topic, topic_id, groups, agreed) VALUES (?, ?, ?, ?)
ON CONFLICT (topic) DO UPDATE
SET topic_id = excluded.topic_id, groups = excluded.groups, agreed = excluded.agreed
"""

_KEEP_COMMITS = """
INSERT INTO commits (group_id, topic, kind, offsets) VALUES (?, ?, ?, ?)
ON CONFLICT (group_id, topic) DO UPDATE
SET kind = excluded.kind, offsets = excluded.offsets, absent_since_ms = NULL
"""


class Memory:
    """The writer of ``groups.db``. Other processes may read it, and forget groups, meanwhile."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    @classmethod
    def open(cls, state_dir: Path) -> Self:
        """Makes the file if there is none; keeps a damaged one aside and remembers the loss.

        Raises `StateError` when the file can't be used or is of a newer version.
        """
        path = state_dir / memory_file.NAME
        with _explained(path):
            return cls(memory_file.open_for_writing(path), path)

    def close(self) -> None:
        self._connection.close()

    def recall(self) -> Remembered:
        with _explained(self._path):
            return _read(self._connection)

    def remember(self, snapshot: Snapshot, before: Remembered, settle_cycles: int) -> None:
        """Takes over what a cycle has seen; ``before`` is what it had recalled.

        On disk when it returns. Raises `StateError`, and then nothing has changed.
        """
        changed = changes(snapshot, before, settle_cycles)
        if changed:
            with _explained(self._path), self._transaction():
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
                (name, topic.topic_id, json.dumps(topic.groups), topic.agreed)
                for name, topic in changed.topics.items()
            ],
        )
        run(
            _KEEP_COMMITS,
            [(*at, last.kind.value, json.dumps(last.offsets)) for at, last in changed.seen.items()],
        )
        run(
            # no INSERT: an operator may have released the group a moment ago
            "UPDATE commits SET absent_since_ms = ? WHERE group_id = ? AND topic = ?",
            [(changed.now_ms, *at) for at in changed.absent],
        )
        run("DELETE FROM commits WHERE group_id = ? AND topic = ?", changed.forgotten)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")


def recall(state_dir: Path) -> Remembered:
    """What is remembered, read without a trace; a file that can't be read is a loss."""
    path = state_dir / memory_file.NAME
    if not path.exists():
        return NOTHING
    try:
        with closing(memory_file.connect(path, read_only=True)) as connection:
            memory_file.check_version(connection, path)
            return _read(connection)
    except (OSError, sqlite3.Error, ValueError, KeyError, TypeError) as error:
        return Remembered(lost=f"the remembered groups in {path} can't be read ({error})")


def _read(connection: sqlite3.Connection) -> Remembered:
    commits: dict[GroupOnTopic, LastCommits] = {}
    query = "SELECT group_id, topic, kind, offsets, absent_since_ms FROM commits"
    for group_id, topic, kind, offsets, absent_since_ms in connection.execute(query):
        commits[GroupOnTopic(group_id, topic)] = LastCommits(
            GroupKind(kind), _offsets(json.loads(offsets)), absent_since_ms
        )
    losses = [sentence for (sentence,) in connection.execute("SELECT sentence FROM losses")]
    topics = connection.execute("SELECT topic, topic_id, groups, agreed FROM topics")
    return Remembered(
        topics={
            name: KnownTopic(topic_id, tuple(json.loads(groups)), agreed)
            for name, topic_id, groups, agreed in topics
        },
        commits=commits,
        lost="; ".join(losses) or None,
    )


def _offsets(written: Mapping[str, int]) -> dict[int, int]:
    """JSON's keys are texts."""
    return {int(partition): offset for partition, offset in written.items()}


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
