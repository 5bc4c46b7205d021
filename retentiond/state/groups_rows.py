"""A remembered reader as a row of ``commits``, both ways, and the memory as the rows say it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from retentiond.clock import Uptime
from retentiond.memory.by_partition import ByPartition, packed_all
from retentiond.memory.remembered import (
    GroupOnTopic,
    KnownTopic,
    Remembered,
    RememberedReader,
)
from retentiond.model import GroupKind

STORED = "kind, offsets, absent_since_ms, moved_at_ms, absent_ms, seen_at_ms, stale"
"""The columns of ``commits`` without its key, in the order of `_last_commits`."""

KEEP_READER = """
INSERT INTO commits (kind, offsets, moved_at_ms, seen_at_ms, stale, group_id, topic,
    is_external)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (group_id, topic, is_external) DO UPDATE
SET kind = excluded.kind, offsets = excluded.offsets, moved_at_ms = excluded.moved_at_ms,
    seen_at_ms = excluded.seen_at_ms, stale = excluded.stale, absent_since_ms = NULL, absent_ms = 0
"""

RENEW_READER = """
UPDATE commits SET kind = ?, offsets = ?, moved_at_ms = ?, seen_at_ms = ?, stale = ?,
    absent_since_ms = NULL, absent_ms = 0
WHERE group_id = ? AND topic = ? AND is_external = ?
"""
"""No INSERT: an operator may have released the group a moment ago."""


AT_ONCE = 10_000
"""How many readers are packed at once: more would take memory, and gain nothing."""


def rows_of(
    commits: Mapping[GroupOnTopic, RememberedReader],
) -> Iterator[tuple[str, bytes, bytes, int | None, str, str, str, bool]]:
    """What `KEEP_READER` and `RENEW_READER` write, a row for each reader."""
    readers = iter(commits.items())
    while some := [*islice(readers, AT_ONCE)]:
        offsets = packed_all([last.offsets for _, last in some])
        moved_at_ms = packed_all([last.moved_at_ms for _, last in some])
        for (at, last), packed_offsets, packed_times in zip(
            some, offsets, moved_at_ms, strict=True
        ):
            stale = json.dumps(sorted(last.stale)) if last.stale else "[]"
            yield (last.kind.value, packed_offsets, packed_times, last.seen_at_ms, stale, *at)


def read_all(connection: sqlite3.Connection) -> Remembered:
    """Reads the whole memory. Raises `sqlite3.Error`, and `ValueError` or `TypeError` for a row
    that retentiond has not written."""
    commits: dict[GroupOnTopic, RememberedReader] = {}
    query = f"SELECT group_id, topic, {STORED} FROM commits"
    for group_id, topic, *stored in connection.execute(query):
        last = _last_commits(stored)
        commits[_reader(group_id, topic, last)] = last
    return _with_readers(connection, commits)


def read_again(
    connection: sqlite3.Connection, before: Remembered, written: Iterable[GroupOnTopic]
) -> Remembered:
    """Everything, where only the rows of the ``written`` readers differ from what ``before`` says
    of them. Raises as `read_all` does."""
    commits = {**before.commits}
    query = f"SELECT {STORED} FROM commits WHERE group_id = ? AND topic = ? AND is_external = ?"
    for at in written:
        stored = connection.execute(query, at).fetchone()
        if stored is None:
            commits.pop(at, None)
        else:
            commits[at] = _last_commits(stored)
    return _with_readers(connection, commits)


def _with_readers(
    connection: sqlite3.Connection, commits: Mapping[GroupOnTopic, RememberedReader]
) -> Remembered:
    losses = [sentence for (sentence,) in connection.execute("SELECT sentence FROM losses")]
    topics = connection.execute("SELECT topic, topic_id, groups, agreed FROM topics")
    return Remembered(
        topics={
            name: KnownTopic(topic_id, tuple(json.loads(groups)), agreed)
            for name, topic_id, groups, agreed in topics
        },
        commits=commits,
        lost="; ".join(losses) or None,
        cluster_id=read_cluster_id(connection),
        gone_ms=dict(connection.execute("SELECT topic, ms FROM gone")),
    )


def read_cluster_id(connection: sqlite3.Connection) -> str | None:
    for (cluster_id,) in connection.execute("SELECT cluster_id FROM cluster"):
        return str(cluster_id)
    return None


def read_observed(connection: sqlite3.Connection) -> Uptime | None:
    """When the last complete reading was that counted an absence; None if it is not known."""
    for boot_id, ms in connection.execute("SELECT boot_id, ms FROM observed"):
        return Uptime(boot_id, ms)
    return None


def _reader(group_id: str, topic: str, last: RememberedReader) -> GroupOnTopic:
    return GroupOnTopic(group_id, topic, last.kind is GroupKind.EXTERNAL)


def readers_of_topic(
    connection: sqlite3.Connection, topic: str
) -> dict[GroupOnTopic, RememberedReader]:
    """The readers of a topic, sorted by name. Raises as `read_all` does."""
    query = f"SELECT group_id, {STORED} FROM commits WHERE topic = ? ORDER BY group_id"
    return {
        _reader(group_id, topic, last): last
        for group_id, *stored in connection.execute(query, (topic,))
        for last in (_last_commits(stored),)
    }


def topics_of_group(connection: sqlite3.Connection, group_id: str) -> dict[str, RememberedReader]:
    """A reader's last commits, by topic. If a group and an external reader have the name, the one
    that is not absent counts. Raises as `read_all` does."""
    query = f"SELECT topic, {STORED} FROM commits WHERE group_id = ?"
    query += " ORDER BY absent_since_ms IS NULL"
    return {
        topic: _last_commits(stored) for topic, *stored in connection.execute(query, (group_id,))
    }


def _last_commits(stored: Sequence[Any]) -> RememberedReader:
    """A reader from the columns `STORED` of its row."""
    kind, offsets, absent_since_ms, moved_at_ms, absent_ms, seen_at_ms, stale = stored
    return RememberedReader(
        GroupKind(kind),
        ByPartition.unpacked(offsets),
        absent_since_ms,
        ByPartition.unpacked(moved_at_ms),
        absent_ms,
        seen_at_ms,
        frozenset(map(int, json.loads(stale))),
    )
