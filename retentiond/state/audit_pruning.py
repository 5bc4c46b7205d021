"""How old the entries of the audit log are, and how old entries are removed.

Invariants:

- An entry is removed once it is older than ``audit.keep`` by monotonic time. The difference of two
  dates says nothing if a clock was set between them. So each cycle and each action is recorded with
  the time that the log had certainly seen pass.
- A cycle with an open intent, or with an outcome that may still become known, stays whole.
- The last cycle stays: it proves that a missing memory of groups is a loss.

If the entries take more than ``audit.max_bytes``, the oldest cycles go, however young they are.
Operators' actions stay, because they are few.

Entries are removed in small transactions, so that another writer waits for one of them at most.
SQLite uses the free pages again. If there are many, they are given back to the disk.
"""

from __future__ import annotations

import sqlite3

from retentiond.clock import Uptime, elapsed_ms
from retentiond.state.audit_file import page_counts

SMALL_LOG_BYTES = 64 * 1024 * 1024
"""A log up to this size keeps its free pages."""

BEFORE_ALL_MS = -1  # earlier than every entry

STEP_ROWS = 500  # are removed in a step

STEP_PAGES = 500  # of 4 KiB are given back in a step

PRUNING_S = 5.0
"""How long pruning goes on after a cycle at most, unless a tenth of the interval is shorter."""

_OLD_CYCLES = """
SELECT cycle_id FROM cycles
WHERE observed_ms <= ? AND observed_ms < (SELECT max(observed_ms) FROM cycles)
    AND cycle_id NOT IN (SELECT cycle_id FROM deletions WHERE unsettled = 1)
ORDER BY observed_ms LIMIT ?
"""

_DROP_DELETIONS = """
DELETE FROM deletions WHERE id IN (SELECT id FROM deletions WHERE cycle_id = ? LIMIT ?)
RETURNING group_list
"""

_DROP_ACTIONS = """
DELETE FROM actions WHERE id IN (
    SELECT id FROM (SELECT id, observed_ms FROM actions ORDER BY id LIMIT ?) WHERE observed_ms <= ?
)
"""

_DROP_LIST = """
DELETE FROM group_lists
WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM deletions WHERE group_list = ?1)
"""


def observed_ms(connection: sqlite3.Connection, now: Uptime) -> int:
    """How much time has certainly passed since the log was created. Raises `sqlite3.Error`."""
    for boot_id, ms, total_ms in connection.execute("SELECT boot_id, ms, total_ms FROM passed"):
        return int(total_ms) + elapsed_ms(Uptime(boot_id, ms), now)
    return 0


def look_at_clock(connection: sqlite3.Connection, now: Uptime) -> int:
    """`observed_ms`, stored for the next look. Call it within a transaction."""
    total_ms = observed_ms(connection, now)
    connection.execute("DELETE FROM passed")
    connection.execute("INSERT INTO passed VALUES (?, ?, ?)", (*now, total_ms))
    return total_ms


def prune_step(
    connection: sqlite3.Connection, keep_ms: int | None, now: Uptime, max_bytes: int | None = None
) -> bool:
    """Removes some old entries, within a transaction. Returns whether there may be more to remove.
    ``keep_ms`` and ``max_bytes``: None is no limit."""
    at_ms = observed_ms(connection, now)
    old_ms = BEFORE_ALL_MS if keep_ms is None else at_ms - keep_ms
    pages, free, page_bytes = page_counts(connection)
    is_too_large = max_bytes is not None and (pages - free) * page_bytes > max_bytes
    until_ms, left, lists = at_ms if is_too_large else old_ms, STEP_ROWS, set[int]()
    for (cycle_id,) in connection.execute(_OLD_CYCLES, (until_ms, STEP_ROWS)).fetchall():
        dropped = connection.execute(_DROP_DELETIONS, (cycle_id, left)).fetchall()
        lists.update(group_list for (group_list,) in dropped)
        left -= len(dropped)
        if left <= 0:
            break
        connection.execute("DELETE FROM cycles WHERE cycle_id = ?", (cycle_id,))
        left -= 1
    connection.executemany(_DROP_LIST, [(list_id,) for list_id in lists])
    left -= connection.execute(_DROP_ACTIONS, (STEP_ROWS, old_ms)).rowcount
    return left < STEP_ROWS or _give_pages_back(connection)


def _give_pages_back(connection: sqlite3.Connection) -> bool:
    """Gives some free pages of a large log back to the disk. Returns whether that had an effect: a
    file that was restored from SQL keeps its free pages."""
    pages, free, page_bytes = page_counts(connection)
    if pages * page_bytes < SMALL_LOG_BYTES or free * 4 < pages:
        return False
    for _ in range(STEP_PAGES):  # Python's sqlite3 runs a pragma for one step, which is one page
        connection.execute("PRAGMA incremental_vacuum(1)")
    ((still_free,),) = connection.execute("PRAGMA freelist_count").fetchall()
    return bool(still_free < free)
