"""Which groups are known to read one topic, for whoever watches: read without a trace."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from retentiond.collect.remembered import LastCommits
from retentiond.errors import StateError
from retentiond.model import GroupKind
from retentiond.state import memory_file
from retentiond.state.sqlite import connect

_OF_TOPIC = """
SELECT group_id, kind, offsets, absent_since_ms, moved_at_ms FROM commits
WHERE topic = ? ORDER BY group_id
"""


def readers_of(state_dir: Path, topic: str) -> dict[str, LastCommits] | None:
    """Each group's last commits on a topic, by group. None where they can't be read."""
    path = state_dir / memory_file.NAME
    if not path.exists():
        return None
    try:
        with closing(connect(path, read_only=True)) as connection:
            memory_file.check_version(connection, path)
            return {
                group_id: LastCommits(
                    GroupKind(kind),
                    _by_partition(offsets),
                    absent_since_ms,
                    _by_partition(moved_at_ms),
                )
                for group_id, kind, offsets, absent_since_ms, moved_at_ms in connection.execute(
                    _OF_TOPIC, (topic,)
                )
            }
    except (StateError, sqlite3.Error, ValueError, AttributeError):
        return None


def _by_partition(written: str) -> dict[int, int]:
    """JSON's keys are texts."""
    return {int(partition): int(value) for partition, value in json.loads(written).items()}
