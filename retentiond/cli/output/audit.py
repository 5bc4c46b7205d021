"""How the audit log looks: a table for people, JSON and CSV for programs."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TextIO, TypeVar

from rich.console import Console

from retentiond.cli.output.printing import Column, ColumnKind, Row, print_table, printer, say
from retentiond.formatting import rfc3339, say_any, say_many, say_name
from retentiond.model import Outcome
from retentiond.state.actions import Action
from retentiond.state.audit_records import DeletionRecord
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
