"""``retentiond delete-records``: KIP-107's command line, without its carelessness."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from retentiond.cli.options import Debug, Output, OutputFormat
from retentiond.errors import UsageError


def delete_records(  # noqa: PLR0917 - typer hands each option over by its name
    bootstrap_server: Annotated[
        str, typer.Option("--bootstrap-server", help="The brokers to start from: host:port,…")
    ],
    groups: Annotated[
        list[str] | None, typer.Argument(help="Further groups of --to-committed.", metavar="GROUP")
    ] = None,
    offset_json_file: Annotated[
        Path | None,
        typer.Option(
            "--offset-json-file",
            "--delete-offset-json-file",
            help="First offsets to keep; -1 is the high watermark: "
            '{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "offset": 42}]}',
        ),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", help="All partitions of this topic; may be given several times."),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", help="Records older than this, as in 7d, 12h or 90m."),
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            "--to-datetime",
            help="Records from before it, as in 2026-02-01T12:00:00+01:00; UTC without a zone.",
        ),
    ] = None,
    to_committed: Annotated[
        list[str] | None,
        typer.Option(
            "--to-committed",
            metavar="GROUP…",
            help="Records that each of these groups has consumed, by its commits.",
        ),
    ] = None,
    command_config: Annotated[
        Path | None,
        typer.Option("--command-config", help="Java properties of an AdminClient."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be deleted; delete nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output: OutputFormat = Output.TABLE,
    state_dir: Annotated[
        Path | None,
        typer.Option(
            "--state-dir",
            help="Holds the audit log; by default $XDG_STATE_HOME/retentiond, "
            "else ~/.local/state/retentiond.",
            show_default=False,
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Move log start offsets, as Kafka's own kafka-delete-records does (KIP-107).

    On a terminal it asks first. Elsewhere the offsets of a file are deleted up to at once;
    bounds that are worked out need --yes. It ends with 1 if any partition failed.

    Example: retentiond delete-records --bootstrap-server localhost:9092 --offset-json-file o.json

    Example: retentiond delete-records --bootstrap-server localhost:9092 --topic orders
    --older-than 7d --dry-run

    Example: retentiond delete-records --bootstrap-server localhost:9092 --topic orders
    --to-committed billing search --yes
    """
    if groups and not to_committed:
        raise UsageError(f"{groups[0]!a} goes with nothing; groups follow --to-committed")
    from retentiond.cli.deleting import delete_wanted  # noqa: PLC0415 - slow: see lazy.py
    from retentiond.cli.wanted import read_wanted  # noqa: PLC0415 - as above

    wanted = read_wanted(
        file=offset_json_file,
        topics=topic or (),
        older_than=older_than,
        to_datetime=to_datetime,
        groups=(*(to_committed or ()), *(groups or ())),
    )
    may_ask = sys.stdin.isatty() and not yes
    if wanted.explicit is None and not (yes or dry_run or may_ask):
        raise UsageError(
            "bounds that are worked out need --yes where there is no terminal to ask on; "
            "--dry-run shows what they come to"
        )
    if delete_wanted(
        wanted,
        bootstrap_server,
        command_config,
        state_dir,
        output,
        dry_run=dry_run,
        may_ask=may_ask,
    ):
        raise typer.Exit(1)
