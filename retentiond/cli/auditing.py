"""What ``retentiond audit`` does."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from retentiond.cli import audit_show
from retentiond.cli.moments import epoch_ms
from retentiond.cli.options import AuditOutput
from retentiond.cli.table import printer, say
from retentiond.errors import UsageError
from retentiond.model import Outcome
from retentiond.state.actions import read_actions
from retentiond.state.records import DeletionFilter, DeletionRecord, read_deletions
from retentiond.state.verify import differences


@dataclass(frozen=True, slots=True)
class Selection:
    """What the options leave of the log; ``since`` and ``until`` as they were written."""

    topic: str | None
    partition: int | None
    since: str | None
    until: str | None
    outcome: Outcome | None


def read(folder: Path, selection: Selection) -> list[DeletionRecord]:
    """Oldest first. Raises `UsageError`, and `StateError` where there is no log."""
    now_ms = time.time_ns() // 1_000_000
    since, until = selection.since, selection.until
    wanted = DeletionFilter(
        topic=selection.topic,
        partition=selection.partition,
        since_ms=None if since is None else epoch_ms(since, "--since", now_ms),
        until_ms=None if until is None else epoch_ms(until, "--until", now_ms),
        outcome=selection.outcome,
    )
    return list(read_deletions(folder, wanted))


def show(deletions: Sequence[DeletionRecord], output: AuditOutput, *, with_evidence: bool) -> None:
    if output is AuditOutput.JSON:
        audit_show.show_json(deletions)
    elif output is AuditOutput.CSV:
        audit_show.show_csv(deletions, with_evidence=with_evidence)
    else:
        audit_show.show_table(deletions, with_evidence=with_evidence)


def show_actions(folder: Path, output: AuditOutput) -> None:
    if output is AuditOutput.CSV:
        raise UsageError("--actions come as a table or as JSON: choose another --output")
    show = audit_show.show_actions_json if output is AuditOutput.JSON else audit_show.show_actions
    show(read_actions(folder))


def verify(deletions: Sequence[DeletionRecord]) -> None:
    console = printer()
    wrong = 0
    for deletion in deletions:
        found = differences(deletion)
        wrong += bool(found)
        row = deletion.row
        for sentence in found:
            say(
                console,
                f"{row.topic}-{row.partition} up to {row.cutoff} in cycle {deletion.cycle_id}: "
                f"{sentence}",
            )
    say(console, f"{len(deletions)} deletions worked out again: {wrong} differ")
    if wrong:
        raise typer.Exit(1)
