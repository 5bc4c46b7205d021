"""The audit log: every deletion before its request, with its evidence, and its outcome.

Invariants:

- `Audit.intend` returns only once its batch is safely on disk (SQLite with a WAL and
  synchronous=FULL, one transaction), in files that still have their names. So no request goes out
  unrecorded.
- An outcome is written once; only an unknown one may still become known.
- The table itself refuses `deleted` unless the low watermark has reached the cutoff.

One process writes (it holds the `state_lock`), and its threads share one connection. A reader has a
connection of its own (`retentiond.state.audit_records`); it neither waits for the writer nor makes
it wait. Entries older than ``audit.keep`` are removed (`retentiond.state.audit_pruning`).
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields
from pathlib import Path
from threading import Lock
from typing import Self

from retentiond.act.approved import Approved, UnprovenDeletion
from retentiond.clock import Stop, Uptime, uptime
from retentiond.disks.freed import Freed
from retentiond.errors import StateError, StateReplaced
from retentiond.model import DeletionOutcome, GroupKind, Outcome, PlanRow
from retentiond.state.audit_file import AUDIT_NAME, AUDITED, open_for_writing, unusable
from retentiond.state.audit_pruning import PRUNING_S, look_at_clock, prune_step
from retentiond.state.audit_records import CycleRecord
from retentiond.state.state_dir import BUSY_MS, LOCK_NAME, DatabaseFiles

_KNOWN_AT_INTENT = tuple(field.name for field in AUDITED if not field.said.is_known_late)
_KNOWN_LATER = tuple(field.name for field in AUDITED if field.said.is_known_late)
"""The columns from a plan's row, split by whether they are known before the request."""


def _insert(table: str, *columns: str) -> str:
    values = ", ".join(f":{name}" for name in columns)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})"


def _update(*columns: str, only_if: str) -> str:
    """For an entry that is there: an outcome without its intent is an error."""
    changes = ", ".join(f"{name} = :{name}" for name in columns)
    is_deletion = "cycle_id = :cycle_id AND topic = :topic AND partition = :partition"
    return f"UPDATE deletions SET {changes} WHERE {is_deletion} AND {only_if}"


_CYCLE_COLUMNS = tuple(field.name for field in fields(CycleRecord))

_RECORD_CYCLE = (
    f"{_insert('cycles', *_CYCLE_COLUMNS, 'observed_ms')} ON CONFLICT (cycle_id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in _CYCLE_COLUMNS)
)

_INTEND = _insert(
    "deletions",
    *("cycle_id", "evidence_at_ms", "requested_at_ms", "group_list", "committed_offsets"),
    *_KNOWN_AT_INTENT,
)

_SETTLE = _update(
    *("outcome", "low_watermark", "error", "settled_at_ms", "unsettled"), only_if="unsettled = 1"
)

_PREDICTED = _update(*_KNOWN_LATER, only_if="TRUE")

_FREED = _update("freed_bytes", only_if="freed_bytes IS NULL")

_UNSETTLED = """
SELECT cycle_id, topic, partition, topic_id, cutoff, outcome
FROM deletions JOIN cycles USING (cycle_id)
WHERE unsettled = 1 AND cluster_id = ?
ORDER BY id
"""


