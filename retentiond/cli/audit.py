"""``retentiond audit``: what was deleted, when, on which evidence, and what became of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from retentiond.cli.configured import load, set_up
from retentiond.cli.options import AuditOutput, ConfigPath, Debug
from retentiond.model import Outcome


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
    from retentiond.cli import auditing  # noqa: PLC0415 - slow: see lazy.py

    if actions:
        auditing.show_actions(folder, output)
        return
    selection = auditing.Selection(topic, partition, since, until, outcome)
    deletions = auditing.read(folder, selection)
    if verify:
        auditing.verify(deletions)
    else:
        auditing.show(deletions, output, with_evidence=evidence)
