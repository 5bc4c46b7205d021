"""The entries of the audit log as values: how deletions are read, and how a cycle's own entry is
made.

Reading never writes and never waits for the writer (WAL): every call has a read-only connection of
its own, so any thread or process may read while a cycle deletes. It reads in pages, because a long
transaction would keep SQLite from checkpointing the write-ahead log.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from retentiond.act.approved import CommitEvidence, GroupEvidence
from retentiond.fields import Storage
from retentiond.model import (
    DeletionOutcome,
    GroupKind,
    Outcome,
    Plan,
    PlanRow,
    Reason,
    Verdict,
    result_of,
)
from retentiond.state.audit_file import AUDITED, opened_for_reading

PAGE_ROWS = 1000


@dataclass(frozen=True, slots=True)
class CycleRecord:
    """Until it has finished, ``finished_at_ms`` and ``result`` are None."""

    cycle_id: str
    cluster_id: str
    planned_at_ms: int
    dry_run: bool
    complete: bool
    partitions: int  # rows of the plan, of which ...
    to_delete: int
    held: int
    finished_at_ms: int | None = None
    result: str | None = None  # ok, incomplete, failed
    deleted: int = 0  # partitions, by outcome
    failed: int = 0
    not_attempted: int = 0
    unknown: int = 0
    records_deleted: int = 0
    error: str | None = None  # what ended the cycle early


@dataclass(frozen=True, slots=True)
class DeletionRecord:
    """One partition's deletion in one cycle, with its evidence.

    ``evidence_at_ms``: when the reading that gave the evidence began. ``outcome``: None for an open
    intent. If the outcome of a request was unknown and a later cycle repeated it, both may end as
    `deleted`; then their records are the same.
    """

    id: int
    cycle_id: str
    cluster_id: str
    row: PlanRow
    evidence: tuple[GroupEvidence, ...]
    evidence_at_ms: int
    requested_at_ms: int
    outcome: Outcome | None
    low_watermark: int | None
    error: str | None
    settled_at_ms: int | None
    freed_bytes: int | None = None  # on the disks of all replicas; None: not known, or not yet


@dataclass(frozen=True, slots=True)
class DeletionFilter:
    """Which deletions to read; None is no condition. The times are those of the request;
    ``until_ms`` is excluded.

    An open intent counts as a deletion with an unknown outcome.
    """

    topic: str | None = None
    partition: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    outcome: Outcome | None = None

    def has_time(self, at_ms: int) -> bool:
        is_late_enough = self.since_ms is None or self.since_ms <= at_ms
        return is_late_enough and (self.until_ms is None or at_ms < self.until_ms)


EVERYTHING = DeletionFilter()

_CONDITIONS = {
    "topic": "topic = :topic",
    "partition": "partition = :partition",
    "since_ms": "requested_at_ms >= :since_ms",
    "until_ms": "requested_at_ms < :until_ms",
    "outcome": "ifnull(outcome, 'unknown') = :outcome",
}


def read_deletions(
    state_dir: Path, wanted: DeletionFilter = EVERYTHING
) -> Iterator[DeletionRecord]:
    """Oldest first. Raises `StateError` if there is no audit log, or if it can't be read."""
    values = {name: value for name, value in asdict(wanted).items() if value is not None}
    conditions = " AND ".join(_CONDITIONS[name] for name in values)
    query = f"""
        SELECT deletions.*, cluster_id, group_lists.groups AS listed_groups
        FROM deletions JOIN cycles USING (cycle_id)
        JOIN group_lists ON group_lists.id = group_list
        WHERE deletions.id > :after {conditions and f"AND {conditions}"}
        ORDER BY deletions.id LIMIT {PAGE_ROWS}
    """
    after = 0
    with opened_for_reading(state_dir) as connection:
        while page := connection.execute(query, {**values, "after": after}).fetchall():
            yield from map(_deletion, page)
            after = page[-1]["id"]


def _deletion(stored: sqlite3.Row) -> DeletionRecord:
    row_fields: dict[str, Any] = {
        name: bool(stored[name]) if said.type.storage is Storage.FLAG else stored[name]
        for name, said in AUDITED
    }
    groups = tuple((name, GroupKind(kind)) for name, kind in json.loads(stored["listed_groups"]))
    return DeletionRecord(
        id=stored["id"],
        cycle_id=stored["cycle_id"],
        cluster_id=stored["cluster_id"],
        row=PlanRow(**row_fields, verdict=Verdict.DELETE, reason=Reason.CONSUMED),
        evidence=tuple(CommitEvidence(groups, tuple(json.loads(stored["committed_offsets"])))),
        evidence_at_ms=stored["evidence_at_ms"],
        requested_at_ms=stored["requested_at_ms"],
        outcome=None if stored["outcome"] is None else Outcome(stored["outcome"]),
        low_watermark=stored["low_watermark"],
        error=stored["error"],
        settled_at_ms=stored["settled_at_ms"],
        freed_bytes=stored["freed_bytes"],
    )


def cycle_record(
    plan: Plan,
    outcomes: Sequence[DeletionOutcome] = (),
    finished_at_ms: int | None = None,
    failure: Exception | None = None,
) -> CycleRecord:
    """The record of a cycle: before its first deletion is requested, and once no more outcomes can
    become known in it (``finished_at_ms``). ``failure``: what ended it early."""
    verdicts = Counter(row.verdict for row in plan.rows)
    counts = Counter(each.outcome for each in outcomes)
    ours = {each.topic_partition for each in outcomes if each.is_ours}
    return CycleRecord(
        cycle_id=plan.cycle_id,
        cluster_id=plan.cluster_id,
        planned_at_ms=plan.planned_at_ms,
        dry_run=plan.dry_run,
        complete=plan.complete,
        partitions=len(plan.rows),
        to_delete=verdicts[Verdict.DELETE],
        held=verdicts[Verdict.HOLD],
        finished_at_ms=finished_at_ms,
        result=None if finished_at_ms is None else result_of(plan, outcomes, failure),
        deleted=counts[Outcome.DELETED],
        failed=counts[Outcome.FAILED],
        not_attempted=counts[Outcome.NOT_ATTEMPTED],
        unknown=counts[Outcome.UNKNOWN],
        records_deleted=sum(row.records for row in plan.rows if row.topic_partition in ours),
        error=None if failure is None else f"{type(failure).__name__}: {failure}",
    )
