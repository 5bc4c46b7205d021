"""What was deleted over time, summed up from the audit log for whoever watches.

Reading is bounded by time: a page must not wait for a log of years, nor take the processor from
the cycle. What can't be read within the bound is not known.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from retentiond.errors import StateError
from retentiond.state.schema import AUDIT_NAME, check_version
from retentiond.state.sqlite import connect

PATIENCE_S = 0.25
"""How long a look may take."""

STEPS_BETWEEN_LOOKS = 1000
"""SQLite's virtual machine takes a million in some 10 ms."""

BY_TOPIC = """
SELECT
    (requested_at_ms - :since_ms) / :width_ms AS slot,
    sum(records),
    sum(freed_bytes)
FROM deletions
WHERE topic = :topic AND outcome = 'deleted' AND requested_at_ms BETWEEN :since_ms AND :last_ms
GROUP BY slot
"""

BY_CYCLE = """
SELECT (planned_at_ms - :since_ms) / :width_ms AS slot, sum(records_deleted), NULL
FROM cycles
WHERE planned_at_ms BETWEEN :since_ms AND :last_ms
GROUP BY slot
"""


@dataclass(frozen=True, slots=True)
class Slots:
    """A stretch of time in equal parts: ``count`` of ``width_ms`` from ``since_ms`` on."""

    since_ms: int
    width_ms: int
    count: int

    @property
    def last_ms(self) -> int:
        return self.since_ms + self.count * self.width_ms - 1


@dataclass(frozen=True, slots=True)
class Freed:
    """One slot's. ``freed_bytes``: on the disks of all replicas, as far as it is known yet."""

    records: int = 0
    freed_bytes: int | None = None


NONE_FREED = Freed()


def freed_over_time(
    state_dir: Path, slots: Slots, topic: str | None = None, *, patience_s: float = PATIENCE_S
) -> tuple[Freed, ...] | None:
    """One for each slot; of all topics together (then no bytes are known), or of one.

    None where the log can't be read, or not within ``patience_s``.
    """
    values = {"since_ms": slots.since_ms, "width_ms": slots.width_ms, "last_ms": slots.last_ms}
    query = BY_CYCLE if topic is None else BY_TOPIC
    found: dict[int, Freed] = {}
    try:
        with _reading(state_dir / AUDIT_NAME, patience_s) as connection:
            if connection is not None:
                found = _by_slot(connection, query, values | ({"topic": topic} if topic else {}))
    except (StateError, sqlite3.Error):
        return None
    return tuple(found.get(slot, NONE_FREED) for slot in range(slots.count))


def _by_slot(
    connection: sqlite3.Connection, query: str, values: Mapping[str, int | str]
) -> dict[int, Freed]:
    return {
        slot: Freed(records, freed_bytes)
        for slot, records, freed_bytes in connection.execute(query, values)
    }


@contextmanager
def _reading(path: Path, patience_s: float) -> Iterator[sqlite3.Connection | None]:
    """None while there is no log: nothing was deleted yet. Raises `sqlite3.OperationalError`
    (interrupted) in whatever is asked of it once the time is over."""
    if not path.exists():
        yield None
        return
    give_up_at = time.monotonic() + patience_s
    with closing(connect(path, read_only=True)) as connection:
        check_version(connection, path)
        connection.set_progress_handler(
            lambda: int(time.monotonic() > give_up_at), STEPS_BETWEEN_LOOKS
        )
        yield connection
