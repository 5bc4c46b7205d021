"""The remembered groups as they stand in their file: rows become values."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from retentiond.collect.remembered import GroupOnTopic, KnownTopic, LastCommits, Remembered
from retentiond.model import GroupKind


def read_all(connection: sqlite3.Connection) -> Remembered:
    """Everything. Raises `sqlite3.Error`, or `ValueError` and `TypeError` for a row that was
    not written by retentiond."""
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


def _offsets(written: Any) -> dict[int, int]:
    """JSON's keys are texts."""
    if not isinstance(written, dict):
        raise TypeError("a group's offsets are no mapping")
    for offset in written.values():
        if type(offset) is not int or offset < 0:
            raise ValueError(f"{offset!r} is no offset")
    return {int(partition): offset for partition, offset in written.items()}
