"""``retentiond delete-records``: KIP-107's command line, without its carelessness."""

from __future__ import annotations

import json
import os
import sys
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retentiond.cli.options import Confirmed, Debug, Output, OutputFormat, gone, start_logging
from retentiond.cli.output.streams import say_aside
from retentiond.errors import ConfigError, RetentiondError, UsageError
from retentiond.fields import document_of, total
from retentiond.formatting import printable, say_bytes, say_many
from retentiond.kafka.settings.command_config import read_settings
from retentiond.model import Outcome
from retentiond.state_places import user_state_dir
from retentiond.tools.delete_records.agreement import as_shown, limit_to_shown, withdraw
from retentiond.tools.delete_records.partitions import Item, preview, refuse_hopeless
from retentiond.tools.delete_records.request import RequestAudit, delete

LOOK_UP_TIMEOUT_S = 10.0

REQUIRE_YES = "RETENTIOND_REQUIRE_YES"
"""Set in the container's image, where somebody at a terminal easily has none inside: a file of
offsets needs --yes, too. Elsewhere scripts for Kafka's own tool go on working."""

if TYPE_CHECKING:
    from retentiond.kafka.cluster import KafkaCluster
    from retentiond.kafka.interface import Kafka
    from retentiond.kafka.settings.properties import ClientSettings
    from retentiond.tools.delete_records.bounds import Targets


