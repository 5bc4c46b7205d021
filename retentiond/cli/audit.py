"""``retentiond audit``: what was deleted, when, on which evidence, and what became of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from retentiond.cli import audit_show
from retentiond.cli.configured import load, set_up
from retentiond.cli.moments import epoch_ms
from retentiond.cli.options import ConfigPath, Debug
from retentiond.cli.table import printer, say
from retentiond.errors import UsageError
from retentiond.model import Outcome
from retentiond.state.actions import read_actions
from retentiond.state.records import DeletionFilter, DeletionRecord, read_deletions
from retentiond.state.verify import differences


class AuditOutput(StrEnum):
    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def audit(  # noqa: PLR0917 - typer hands each option over by its name
    context: typer.Context,
    config: ConfigPath = None,
    topic: Annotated[
        str | None, typer.Option(help="Only of this topic.", show_default=False)
    ] = None,
    partition: Annotated[
        int | None, typer.Option(help="Only of this partition.", min=0, show_default=False)
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(help="From then on: an age (2h, 7d) or a time.", show_default=False),
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Before then: an age or a time.", show_default=False)
    ] = None,
    outcome: Annotated[
        Outcome | None, typer.Option(help="Only with this outcome.", show_default=False)
    ] = None,
    output: Annotated[
        AuditOutput, typer.Option("--output", "-o", help="How the result is printed to stdout.")
    ] = AuditOutput.TABLE,
    evidence: Annotated[
        bool, typer.Option("--evidence", help="A line for each group's commit (JSON has them).")
    ] = False,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Work every deletion out again; 1 if one differs."),
    ] = False,
    actions: Annotated[
        bool, typer.Option("--actions", help="What operators did by hand, instead.")
    ] = False,
    state_dir: Annotated[
        Path | None,
        typer.Option(help="Where the log is, without a configuration.", show_default=False),
    ] = None,
    debug: Debug = False,
) -> None:
    """Show every deletion that was asked for, oldest first, with the commits it rested on.

    Example: retentiond audit --topic orders --since 24h --outcome failed

    Example: retentiond audit --verify
    """
    path = set_up(context, config, debug)
    folder = state_dir or load(path).state_dir
    if actions:
        _show_actions(folder, output)
        return
    now_ms = time.time_ns() // 1_000_000
    wanted = DeletionFilter(
        topic=topic,
        partition=partition,
        since_ms=None if since is None else epoch_ms(since, "--since", now_ms),
        until_ms=None if until is None else epoch_ms(until, "--until", now_ms),
        outcome=outcome,
    )
    deletions = list(read_deletions(folder, wanted))
    if verify:
        _verify(deletions)
    elif output is AuditOutput.JSON:
        audit_show.show_json(deletions)
    elif output is AuditOutput.CSV:
        audit_show.show_csv(deletions, with_evidence=evidence)
    else:
        audit_show.show_table(deletions, with_evidence=evidence)


def _show_actions(folder: Path, output: AuditOutput) -> None:
    if output is AuditOutput.CSV:
        raise UsageError("--actions come as a table or as JSON: choose another --output")
    show = audit_show.show_actions_json if output is AuditOutput.JSON else audit_show.show_actions
    show(read_actions(folder))


def _verify(deletions: Sequence[DeletionRecord]) -> None:
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
