"""How the audit log looks: a table for people, JSON and CSV for programs, and files of deletions.

Parquet has the field names of JSON.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TextIO, TypeVar

import pyarrow as pa
from pyarrow import parquet

from retentiond.act.approved import GroupEvidence
from retentiond.cli.output.files import new_file, refuse_unfit
from retentiond.cli.output.printing import FIGURE, NAME, WORD, Column, Printer, columns_of, csv_cell
from retentiond.errors import UsageError
from retentiond.fields import Storage, document_of, figures_of, rfc3339
from retentiond.formatting import say_any, say_many, say_name
from retentiond.model import Outcome
from retentiond.state.audit_records import DeletionRecord
from retentiond.state.operator_actions import Action
from retentiond.tell.reasons import say_groups_only

T = TypeVar("T")


COLUMNS: tuple[Column[DeletionRecord], ...] = (
    Column("REQUESTED", WORD, lambda deletion: rfc3339(deletion.requested_at_ms)),
    Column("TOPIC-PARTITION", NAME, lambda deletion: str(deletion.row.topic_partition)),
    Column("FROM", FIGURE, lambda deletion: str(deletion.row.log_start_offset), spare=True),
    Column("CUTOFF", FIGURE, lambda deletion: str(deletion.row.cutoff), spare=True),
    Column("RECORDS", FIGURE, lambda deletion: str(deletion.row.records)),
    Column("OUTCOME", WORD, lambda deletion: deletion.known_outcome),
    Column("BOUND BY", NAME, lambda deletion: say_any(deletion.row.binding_group)),
)

EVIDENCE_COLUMNS: tuple[Column[tuple[DeletionRecord, GroupEvidence]], ...] = (
    Column("REQUESTED", WORD, lambda pair: rfc3339(pair[0].requested_at_ms)),
    Column("TOPIC-PARTITION", NAME, lambda pair: str(pair[0].row.topic_partition)),
    Column("GROUP", NAME, lambda pair: say_name(pair[1].group_id)),
    Column("COMMITTED", FIGURE, lambda pair: str(pair[1].committed_offset)),
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
            lambda deletion: STYLES.get(deletion.known_outcome, ""),
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
        line = document_of(deletion)
        groups = line.pop("evidence").items()
        for group in groups if with_evidence else [()]:
            told = line | dict(zip(of_groups, group, strict=True))
            writer.writerow({name: csv_cell(value) for name, value in told.items()})
    if not count:
        writer.writeheader()
    return count


def show_actions(actions: Iterable[Action]) -> None:
    printer = Printer()
    count = _show_rows(printer, columns_of(Action), actions)
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


ARROW_TYPES = {
    Storage.TEXT: pa.string(),
    Storage.SENTENCE: pa.string(),
    Storage.WORD: pa.string(),
    Storage.FLAG: pa.bool_(),
    Storage.INT32: pa.int64(),
    Storage.INT64: pa.int64(),
    Storage.TIME: pa.timestamp("ms", "UTC"),
    Storage.COUNTS: pa.map_(pa.string(), pa.int64()),
}

FIELDS = tuple(field for field in figures_of(DeletionRecord) if field.said.in_json)

SCHEMA = pa.schema([(field.name, ARROW_TYPES[field.said.type.storage]) for field in FIELDS])
"""One row of the export for each deletion."""


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
    count = 0

    def row(deletion: DeletionRecord) -> dict[str, Any]:
        evidence = [*deletion.committed_offsets.items()]
        return {field.name: field.of(deletion) for field in FIELDS} | {"evidence": evidence}

    rows = map(row, deletions)
    with parquet.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
        while group := list(islice(rows, GROUP_ROWS)):
            writer.write_table(pa.Table.from_pylist(group, SCHEMA))
            count += len(group)
    return count
