"""The remembered groups as they stand in their file: rows become values."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from retentiond.collect.arrival import EndsSeen
from retentiond.collect.remembered import GroupOnTopic, KnownTopic, LastCommits, Remembered
from retentiond.model import GroupKind


def read_all(connection: sqlite3.Connection) -> Remembered:
    """Everything. Raises `sqlite3.Error`, or `ValueError` and `TypeError` for a row that was
    not written by retentiond."""
    commits: dict[GroupOnTopic, LastCommits] = {}
    query = "SELECT group_id, topic, kind, offsets, absent_since_ms, moved_at_ms FROM commits"
    for group_id, topic, kind, offsets, absent_since_ms, moved_at_ms in connection.execute(query):
        commits[GroupOnTopic(group_id, topic)] = last_commits(
            kind, offsets, absent_since_ms, moved_at_ms
        )
    losses = [sentence for (sentence,) in connection.execute("SELECT sentence FROM losses")]
    topics = connection.execute("SELECT topic, topic_id, groups, agreed, ends FROM topics")
    return Remembered(
        topics={
            name: KnownTopic(
                topic_id,
                tuple(json.loads(groups)),
                agreed,
                tuple(EndsSeen(at_ms, _by_partition(read)) for at_ms, read in json.loads(ends)),
            )
            for name, topic_id, groups, agreed, ends in topics
        },
        commits=commits,
        lost="; ".join(losses) or None,
    )


def last_commits(
    kind: str, offsets: str, absent_since_ms: int | None, moved_at_ms: str
) -> LastCommits:
    """A row of the table ``commits``. Raises as `read_all` does."""
    return LastCommits(
        GroupKind(kind),
        _by_partition(json.loads(offsets)),
        absent_since_ms,
        _by_partition(json.loads(moved_at_ms)),
    )


def _by_partition(written: Any) -> dict[int, int]:
    """Offsets or times. JSON's keys are texts."""
    if not isinstance(written, dict):
        raise TypeError("what is kept by partition is no mapping")
    if {*map(type, written.values())} - {int} or min(written.values(), default=0) < 0:
        raise ValueError(f"{[*written.values()]} are not all offsets or times")
    return dict(zip(map(int, written), written.values(), strict=True))
