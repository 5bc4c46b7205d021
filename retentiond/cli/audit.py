"""``retentiond audit``: what was deleted, when, on which evidence, and what became of it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from retentiond.cli.options import (
    EMPTY_SPAN,
    OUTPUT,
    SINCE,
    UNTIL,
    ConfigPath,
    Debug,
    epoch_ms,
    load,
    refuse,
    set_up,
)
from retentiond.cli.output.printing import Printer, print_json_list, while_read
from retentiond.clock import now_ms
from retentiond.errors import UsageError
from retentiond.fields import document_of
from retentiond.formatting import say_many, say_verb
from retentiond.model import Outcome
from retentiond.state.audit_records import (
    DeletionFilter,
    DeletionRecord,
    differences,
    read_deletions,
)
from retentiond.state.operator_actions import actions_in, count_actions


class AuditOutput(StrEnum):
    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def audit(  # noqa: PLR0917 - typer hands each option over by its name
    config: ConfigPath = None,
    topic: Annotated[str | None, typer.Option(help="Only deletions from this topic.")] = None,
    partition: Annotated[
        int | None,
        typer.Option(help="Only deletions from this partition.", min=0),
    ] = None,
    since: Annotated[str | None, SINCE] = None,
    until: Annotated[str | None, UNTIL] = None,
    outcome: Annotated[
        Outcome | None, typer.Option(help="Only deletions with this outcome.")
    ] = None,
    output: Annotated[AuditOutput, OUTPUT] = AuditOutput.TABLE,
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
        ),
    ] = None,
    state_dir: Annotated[
        Path | None,
        typer.Option(help="Directory of the audit log; no configuration is read then."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Show every deletion in the audit log, oldest first, with the commits that it rested on.

    Example: retentiond audit --topic orders --since 24h --outcome failed

    Example: retentiond audit --verify --output json | jq '.[] | select(.differences != [])'

    Example: retentiond audit --until 365d --export deletions.parquet
    """
    path = set_up(config, debug)
    if export is not None:
        refuse({"--actions": actions, "--verify": verify}, "does not go with --export")
        is_named = {"--output": output is not AuditOutput.TABLE}
        refuse(is_named, "does not go with --export: its FILE names the format")
    if actions:
        of_deletions = {
            "--topic": topic,
            "--partition": partition is not None,
            "--outcome": outcome,
            "--evidence": evidence,
            "--verify": verify,
        }
        refuse(of_deletions, "is about deletions: leave --actions out")
    if actions or verify:
        why = f"does not go with {'--actions' if actions else '--verify'}"
        refuse({"--evidence": evidence, "--output csv": output is AuditOutput.CSV}, why)
    folder = state_dir or load(path).state_dir

    from retentiond.cli.output import audit as printed

    if export is not None:
        printed.refuse_export(export)
    wanted = DeletionFilter(topic, partition, *_span(since, until), outcome)
    if actions:
        done = (action for action in actions_in(folder) if wanted.has_time(action.at_ms))
        if output is AuditOutput.JSON:
            print_json_list(map(document_of, done))
        else:
            printed.show_actions(done)
        return
    deletions = read_deletions(folder, wanted)
    if verify:
        _verify(deletions, output)
    elif export is not None:
        count = printed.export_deletions(deletions, export, with_evidence=evidence)
        Printer().say(f"{say_many(count, 'deletion')} written to {export}")
    else:
        _show(while_read(deletions), output, folder, with_evidence=evidence)


def _span(since: str | None, until: str | None) -> tuple[int | None, int | None]:
    """In epoch milliseconds. Raises `UsageError`."""
    now = now_ms()
    since_ms = None if since is None else epoch_ms(since, "--since", now)
    until_ms = None if until is None else epoch_ms(until, "--until", now)
    if since_ms is not None and until_ms is not None and since_ms >= until_ms:
        raise UsageError(EMPTY_SPAN)
    return since_ms, until_ms


def _show(
    deletions: Iterator[DeletionRecord], output: AuditOutput, folder: Path, *, with_evidence: bool
) -> None:
    from retentiond.cli.output import audit as printed

    if output is AuditOutput.JSON:
        print_json_list(map(document_of, deletions))
    elif output is AuditOutput.CSV:
        printed.write_csv(deletions, sys.stdout, with_evidence=with_evidence)
    else:
        printed.show_table(deletions, with_evidence=with_evidence)
        if others := count_actions(folder):
            are = say_verb(others, "is", "are")
            Printer().say(f"{say_many(others, 'action')} by operators {are} shown by --actions")


def _verify(deletions: Iterable[DeletionRecord], output: AuditOutput) -> None:
    printer, count, wrong = Printer(), 0, 0

    def judged() -> Iterator[tuple[DeletionRecord, tuple[str, ...]]]:
        nonlocal count, wrong
        for deletion in deletions:
            count += 1
            sentences = differences(deletion)
            wrong += bool(sentences)
            yield deletion, sentences

    if output is AuditOutput.JSON:
        print_json_list(
            document_of(deletion) | {"differences": sentences} for deletion, sentences in judged()
        )
    else:
        for deletion, sentences in judged():
            row = deletion.row
            of = f"{row.topic}-{row.partition} up to {row.cutoff} in cycle {deletion.cycle_id}"
            for sentence in sentences:
                printer.say(f"{of}: {sentence}")
        differ = say_verb(wrong, "differs", "differ")
        printer.say(f"{say_many(count, 'deletion')} worked out again: {wrong} {differ}")
    if wrong:
        raise typer.Exit(1)
