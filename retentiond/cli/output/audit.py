"""How the audit log looks: a table for people, JSON and CSV for programs, and files of deletions.

Parquet has the field names of JSON.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, TextIO, TypeVar

import pyarrow as pa
from pyarrow import parquet
from rich.console import Console

from retentiond.cli.output.files import new_file, refuse_unfit
from retentiond.cli.output.printing import Column, ColumnKind, Row, print_table, printer, say
from retentiond.errors import UsageError
from retentiond.formatting import rfc3339, say_any, say_many, say_name
from retentiond.model import Outcome
from retentiond.state.audit_records import DeletionRecord
from retentiond.state.operator_actions import Action
from retentiond.tell.reasons import say_groups_only
from retentiond.tell.report import row_document

T = TypeVar("T")

COLUMNS = (
    Column("REQUESTED", ColumnKind.WORD),
    Column("TOPIC-PARTITION", ColumnKind.NAME),
    Column("FROM", ColumnKind.FIGURE, spare=True),
    Column("CUTOFF", ColumnKind.FIGURE, spare=True),
    Column("RECORDS", ColumnKind.FIGURE),
    Column("OUTCOME", ColumnKind.WORD),
    Column("BOUND BY", ColumnKind.NAME),
)

EVIDENCE_COLUMNS = (
    *COLUMNS[:2],
    Column("GROUP", ColumnKind.NAME),
    Column("COMMITTED", ColumnKind.FIGURE),
)

ACTION_COLUMNS = (
    Column("AT", ColumnKind.WORD),
    Column("BY", ColumnKind.WORD),
    Column("ACTION", ColumnKind.WORD),
    Column("SUBJECT", ColumnKind.NAME),
    Column("DETAIL", ColumnKind.NAME, spare=True),
)

STYLES = {Outcome.FAILED: "red", Outcome.UNKNOWN: "yellow"}


TABLE_ROWS = 1000
"""A table is measured as a whole, so a long list is several, each with its headings."""


def show_table(deletions: Iterable[DeletionRecord], *, with_evidence: bool) -> None:
    console = printer()
    only: dict[str, dict[str, None]] = {}  # in the order of the log
    deletions = _noting(deletions, only)
    if with_evidence:
        count = _show_rows(console, EVIDENCE_COLUMNS, deletions, _evidence_rows)
    else:
        count = _show_rows(console, COLUMNS, deletions, lambda each: [_row(each)])
    for pattern, topics in only.items():
        say(console, say_groups_only(pattern, list(topics)))
    say(console, say_many(count, "deletion"))


def _noting(
    deletions: Iterable[DeletionRecord], only: dict[str, dict[str, None]]
) -> Iterator[DeletionRecord]:
    """The same, while ``only`` learns where not every group counted: topics by pattern."""
    for each in deletions:
        if each.row.only_groups is not None:
            only.setdefault(each.row.only_groups, {})[each.row.topic] = None
        yield each


def write_csv(deletions: Iterable[DeletionRecord], to: TextIO, *, with_evidence: bool) -> int:
    """A line for each deletion, or for each group that it rested on; absent is an empty field. How
    many deletions there were."""
    writer, count = None, 0
    for each in deletions:
        count += 1
        for line in _csv_lines(each, with_evidence):
            if writer is None:
                writer = _csv_writer(to, list(line))
            writer.writerow(line)
    if writer is None:
        _csv_writer(to, ["cycle_id", "topic", "partition"])
    return count


def _csv_writer(to: TextIO, heads: list[str]) -> csv.DictWriter[str]:
    writer = csv.DictWriter(to, heads, lineterminator="\n")
    writer.writeheader()
    return writer


def show_actions(actions: Iterable[Action]) -> None:
    console = printer()
    count = _show_rows(console, ACTION_COLUMNS, actions, lambda each: [_action_row(each)])
    say(console, say_many(count, "action"))


def _show_rows(
    console: Console,
    columns: Sequence[Column],
    values: Iterable[T],
    rows_of: Callable[[T], Iterable[Row]],
) -> int:
    """How many values there were."""
    rows: list[Row] = []
    count = shown = 0
    for count, value in enumerate(values, 1):
        rows += rows_of(value)
        if len(rows) >= TABLE_ROWS:
            print_table(console, columns, rows)
            shown, rows = count, []
    if rows or not shown:
        print_table(console, columns, rows)
    return count


def action_document(action: Action) -> dict[str, Any]:
    return {
        "at": rfc3339(action.at_ms),
        "operator": action.operator,
        "action": action.action,
        "subject": action.subject,
        "detail": action.detail,
    }


def document(deletion: DeletionRecord) -> dict[str, Any]:
    """The plan's field names (`retentiond plan --output json`), and what the audit adds."""
    return {
        "cycle_id": deletion.cycle_id,
        "cluster_id": deletion.cluster_id,
        **row_document(deletion.row),
        "freed_bytes": deletion.freed_bytes,
        "evidence_at": rfc3339(deletion.evidence_at_ms),
        "requested_at": rfc3339(deletion.requested_at_ms),
        "outcome": _outcome(deletion),
        "low_watermark": deletion.low_watermark,
        "error": deletion.error,
        "evidence": {group.group_id: group.committed_offset for group in deletion.evidence},
    }