class Audit:
    """The only writer of the audit log; a `retentiond.act.approved.Journal`. Every method may raise
    `StateError`."""

    def __init__(self, state_dir: Path, connection: sqlite3.Connection) -> None:
        self.state_dir = state_dir
        self.uptime: Callable[[], Uptime] = uptime
        self._connection = connection
        self._files = DatabaseFiles(connection, state_dir / AUDIT_NAME, state_dir / LOCK_NAME)
        self._connection_lock = Lock()

    @classmethod
    def open(cls, state_dir: Path) -> Self:
        """The caller holds the `state_lock`."""
        return cls(state_dir, open_for_writing(state_dir))

    def close(self) -> None:
        with self._connection_lock:
            self._connection.close()

    def record_cycle(self, cycle: CycleRecord) -> None:
        """Records the cycle before its first `intend`, and again when it has finished."""
        with self._transaction() as connection:
            observed_ms = look_at_clock(connection, self.uptime())
            connection.execute(_RECORD_CYCLE, {**asdict(cycle), "observed_ms": observed_ms})
        self._checkpoint()

    def prune(
        self,
        keep_ms: int | None,
        stop: Stop,
        most_s: float = PRUNING_S,
        max_bytes: int | None = None,
    ) -> None:
        """Removes entries older than ``keep_ms``, and the oldest ones if the log exceeds
        ``max_bytes``. Ends after ``most_s``; the next call goes on. Runs between cycles, and gives
        way to other writers of the log."""
        began = time.monotonic()
        while not stop.is_set():
            step_began = time.monotonic()
            with self._transaction() as connection:
                has_more = prune_step(connection, keep_ms, self.uptime(), max_bytes)
            now = time.monotonic()
            if not has_more or now - began >= most_s or stop.wait(now - step_began):
                return

    def intend(
        self,
        cycle_id: str,
        batch: Sequence[Approved],
        requested_at_ms: int,
        *,
        evidence_at_ms: int,
    ) -> None:
        with self._transaction() as connection:
            # By identity, which the batch keeps: comparing long lists would take longer.
            lists = {id(deletion.evidence.groups): deletion.evidence.groups for deletion in batch}
            list_ids = {key: _list_id(connection, groups) for key, groups in lists.items()}
            connection.executemany(
                _INTEND,
                [
                    {name: getattr(deletion.row, name) for name in _KNOWN_AT_INTENT}
                    | {
                        "cycle_id": cycle_id,
                        "evidence_at_ms": evidence_at_ms,
                        "requested_at_ms": requested_at_ms,
                        "group_list": list_ids[id(deletion.evidence.groups)],
                        "committed_offsets": json.dumps(deletion.evidence.committed_offsets),
                        # The approved values win over the plan's.
                        "topic": deletion.topic,
                        "partition": deletion.partition,
                        "topic_id": deletion.topic_id,
                        "log_start_offset": deletion.log_start_offset,
                        "cutoff": deletion.cutoff,
                        "records": deletion.cutoff - deletion.log_start_offset,
                    }
                    for deletion in batch
                ],
            )

    def settle(
        self,
        cycle_id: str,
        outcomes: Sequence[DeletionOutcome],
        settled_at_ms: int,
        *,
        give_up: bool = False,
    ) -> None:
        with self._transaction() as connection:
            settled = connection.executemany(
                _SETTLE,
                [
                    {
                        **asdict(outcome),
                        "cycle_id": cycle_id,
                        "settled_at_ms": settled_at_ms,
                        "unsettled": outcome.outcome is Outcome.UNKNOWN and not give_up,
                    }
                    for outcome in outcomes
                ],
            ).rowcount
            if outcomes and settled != len(outcomes):
                raise StateError(
                    f"the audit log has no open intent for {len(outcomes) - settled} of "
                    f"{len(outcomes)} outcomes of cycle {cycle_id}; please report this"
                )

    def record_predicted(self, cycle_id: str, rows: Sequence[PlanRow]) -> None:
        values = [
            {name: getattr(row, name) for name in _KNOWN_LATER}
            | {"cycle_id": cycle_id, "topic": row.topic, "partition": row.partition}
            for row in rows
        ]
        if values:
            with self._transaction() as connection:
                connection.executemany(_PREDICTED, values)

    def record_freed(self, freed: Sequence[Freed]) -> None:
        """A recorded figure stays."""
        if freed:
            with self._transaction() as connection:
                rows = [{**deletion.at._asdict(), **deletion._asdict()} for deletion in freed]
                connection.executemany(_FREED, rows)

    def unsettled(self, cluster_id: str) -> tuple[UnprovenDeletion, ...]:
        with self._connection_lock:
            try:
                rows = self._connection.execute(_UNSETTLED, (cluster_id,)).fetchall()
            except sqlite3.Error as exc:
                raise unusable(self.state_dir / AUDIT_NAME, exc) from exc
        return tuple(
            UnprovenDeletion(
                cycle_id=cycle_id,
                topic=topic,
                partition=partition,
                topic_id=topic_id,
                cutoff=cutoff,
                outcome=None if outcome is None else Outcome(outcome),
            )
            for cycle_id, topic, partition, topic_id, cutoff, outcome in rows
        )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """It is on disk afterwards as a whole, or not at all, in files that still have their
        names."""
        with self._connection_lock:
            try:
                self._check_files()
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    yield self._connection
                    self._connection.commit()
                except BaseException:
                    self._connection.rollback()
                    raise
                self._check_files()
            except sqlite3.Error as exc:
                raise unusable(self.state_dir / AUDIT_NAME, exc) from exc

    def _checkpoint(self) -> None:
        """Moves the entries in SQLite's write-ahead log to the file itself: a crash that cuts or
        loses the write-ahead log would lose them. A reader may prevent it; then the next
        checkpoint does it."""
        with self._connection_lock, suppress(sqlite3.Error):
            self._connection.execute("PRAGMA busy_timeout = 0")
            try:
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                self._connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")

    def _check_files(self) -> None:
        if (lost := self._files.lost()) is not None:
            raise StateReplaced(
                f"the audit log {self.state_dir / AUDIT_NAME} was removed or replaced while it "
                f"was in use ({lost.name}), so nothing is deleted; put it back if you still have "
                "it, and restart retentiond: it goes on with that log, or begins a new one"
            )


def _list_id(connection: sqlite3.Connection, groups: Sequence[tuple[str, GroupKind]]) -> int:
    """The id of the list in the evidence. A list is stored once."""
    listed = json.dumps(groups)
    connection.execute(
        "INSERT INTO group_lists (groups) VALUES (?) ON CONFLICT DO NOTHING", (listed,)
    )
    query = "SELECT id FROM group_lists WHERE groups = ?"
    ((list_id,),) = connection.execute(query, (listed,)).fetchall()
    return int(list_id)
