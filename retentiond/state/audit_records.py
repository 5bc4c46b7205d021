"""The entries of the audit log as values: how deletions are read and what they prove, and how a
cycle's own entry is made.

Reading never writes and never waits for the writer (WAL): every call has a read-only connection of
its own, so any thread or process may read while a cycle deletes. It reads in pages, because a long
transaction would keep SQLite from checkpointing the write-ahead log. Reading by day is bounded by
time: a page must not wait for a log of years, nor take the processor from the cycle.

`differences` states the rule a third time, and shares no code with the plan or the guard:

    cutoff <= min(every group's committed offset, retention offset, high watermark)

A cutoff may lie below that bound, because the plan's reading is older than the evidence and the
last stable offset is not recorded. A cutoff above it was wrong, or the log was changed.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from retentiond.act.approved import CommitEvidence, GroupEvidence
from retentiond.errors import StateError
from retentiond.fields import (
    BYTES,
    NUMBER,
    OFFSET,
    OFFSET_BY_NAME,
    SENTENCE,
    TEXT,
    TIME,
    WORD,
    Storage,
    described,
    figure,
    inlined,
    said,
)
from retentiond.formatting import DAY_MS, say_name
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
from retentiond.state.audit_file import AUDITED, is_begun, opened_for_reading

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


@described
class DeletionRecord:
    """One partition's deletion in one cycle, with its evidence.

    ``outcome``: None for an open intent. If the outcome of a request was unknown and a later cycle
    repeated it, both may end as `deleted`; then their records are the same.
    """

    id: int
    cycle_id: str = said(TEXT, "the cycle's id")
    cluster_id: str = said(TEXT, "the cluster's id")
    row: PlanRow = inlined(PlanRow)
    freed_bytes: int | None = said(
        BYTES, "what it freed on the disks of all replicas; null: not known, or not yet"
    )
    evidence_at_ms: int = said(TIME, "when the reading that gave the evidence began")
    requested_at_ms: int = said(TIME, "when it was requested")

    @figure(WORD, f"what became of it: {', '.join(Outcome)}", name="outcome")
    def known_outcome(self) -> Outcome:
        """An intent that is still open may have reached the broker: nobody knows."""
        return self.outcome or Outcome.UNKNOWN

    low_watermark: int | None = said(OFFSET, "the log start offset after it")
    error: str | None = said(SENTENCE, "what went wrong, or what is not known")

    @figure(OFFSET_BY_NAME, "by group, the committed offset that it rested on", name="evidence")
    def committed_offsets(self) -> dict[str, int]:
        return {group.group_id: group.committed_offset for group in self.evidence}

    evidence: tuple[GroupEvidence, ...]
    outcome: Outcome | None
    settled_at_ms: int | None


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
        field.name: bool(stored[field.name])
        if field.said.type.storage is Storage.FLAG
        else stored[field.name]
        for field in AUDITED
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
    verdicts = plan.verdicts
    counts = Counter(outcome.outcome for outcome in outcomes)
    ours = {outcome.topic_partition for outcome in outcomes if outcome.is_ours}
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


READ_TIMEOUT_S = 0.25

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
        if not is_begun(state_dir):
            return ()  # nothing was deleted yet
        with opened_for_reading(state_dir, timeout_s) as connection:
            rows = connection.execute(BY_DAY, values).fetchall()
    except StateError:
        return None
    return tuple(DeletedInDay(day * DAY_MS, *figures) for day, *figures in rows)


@described
class LastRequests:
    """A topic's, or a partition's, latest requests that ended alike, and not well."""

    outcome: Outcome = said(WORD, "failed or unknown")
    count: int = said(NUMBER, "how many there were")
    since_ms: int = said(TIME, "when the first of them was made")
    error: str | None = said(SENTENCE, "what went wrong with the latest one")


LATEST_REQUESTS = 10_000

LATEST = f"""
SELECT ifnull(outcome, 'unknown') AS outcome, requested_at_ms, error
FROM deletions WHERE topic = :topic AND (:partition IS NULL OR partition = :partition)
ORDER BY id DESC LIMIT {LATEST_REQUESTS}
"""


def last_requests(
    state_dir: Path, topic: str, partition: int | None = None, *, timeout_s: float = READ_TIMEOUT_S
) -> LastRequests | None:
    """None if the latest request did what it should, if there was none, or if the log can't be
    read within ``timeout_s``."""
    values = {"topic": topic, "partition": partition}
    try:
        with opened_for_reading(state_dir, timeout_s) as connection:
            rows = connection.execute(LATEST, values).fetchall()
    except StateError:
        return None
    alike = [*takewhile(lambda row: row[0] == rows[0][0], rows)]
    outcome = Outcome(alike[0][0]) if alike else Outcome.DELETED
    if outcome not in (Outcome.FAILED, Outcome.UNKNOWN):
        return None
    return LastRequests(outcome, len(alike), alike[-1][1], alike[0][2])


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