def _csv_lines(deletion: DeletionRecord, with_evidence: bool) -> Iterator[dict[str, Any]]:
    line = document(deletion)
    evidence = line.pop("evidence")
    if not with_evidence:
        yield line
        return
    for group_id, committed_offset in evidence.items():
        yield line | {"group": group_id, "committed_offset": committed_offset}


def _row(deletion: DeletionRecord) -> Row:
    row = deletion.row
    cells = [
        *_place(deletion),
        str(row.log_start_offset),
        str(row.cutoff),
        str(row.records),
        _outcome(deletion),
        say_any(row.binding_group),
    ]
    return Row(cells, STYLES.get(deletion.outcome or Outcome.UNKNOWN, ""))


def _evidence_rows(deletion: DeletionRecord) -> Iterator[Row]:
    for group in deletion.evidence:
        yield Row([*_place(deletion), say_name(group.group_id), str(group.committed_offset)])


def _place(deletion: DeletionRecord) -> tuple[str, str]:
    row = deletion.row
    return rfc3339(deletion.requested_at_ms), f"{row.topic}-{row.partition}"


def _action_row(action: Action) -> Row:
    return Row(
        [
            rfc3339(action.at_ms),
            action.operator,
            action.action,
            say_any(action.subject),
            action.detail or "-",
        ]
    )


def _outcome(deletion: DeletionRecord) -> str:
    """An intent that is still open may have reached the broker: nobody knows."""
    return str(deletion.outcome or Outcome.UNKNOWN)


GROUP_ROWS = 5_000
"""So many rows are in memory at a time."""

_TEXT, _FIGURE, _TIME = pa.string(), pa.int64(), pa.timestamp("ms", "UTC")

SCHEMA = pa.schema(
    [
        ("cycle_id", _TEXT),
        ("cluster_id", _TEXT),
        ("topic", _TEXT),
        ("partition", _FIGURE),
        ("topic_id", _TEXT),
        ("log_start_offset", _FIGURE),
        ("high_watermark", _FIGURE),
        ("min_committed_offset", _FIGURE),
        ("binding_group", _TEXT),
        ("binding_committed_offset", _FIGURE),
        ("retention_offset", _FIGURE),
        ("cutoff", _FIGURE),
        ("verdict", _TEXT),
        ("reason", _TEXT),
        ("groups", _FIGURE),
        ("records", _FIGURE),
        ("predicted_bytes", _FIGURE),
        ("predicted_remote_bytes", _FIGURE),
        ("consumed_retention_ms", _FIGURE),
        ("only_groups", _TEXT),
        ("detail", _TEXT),
        ("freed_bytes", _FIGURE),
        ("evidence_at", _TIME),
        ("requested_at", _TIME),
        ("outcome", _TEXT),
        ("low_watermark", _FIGURE),
        ("error", _TEXT),
        ("evidence", pa.map_(_TEXT, _FIGURE)),  # by group, its committed offset
    ]
)
"""One row for each deletion."""


EXPORT = "--export"


def refuse_export(path: Path) -> None:
    """Raises `UsageError` for a file that can't be made, before anything is read."""
    if path.suffix not in {".parquet", ".csv"}:
        raise UsageError(f"{EXPORT} {path}: give a name that ends with .parquet or .csv")
    refuse_unfit(path, EXPORT)


def export_deletions(
    deletions: Iterable[DeletionRecord], path: Path, *, with_evidence: bool
) -> int:
    """How many there were. ``with_evidence``: CSV has a line for each group then."""
    with new_file(path, EXPORT) as unfinished:
        if path.suffix != ".csv":
            return _write_parquet(deletions, unfinished)
        with unfinished.open("w", encoding="utf-8", newline="") as file:
            return write_csv(deletions, file, with_evidence=with_evidence)


def _write_parquet(deletions: Iterable[DeletionRecord], path: Path) -> int:
    rows, count = map(_parquet_row, deletions), 0
    with parquet.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
        while group := list(islice(rows, GROUP_ROWS)):
            writer.write_table(pa.Table.from_pylist(group, SCHEMA))
            count += len(group)
    return count


def _parquet_row(deletion: DeletionRecord) -> dict[str, Any]:
    return document(deletion) | {
        "evidence_at": _time(deletion.evidence_at_ms),
        "requested_at": _time(deletion.requested_at_ms),
        "evidence": [(group.group_id, group.committed_offset) for group in deletion.evidence],
    }


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)
