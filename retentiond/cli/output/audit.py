"""How the audit log looks: a table for people, JSON and CSV for programs, and files of deletions.

Parquet has the field names of JSON.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TextIO, TypeVar

import pyarrow as pa
from pyarrow import parquet

from retentiond.act.approved import GroupEvidence
from retentiond.cli.output.files import new_file, refuse_unfit
from retentiond.cli.output.printing import FIGURE, NAME, WORD, Column, Printer, csv_cell
from retentiond.errors import UsageError
from retentiond.fields import Storage, rfc3339
from retentiond.formatting import say_any, say_many, say_name
from retentiond.model import ROW_FIELDS, Outcome
from retentiond.state.audit_records import DeletionRecord
from retentiond.state.operator_actions import Action
from retentiond.tell.reasons import say_groups_only
from retentiond.tell.report import row_document

T = TypeVar("T")


def _outcome(deletion: DeletionRecord) -> str:
    """An intent that is still open may have reached the broker: nobody knows."""
    return str(deletion.outcome or Outcome.UNKNOWN)


COLUMNS: tuple[Column[DeletionRecord], ...] = (
    Column("REQUESTED", WORD, lambda deletion: rfc3339(deletion.requested_at_ms)),
    Column("TOPIC-PARTITION", NAME, lambda deletion: str(deletion.row.topic_partition)),
    Column("FROM", FIGURE, lambda deletion: str(deletion.row.log_start_offset), spare=True),
    Column("CUTOFF", FIGURE, lambda deletion: str(deletion.row.cutoff), spare=True),
    Column("RECORDS", FIGURE, lambda deletion: str(deletion.row.records)),
    Column("OUTCOME", WORD, _outcome),
    Column("BOUND BY", NAME, lambda deletion: say_any(deletion.row.binding_group)),
)

EVIDENCE_COLUMNS: tuple[Column[tuple[DeletionRecord, GroupEvidence]], ...] = (
    Column("REQUESTED", WORD, lambda pair: rfc3339(pair[0].requested_at_ms)),
    Column("TOPIC-PARTITION", NAME, lambda pair: str(pair[0].row.topic_partition)),
    Column("GROUP", NAME, lambda pair: say_name(pair[1].group_id)),
    Column("COMMITTED", FIGURE, lambda pair: str(pair[1].committed_offset)),
)

ACTION_COLUMNS: tuple[Column[Action], ...] = (
    Column("AT", WORD, lambda action: rfc3339(action.at_ms)),
    Column("BY", WORD, lambda action: action.operator),
    Column("ACTION", WORD, lambda action: action.action),
    Column("SUBJECT", NAME, lambda action: say_any(action.subject)),
    Column("DETAIL", NAME, lambda action: action.detail or "-", spare=True),
)

STYLES = {Outcome.FAILED: "red", Outcome.UNKNOWN: "yellow"}


TABLE_ROWS = 1000
"""A table is measured as a whole, so a long list is several, each with its headings."""


def show_table(deletions: Iterable[DeletionRecord], *, with_evidence: bool) -> None:
    printer, count = Printer(), 0
    only: dict[str, dict[str, None]] = {}  # topics by pattern, in the order of the log

    def noted() -> Iterator[DeletionRecord]:
        nonlocal count
        for deletion in deletions:
            count += 1
            if deletion.row.only_groups is not None:
                only.setdefault(deletion.row.only_groups, {})[deletion.row.topic] = None
            yield deletion

    if with_evidence:
        pairs = ((deletion, group) for deletion in noted() for group in deletion.evidence)
        _show_rows(printer, EVIDENCE_COLUMNS, pairs)
    else:
        _show_rows(
            printer,
            COLUMNS,
            noted(),
            lambda deletion: STYLES.get(deletion.outcome or Outcome.UNKNOWN, ""),
            lambda deletion: deletion.error,
        )
    for pattern, topics in only.items():
        printer.say(say_groups_only(pattern, list(topics)))
    printer.say(say_many(count, "deletion"))


class _LineFeeds(NamedTuple):
    """Ends lines with a line feed alone. Python before 3.13 doesn't quote a carriage return in a
    text if the writer's own lines end so."""

    to: TextIO

    def write(self, line: str) -> int:
        return self.to.write(line.removesuffix("\r\n") + "\n")


