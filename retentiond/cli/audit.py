"""``retentiond audit``: what was deleted, when, on which evidence, and what became of it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from retentiond.cli.options import (
    EMPTY_SPAN,
    AuditOutput,
    ConfigPath,
    Debug,
    epoch_ms,
    load,
    refuse,
    set_up,
)
from retentiond.cli.output.printing import print_json_list, printer, say, while_read
from retentiond.clock import now_ms
from retentiond.errors import UsageError
from retentiond.formatting import say_many, say_verb
from retentiond.model import Outcome
from retentiond.state.audit_figures import differences
from retentiond.state.audit_records import DeletionFilter, DeletionRecord, read_deletions
from retentiond.state.operator_actions import actions_in, count_actions


def audit(  # noqa: PLR0917 - typer hands each option over by its name
    context: typer.Context,
    config: ConfigPath = None,
    topic: Annotated[
        str | None,
        typer.Option(help="Only deletions from this topic.", show_default=False),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option(help="Only deletions from this partition.", min=0, show_default=False),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(help="Only from this time on: an age (2h, 7d) or a time.", show_default=False),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(help="Only before this time: an age or a time.", show_default=False),
    ] = None,
    outcome: Annotated[
        Outcome | None, typer.Option(help="Only deletions with this outcome.", show_default=False)
    ] = None,
    output: Annotated[
        AuditOutput, typer.Option("--output", "-o", help="How the result is printed to stdout.")
    ] = AuditOutput.TABLE,
    evidence: Annotated[
        bool,
        typer.Option(
            "--evidence", help="A line for each group's committed offset (JSON always has them)."
        ),
    ] = False,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Check each deletion again by its recorded evidence; exit with 1 if one differs. "
            "JSON rows say what differs: differences.",
        ),
    ] = False,
    actions: Annotated[
        bool,
        typer.Option("--actions", help="Show what operators did by hand, instead of deletions."),
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the deletions to this file instead, as Parquet (FILE.parquet, with the "
            "evidence) or as CSV (FILE.csv).",
            show_default=False,
        ),
    ] = None,
    state_dir: Annotated[
        Path | None,
        typer.Option(
            help="Directory of the audit log; no configuration is read then.", show_default=False
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Show every deletion in the audit log, oldest first, with the commits that it rested on.

    Example: retentiond audit --topic orders --since 24h --outcome failed

    Example: retentiond audit --verify --output json | jq '.[] | select(.differences != [])'

    Example: retentiond audit --until 365d --export deletions.parquet
    """
    path = set_up(context, config, debug)
    if export is not None and (actions or verify):
        raise UsageError("--export writes deletions: leave --actions and --verify out")
    has_format = output is not AuditOutput.TABLE
    if actions:
        refuse(
            {
                "--topic": topic,
                "--partition": partition is not None,
                "--outcome": outcome,
                "--evidence": evidence,
                "--verify": verify,
            },
            "is about deletions: leave --actions out",
        )
    elif verify:
        is_csv = output is AuditOutput.CSV
        refuse({"--evidence": evidence, "--output csv": is_csv}, "does not go with --verify")
    elif export is not None:
        refuse({"--output": has_format}, "does not go with --export: its FILE names the format")
    folder = state_dir or load(path).state_dir

    if export is not None:
        from retentiond.cli.output.audit import refuse_export

        refuse_export(export)
    now = now_ms()
    wanted = DeletionFilter(
        topic=topic,
        partition=partition,
        since_ms=None if since is None else epoch_ms(since, "--since", now),
        until_ms=None if until is None else epoch_ms(until, "--until", now),
        outcome=outcome,
    )
    if (
        wanted.since_ms is not None
        and wanted.until_ms is not None
        and wanted.since_ms >= wanted.until_ms
    ):
        raise UsageError(EMPTY_SPAN)
    if actions:
        _show_actions(folder, wanted, output)
        return
    deletions = read_deletions(folder, wanted)
    if verify:
        _verify(deletions, output)
    elif export is not None:
        _export(deletions, export, with_evidence=evidence)
    else:
        _show(while_read(deletions), output, with_evidence=evidence)
        if output is AuditOutput.TABLE and (others := count_actions(folder)):
            are = say_verb(others, "is", "are")
            say(printer(), f"{say_many(others, 'action')} by operators {are} shown by --actions")


def _show(deletions: Iterator[DeletionRecord], output: AuditOutput, *, with_evidence: bool) -> None:
    from retentiond.cli.output.audit import document, show_table, write_csv

    if output is AuditOutput.JSON:
        print_json_list(map(document, deletions))
    elif output is AuditOutput.CSV:
        write_csv(deletions, sys.stdout, with_evidence=with_evidence)
    else:
        show_table(deletions, with_evidence=with_evidence)


def _export(deletions: Iterator[DeletionRecord], file: Path, *, with_evidence: bool) -> None:
    from retentiond.cli.output.audit import export_deletions

    count = export_deletions(deletions, file, with_evidence=with_evidence)
    say(printer(), f"{say_many(count, 'deletion')} written to {file}")


def _show_actions(folder: Path, wanted: DeletionFilter, output: AuditOutput) -> None:
    from retentiond.cli.output.audit import action_document, show_actions

    if output is AuditOutput.CSV:
        raise UsageError("--actions come as a table or as JSON: choose another --output")
    actions = (each for each in actions_in(folder) if wanted.has_time(each.at_ms))
    if output is AuditOutput.JSON:
        print_json_list(map(action_document, actions))
    else:
        show_actions(actions)


def _verify(deletions: Iterable[DeletionRecord], output: AuditOutput) -> None:
    count = wrong = 0

    def judged() -> Iterator[tuple[DeletionRecord, tuple[str, ...]]]:
        nonlocal count, wrong
        for deletion in deletions:
            count += 1
            found = differences(deletion)
            wrong += bool(found)
            yield deletion, found

    if output is AuditOutput.JSON:
        from retentiond.cli.output.audit import document

        print_json_list(document(deletion) | {"differences": found} for deletion, found in judged())
    else:
        _say_differences(judged())
        differ = say_verb(wrong, "differs", "differ")
        say(printer(), f"{say_many(count, 'deletion')} worked out again: {wrong} {differ}")
    if wrong:
        raise typer.Exit(1)


def _say_differences(judged: Iterable[tuple[DeletionRecord, tuple[str, ...]]]) -> None:
    console = printer()
    for deletion, found in judged:
        row = deletion.row
        of = f"{row.topic}-{row.partition} up to {row.cutoff} in cycle {deletion.cycle_id}"
        for sentence in found:
            say(console, f"{of}: {sentence}")
