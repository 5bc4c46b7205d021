"""``retentiond audit``: what was deleted, when, and what became of it."""

from __future__ import annotations

import json
import sys
from typing import Any

import typer

from retentiond.cli.configured import load, set_up
from retentiond.cli.options import ConfigPath, Debug, Output, OutputFormat
from retentiond.cli.table import Column, Kind, Row, print_table, printer, say
from retentiond.observe.report import rfc3339, row_document
from retentiond.state.records import DeletionRecord, read_deletions

COLUMNS = (
    Column("REQUESTED", Kind.WORD),
    Column("TOPIC-PARTITION", Kind.NAME),
    Column("FROM", Kind.FIGURE, spare=True),
    Column("CUTOFF", Kind.FIGURE, spare=True),
    Column("RECORDS", Kind.FIGURE),
    Column("OUTCOME", Kind.WORD),
    Column("BOUND BY", Kind.NAME),
)


def audit(
    context: typer.Context,
    config: ConfigPath = None,
    output: OutputFormat = Output.TABLE,
    debug: Debug = False,
) -> None:
    """Show every deletion that was asked for, oldest first, with the commits it rested on.

    Example: retentiond audit --output json | jq '.[] | select(.outcome != "deleted")'
    """
    loaded = load(set_up(context, config, debug))
    deletions = list(read_deletions(loaded.state_dir))
    if output is Output.JSON:
        json.dump([_document(each) for each in deletions], sys.stdout, indent=2)
        sys.stdout.write("\n")
        return
    console = printer()
    print_table(console, COLUMNS, map(_row, deletions))
    say(console, f"{len(deletions)} deletions")


def _row(deletion: DeletionRecord) -> Row:
    row = deletion.row
    cells = [
        rfc3339(deletion.requested_at_ms),
        f"{row.topic}-{row.partition}",
        str(row.log_start_offset),
        str(row.cutoff),
        str(row.records),
        _outcome(deletion),
        row.binding_group or "-",
    ]
    return Row(cells)


def _outcome(deletion: DeletionRecord) -> str:
    return deletion.outcome.value if deletion.outcome else "unknown"


def _document(deletion: DeletionRecord) -> dict[str, Any]:
    """The plan's field names (`retentiond plan --output json`), and what the audit adds."""
    return {
        "cycle_id": deletion.cycle_id,
        "cluster_id": deletion.cluster_id,
        **row_document(deletion.row),
        "evidence_at": rfc3339(deletion.evidence_at_ms),
        "requested_at": rfc3339(deletion.requested_at_ms),
        "outcome": _outcome(deletion),
        "low_watermark": deletion.low_watermark,
        "error": deletion.error,
        "evidence": {group.group_id: group.committed_offset for group in deletion.evidence},
    }