def write_csv(deletions: Iterable[DeletionRecord], to: TextIO, *, with_evidence: bool) -> int:
    """A line for each deletion, or for each group that it rested on; absent is an empty field. How
    many deletions there were."""
    of_groups = ["group", "committed_offset"] if with_evidence else []
    heads = [name for name in SCHEMA.names if name != "evidence"] + of_groups
    writer = csv.DictWriter(_LineFeeds(to), heads)
    count = 0
    for count, deletion in enumerate(deletions, 1):
        if count == 1:  # nothing is written if the log can't be read
            writer.writeheader()
        line = document(deletion)
        groups = line.pop("evidence").items()
        for group in groups if with_evidence else [()]:
            told = line | dict(zip(of_groups, group, strict=True))
            writer.writerow({name: csv_cell(value) for name, value in told.items()})
    if not count:
        writer.writeheader()
    return count


def show_actions(actions: Iterable[Action]) -> None:
    printer = Printer()
    count = _show_rows(printer, ACTION_COLUMNS, actions)
    printer.say(say_many(count, "action"))


def _show_rows(
    printer: Printer,
    columns: Sequence[Column[T]],
    values: Iterable[T],
    style: Callable[[T], str] = lambda _value: "",
    note: Callable[[T], str | None] = lambda _value: None,
) -> int:
    """How many there were."""
    left, count = iter(values), 0
    while (rows := list(islice(left, TABLE_ROWS))) or not count:
        printer.table(columns, rows, style, note)
        if not rows:
            break
        count += len(rows)
    return count


class AuditField(NamedTuple):
    """What the audit log says of a deletion beside its row of the plan. ``of``: its value; a time
    in epoch milliseconds, which JSON and CSV have as text."""

    name: str
    type: Any  # Arrow's
    of: Callable[[DeletionRecord], Any]


_TEXT, _FIGURE, _TIME = pa.string(), pa.int64(), pa.timestamp("ms", "UTC")

BEFORE_ROW = (
    AuditField("cycle_id", _TEXT, lambda deletion: deletion.cycle_id),
    AuditField("cluster_id", _TEXT, lambda deletion: deletion.cluster_id),
)

AFTER_ROW = (
    AuditField("freed_bytes", _FIGURE, lambda deletion: deletion.freed_bytes),
    AuditField("evidence_at", _TIME, lambda deletion: deletion.evidence_at_ms),
    AuditField("requested_at", _TIME, lambda deletion: deletion.requested_at_ms),
    AuditField("outcome", _TEXT, _outcome),
    AuditField("low_watermark", _FIGURE, lambda deletion: deletion.low_watermark),
    AuditField("error", _TEXT, lambda deletion: deletion.error),
    AuditField(
        "evidence",
        pa.map_(_TEXT, _FIGURE),
        lambda deletion: {group.group_id: group.committed_offset for group in deletion.evidence},
    ),
)

ARROW_TYPES = {
    Storage.TEXT: _TEXT,
    Storage.FLAG: pa.bool_(),
    Storage.INT32: _FIGURE,
    Storage.INT64: _FIGURE,
}

SCHEMA = pa.schema(
    [
        *((field.name, field.type) for field in BEFORE_ROW),
        *(
            (field.name, ARROW_TYPES[field.said.type.storage])
            for field in ROW_FIELDS
            if field.said.documents
        ),
        *((field.name, field.type) for field in AFTER_ROW),
    ]
)
"""One row of the export for each deletion."""


def document(deletion: DeletionRecord) -> dict[str, Any]:
    """The plan's field names (`retentiond plan --output json`), and what the audit adds."""
    return _told(deletion, rfc3339)


def _told(deletion: DeletionRecord, time: Callable[[int], Any]) -> dict[str, Any]:
    """``time``: how a time is told that is known in epoch milliseconds."""

    def values(own: Iterable[AuditField]) -> dict[str, Any]:
        return {
            field.name: time(value) if field.type == _TIME else value
            for field in own
            for value in (field.of(deletion),)
        }

    return values(BEFORE_ROW) | row_document(deletion.row) | values(AFTER_ROW)


GROUP_ROWS = 5_000
"""How many rows are in memory at a time."""

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
    epoch, count = datetime.fromtimestamp(0, UTC), 0

    def row(deletion: DeletionRecord) -> dict[str, Any]:
        told = _told(deletion, lambda ms: epoch + timedelta(milliseconds=ms))
        return told | {"evidence": list(told["evidence"].items())}

    rows = map(row, deletions)
    with parquet.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
        while group := list(islice(rows, GROUP_ROWS)):
            writer.write_table(pa.Table.from_pylist(group, SCHEMA))
            count += len(group)
    return count