def delete_records(  # noqa: PLR0917 - typer hands each option over by its name
    bootstrap_server: Annotated[str, typer.Option(help="The brokers to start from: host:port,…")],
    offset_json_file: Annotated[
        Path | None,
        typer.Option(
            "--offset-json-file",
            "--delete-offset-json-file",
            help="A file of the first offsets to keep; -1 is the high watermark: "
            '{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "offset": 42}]}',
        ),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(help="All partitions of this topic; may be given several times."),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            help="Delete records older than this by the clock of this host, as in 7d, 12h or 90m."
        ),
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            help="Delete records from before this time, as in 2026-02-01T12:00:00+01:00; UTC if it "
            "names no zone."
        ),
    ] = None,
    command_config: Annotated[
        Path | None, typer.Option(help="Java properties of an AdminClient.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be deleted, and delete nothing.")
    ] = False,
    yes: Confirmed = False,
    output: OutputFormat = Output.TABLE,
    state_dir: Annotated[
        Path | None,
        typer.Option(
            help="Directory of the audit log; by default $XDG_STATE_HOME/retentiond, "
            "else ~/.local/state/retentiond."
        ),
    ] = None,
    to_committed: Annotated[
        str | None,
        gone(
            "--to-committed",
            "retentiond run --once deletes what all groups have read, and looks twice at each",
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Move log start offsets, as Kafka's own kafka-delete-records does (KIP-107).

    On a terminal it asks first, and deletes no more than it has shown. After the answer it reads
    everything again: if part of what it has shown may no longer be deleted, it shows the rest and
    asks again. Without a terminal, a file of offsets needs no --yes, except in retentiond's
    container; any other target needs it. It exits with 1 if any partition failed; the others are
    deleted from all the same.

    Example: retentiond delete-records --bootstrap-server localhost:9092 --offset-json-file o.json

    Example: retentiond delete-records --bootstrap-server localhost:9092 --topic orders
    --older-than 7d --dry-run
    """
    if debug:  # loading it would slow every other call down
        start_logging(debug=True)

    from retentiond.tools.delete_records.bounds import read_targets

    wanted = read_targets(
        file=offset_json_file,
        topics=topic or (),
        older_than=older_than,
        to_datetime=to_datetime,
    )
    for warning in wanted.warnings:
        say_aside(f"warning: {warning}")
    may_ask = sys.stdin.isatty() and not yes
    if not (yes or dry_run or may_ask):
        _refuse_unasked(wanted)
    audit = None if dry_run else RequestAudit(state_dir or user_state_dir())
    settings = read_settings(bootstrap_server, command_config)
    with closing(_connected(settings, command_config)) as kafka:
        items = wanted.items(kafka)
        if audit is None:
            from retentiond.tools.delete_records.freed_bytes import with_bytes

            items = with_bytes(kafka, refuse_hopeless(kafka, preview(kafka, items)))
        elif any(item.is_pending for item in items):
            if may_ask:
                items = _agreed(items, lambda: wanted.items(kafka), kafka)
            if pending := [item.at for item in items if item.is_pending]:
                kafka.get_ready(pending)  # else a broker that is far away seems silent
                audit.requested(bootstrap_server, items)
                timeout_s = settings.request_timeout_s
                items = delete(kafka, items, timeout_s, objection=audit.objection)
                audit.settled(items)
    show(items, output, dry_run=dry_run)
    if audit is not None and audit.unrecorded is not None:
        raise RetentiondError(f"the outcome above is not in the audit log: {audit.unrecorded}")
    if any(item.has_failed for item in items):
        raise typer.Exit(1)


def _refuse_unasked(wanted: Targets) -> None:
    """Raises `UsageError` where nobody can be asked, and somebody has to be."""
    if wanted.is_worked_out:
        raise UsageError(
            "bounds that are worked out need --yes where there is no terminal to ask on; "
            "--dry-run shows what they come to"
        )
    if os.environ.get(REQUIRE_YES):
        raise UsageError(
            "there is no terminal to ask on, as where docker run lacks -it; --yes deletes "
            "without a question, --dry-run shows what would be deleted"
        )


def _connected(settings: ClientSettings, command_config: Path | None) -> KafkaCluster:
    """A cluster that doesn't answer is noticed soon, however long deletions take."""
    from retentiond.kafka.cluster import KafkaCluster

    at_most_s = min(settings.request_timeout_s, LOOK_UP_TIMEOUT_S)
    kafka_python = {**settings.kafka_python, "request_timeout_ms": int(at_most_s * 1000)}
    hasty = replace(settings, request_timeout_s=at_most_s, kafka_python=kafka_python)
    try:
        return KafkaCluster(hasty, lambda *_: None)
    except ConfigError as error:  # it speaks of the daemon's file
        raise ConfigError(error.message, file=str(command_config or "")) from error


def _agreed(items: Sequence[Item], again: Callable[[], list[Item]], kafka: Kafka) -> list[Item]:
    """Asks; what was answered is judged by what holds then. ``again``: reads the items again."""
    shown = as_shown(preview(kafka, items))
    while any(item.is_pending for item in shown):
        for line in lines(shown):
            print(line, file=sys.stderr)
        pending = [item for item in shown if item.is_pending]
        typer.confirm(f"Delete {spanned(pending)}?", abort=True, err=True)
        now = as_shown(preview(kafka, again()))
        agreed = limit_to_shown(shown, now)
        if agreed is not None:
            return agreed
        shown = withdraw(shown, now)
        termios.tcflush(sys.stdin, termios.TCIFLUSH)  # typed before this question was there
        say_aside(
            "while this command waited for the answer, the cluster changed: not all that was "
            "shown may still be deleted, and nothing has been. This can be deleted now:"
        )
    return shown


def show(items: Sequence[Item], output: Output, *, dry_run: bool) -> None:
    """Plain lines and no table: a rich one would take longer than the deletion."""
    if output is Output.JSON:
        document = {"dry_run": dry_run, "partitions": [*map(document_of, items)]}
        print(json.dumps(document, indent=2))
        return
    for line in lines(items):
        print(line)
    print(summary(items, dry_run=dry_run))


def lines(items: Sequence[Item]) -> Iterator[str]:
    """What is known of each: its low watermark, what would be deleted, or why nothing is."""
    names = [printable(str(item.at)) for item in items]
    width = max(map(len, names), default=0)
    for name, item in zip(names, items, strict=True):
        yield f"{name:{width}}  {printable(_said(item))}"


def summary(items: Sequence[Item], *, dry_run: bool) -> str:
    """How many partitions of each kind; in a dry run also how many records."""
    failed = sum(item.has_failed for item in items)
    left_out = sum(item.target is None and not item.has_failed for item in items)
    rest = f"{failed:,} failed, {left_out:,} left out"
    if dry_run:
        pending = [item for item in items if item.is_pending]
        return f"{spanned(pending)}; {rest}; nothing was deleted"
    done = sum(item.outcome is Outcome.DELETED for item in items)
    return f"{say_many(done, 'partition')} done, {rest}"


def spanned(pending: Sequence[Item]) -> str:
    """What a preview comes to, as in ``13 records from 2 partitions``."""
    records = sum(item.records or 0 for item in pending)
    freed_bytes = total(item.predicted_bytes for item in pending) if pending else None
    freed = "" if freed_bytes is None else f" (about {say_bytes(freed_bytes)} on disk)"
    return f"{say_many(records, 'record')} from {say_many(len(pending), 'partition')}{freed}"


def _said(item: Item) -> str:
    if item.outcome is Outcome.DELETED:
        return f"low watermark {item.low_watermark}"
    if item.outcome is Outcome.UNKNOWN:
        return f"unknown: {item.error}"
    if item.outcome is Outcome.FAILED:
        return f"error: {item.error}"
    if item.target is None:
        return f"left out: {item.error}"
    if item.records is None:
        return f"up to {item.target}, of which nothing more can be read"
    freed = item.predicted_bytes
    on_disk = "" if freed is None else f", about {say_bytes(freed)} on disk"
    records = say_many(item.records, "record")
    return f"from {item.log_start_offset} to {item.cutoff}: {records}{on_disk}"
