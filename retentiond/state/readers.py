"""Which groups are known to read one topic, for whoever watches: read without a trace."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from retentiond.collect.remembered import LastCommits
from retentiond.errors import StateError
from retentiond.state import memory_file
from retentiond.state.memory_rows import last_commits
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
                group_id: last_commits(*stored)
                for group_id, *stored in connection.execute(_OF_TOPIC, (topic,))
            }
    except (StateError, sqlite3.Error, ValueError, TypeError):
        return None
