"""How the audit log looks: a table for people, JSON and CSV for programs."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from retentiond.cli.output.table import Column, ColumnKind, Row, print_table, printer, say
from retentiond.model import Outcome
from retentiond.state.actions import Action
from retentiond.state.audit_records import DeletionRecord
from retentiond.tell.reasons import say_only
from retentiond.tell.report import row_document
from retentiond.words import rfc3339, say_any, say_name

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


def show_table(deletions: Sequence[DeletionRecord], *, with_evidence: bool) -> None:
    console = printer()
    if with_evidence:
        rows = [row for each in deletions for row in _evidence_rows(each)]
        print_table(console, EVIDENCE_COLUMNS, rows)
    else:
        print_table(console, COLUMNS, map(_row, deletions))
    for sentence in _only(deletions):
        say(console, sentence)
    say(console, f"{len(deletions)} deletions")


def _only(deletions: Sequence[DeletionRecord]) -> Iterator[str]:
    """Where not every group counted."""
    topics: dict[str, dict[str, None]] = {}  # in the order of the log
    for each in deletions:
        if each.row.only_groups is not None:
            topics.setdefault(each.row.only_groups, {})[each.row.topic] = None
    for pattern, names in topics.items():
        yield say_only(pattern, list(names))


def show_csv(deletions: Sequence[DeletionRecord], *, with_evidence: bool) -> None:
    """A line for each deletion, or for each group that it rested on; absent is an empty field."""
    lines = [line for each in deletions for line in _csv_lines(each, with_evidence)]
    heads = list(lines[0]) if lines else ["cycle_id", "topic", "partition"]
    writer = csv.DictWriter(sys.stdout, heads, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)


def show_actions(actions: Sequence[Action]) -> None:
    console = printer()
    print_table(console, ACTION_COLUMNS, map(_action_row, actions))
    say(console, f"{len(actions)} actions")


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
