"""``retentiond delete-records``: KIP-107's command line, without its carelessness."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from retentiond.cli.deletion_audit import AuditLog
from retentiond.cli.deletions import lines, show, spanned
from retentiond.cli.options import Debug, Output, OutputFormat
from retentiond.cli.state_dir import default_state_dir
from retentiond.cli.wanted import read_wanted
from retentiond.command_config.settings import read_settings
from retentiond.delete_records.delete import delete
from retentiond.delete_records.item import Item
from retentiond.delete_records.preview import preview, refuse_hopeless
from retentiond.errors import ConfigError, RetentiondError, UsageError
from retentiond.kafka.properties import ClientSettings
from retentiond.kafka.records import METADATA_TIMEOUT_S, RecordsClient


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
    audit = None if dry_run else AuditLog(state_dir or default_state_dir())
    settings = read_settings(bootstrap_server, command_config)
    client = _client(_hasty(settings), command_config)
    with client.explaining():
        items = wanted.items(client, settings)
    if audit is None:
        items = _with_bytes(client, settings, refuse_hopeless(preview(client, items)))
    elif any(item.is_pending for item in items):
        if may_ask:
            items = preview(client, items)
            _confirm(items)
        audit.requested(bootstrap_server, items)
        items = delete(client, items, settings.request_timeout_s)
        audit.settled(items)
    show(items, output, sys.stdout, dry_run=dry_run)
    if audit is not None and audit.unrecorded is not None:
        raise RetentiondError(f"the outcome above is not in the audit log: {audit.unrecorded}")
    if any(item.has_failed for item in items):
        raise typer.Exit(1)


def _client(settings: ClientSettings, command_config: Path | None) -> RecordsClient:
    try:
        return RecordsClient(settings)
    except ConfigError as error:  # it speaks of the daemon's file
        raise ConfigError(error.message, file=str(command_config or "")) from error


def _with_bytes(
    client: RecordsClient, settings: ClientSettings, items: Sequence[Item]
) -> list[Item]:
    from retentiond.delete_records.freeing import with_bytes  # noqa: PLC0415 - brings kafka-python

    return with_bytes(client, _hasty(settings), items)


def _hasty(settings: ClientSettings) -> ClientSettings:
    """For look-ups: a cluster that doesn't answer is noticed soon, however long deletions take."""
    at_most = min(settings.request_timeout_s, METADATA_TIMEOUT_S)
    return replace(settings, request_timeout_s=at_most)


def _confirm(items: Sequence[Item]) -> None:
    for line in lines(items):
        print(line, file=sys.stderr)
    pending = [item for item in items if item.is_pending]
    typer.confirm(f"Delete {spanned(pending)}?", abort=True, err=True)
