"""What the audit log proves: how much was deleted by day, and that each deletion was allowed.

Reading by day is bounded by time: a page must not wait for a log of years, nor take the processor
from the cycle. If the time is over, the figures are not known.

`differences` states the rule a third time, and shares no code with the plan or the guard:

    cutoff <= min(every group's committed offset, retention offset, high watermark)

A cutoff may lie below that bound, because the plan's reading is older than the evidence and the
last stable offset is not recorded. A cutoff above it was wrong, or the log was changed.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from retentiond.errors import StateError
from retentiond.formatting import DAY_MS, say_name
from retentiond.model import Outcome
from retentiond.state.audit_file import AUDIT_NAME, check_schema
from retentiond.state.audit_records import DeletionRecord
from retentiond.state.state_dir import connect

READ_TIMEOUT_S = 0.25

STEPS_BETWEEN_CHECKS = 1000
"""Steps of SQLite's virtual machine, which takes a million of them in some 10 ms."""

BY_DAY = f"""
SELECT
    requested_at_ms / {DAY_MS} AS day,
    ifnull(sum(records) FILTER (WHERE error IS NULL), 0),
    sum(freed_bytes)
FROM deletions
WHERE topic = :topic AND outcome = 'deleted' AND requested_at_ms BETWEEN :since_ms AND :last_ms
GROUP BY day
ORDER BY day
"""


class DeletedInDay(NamedTuple):
    """``day_ms``: when the day began, in UTC. ``freed_bytes``: as far as it is known yet."""

    day_ms: int
    records: int
    freed_bytes: int | None


def deleted_by_day(
    state_dir: Path, topic: str, now_ms: int, days: int, *, timeout_s: float = READ_TIMEOUT_S
) -> tuple[DeletedInDay, ...] | None:
    """What was deleted from a topic on each of the last ``days``, today included; only days with a
    deletion. None if the log can't be read, or not within ``timeout_s``."""
    today = now_ms // DAY_MS
    since_ms, last_ms = (today + 1 - days) * DAY_MS, (today + 1) * DAY_MS - 1
    values = {"topic": topic, "since_ms": since_ms, "last_ms": last_ms}
    try:
        with _opened_briefly(state_dir / AUDIT_NAME, timeout_s) as connection:
            rows = [] if connection is None else connection.execute(BY_DAY, values).fetchall()
    except (StateError, sqlite3.Error):
        return None
    return tuple(DeletedInDay(day * DAY_MS, *figures) for day, *figures in rows)


@contextmanager
def _opened_briefly(path: Path, timeout_s: float) -> Iterator[sqlite3.Connection | None]:
    """A connection whose queries raise `sqlite3.OperationalError` (interrupted) once the time is
    over. None if there is no log, because nothing was deleted yet."""
    if not path.exists():
        yield None
        return
    give_up_at = time.monotonic() + timeout_s
    with closing(connect(path, read_only=True)) as connection:
        check_schema(connection, path)
        connection.set_progress_handler(
            lambda: int(time.monotonic() > give_up_at), STEPS_BETWEEN_CHECKS
        )
        yield connection


def differences(deletion: DeletionRecord) -> tuple[str, ...]:
    """A sentence for everything about a deletion that its own evidence does not prove; empty if
    the deletion was allowed."""
    return tuple(_differences(deletion))


def _differences(deletion: DeletionRecord) -> Iterator[str]:
    row, cutoff = deletion.row, deletion.row.cutoff
    if cutoff is None or row.log_start_offset is None:
        yield "the cutoff or the log start offset is missing"
        return
    if not deletion.evidence:
        yield "no group is recorded that had read the records"
    for group in deletion.evidence:
        if group.committed_offset < cutoff:
            yield f"group {say_name(group.group_id)} had committed {group.committed_offset} only"
    bounds = {
        "the plan's min committed offset": row.min_committed_offset,
        "the retention offset": row.retention_offset,
        "the high watermark": row.high_watermark,
    }
    for name, offset in bounds.items():
        if offset is None:
            yield f"{name} is missing"
        elif offset < cutoff:
            yield f"{name} was {offset}"
    if row.groups > len(deletion.evidence):
        yield f"the plan counted {row.groups} groups, and {len(deletion.evidence)} are recorded"
    if row.records != cutoff - row.log_start_offset:
        yield f"{row.records} records are recorded, from offset {row.log_start_offset} on"
    if deletion.evidence_at_ms > deletion.requested_at_ms:
        yield "the evidence was read after the request"
    if deletion.outcome is Outcome.DELETED and (deletion.low_watermark or 0) < cutoff:
        yield f"it counts as deleted, and the low watermark was {deletion.low_watermark}"
