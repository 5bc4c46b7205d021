"""``retentiond delete-records``: KIP-107's command line, without its carelessness."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retentiond.cli import options as completion
from retentiond.cli.options import Debug, Output, OutputFormat
from retentiond.errors import ConfigError, RetentiondError, UsageError
from retentiond.kafka.settings.command_config import read_settings
from retentiond.kafka.settings.properties import ClientSettings
from retentiond.state_places import user_state_dir

LOOK_UP_TIMEOUT_S = 10.0

if TYPE_CHECKING:
    from retentiond.kafka.cluster import KafkaCluster
    from retentiond.kafka.confluent.client import RecordsClient
    from retentiond.tools.delete_records.bounds import CommitsByGroup, LookUps
    from retentiond.tools.delete_records.partitions import Item, TopicSource


def delete_records(  # noqa: PLR0917 - typer hands each option over by its name
    bootstrap_server: Annotated[
        str, typer.Option("--bootstrap-server", help="The brokers to start from: host:port,…")
    ],
    groups: Annotated[
        list[str] | None,
        typer.Argument(
            help="More groups for --to-committed.",
            metavar="GROUP",
            autocompletion=completion.groups,
        ),
    ] = None,
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
        typer.Option(
            "--topic",
            help="All partitions of this topic; may be given several times.",
            autocompletion=completion.topics,
        ),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            help="Delete records older than this by the clock of this host, as in 7d, 12h or 90m.",
        ),
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            "--to-datetime",
            help="Delete records from before this time, as in 2026-02-01T12:00:00+01:00; UTC if it "
            "names no zone.",
        ),
    ] = None,
    to_committed: Annotated[
        list[str] | None,
        typer.Option(
            "--to-committed",
            metavar="GROUP…",
            help="Delete records that all of these groups have consumed, by their commits.",
            autocompletion=completion.groups,
        ),
    ] = None,
    command_config: Annotated[
        Path | None,
        typer.Option("--command-config", help="Java properties of an AdminClient."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be deleted, and delete nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output: OutputFormat = Output.TABLE,
    state_dir: Annotated[
        Path | None,
        typer.Option(
            "--state-dir",
            help="Directory of the audit log; by default $XDG_STATE_HOME/retentiond, "
            "else ~/.local/state/retentiond.",
            show_default=False,
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Move log start offsets, as Kafka's own kafka-delete-records does (KIP-107).

    On a terminal it asks first. Elsewhere it deletes up to the offsets of a file without asking;
    anything else needs --yes. It exits with 1 if any partition failed.

    Example: retentiond delete-records --bootstrap-server localhost:9092 --offset-json-file o.json

    Example: retentiond delete-records --bootstrap-server localhost:9092 --topic orders
    --older-than 7d --dry-run

    Example: retentiond delete-records --bootstrap-server localhost:9092 --topic orders
    --to-committed billing search --yes
    """
    if groups and not to_committed:
        raise UsageError(f"{groups[0]!a} goes with nothing; groups follow --to-committed")

    wanted = read_targets(
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
    if delete_targets(
        wanted,
        bootstrap_server,
        command_config,
        state_dir,
        output,
        dry_run=dry_run,
        may_ask=may_ask,
    ):
        raise typer.Exit(1)


def delete_targets(
    wanted: Targets,
    bootstrap_server: str,
    command_config: Path | None,
    state_dir: Path | None,
    output: Output,
    *,
    dry_run: bool,
    may_ask: bool,
) -> bool:
    """Deletes, or with ``dry_run`` only shows; whether any partition failed."""
    from retentiond.cli.output.delete_records import show
    from retentiond.tools.delete_records.bounds import preview, refuse_hopeless
    from retentiond.tools.delete_records.request import RequestAudit, delete

    audit = None if dry_run else RequestAudit(state_dir or user_state_dir())
    settings = read_settings(bootstrap_server, command_config)
    hasty = _hasty(settings)
    records = _records(hasty, command_config)
    with ExitStack() as stack:
        kafka = cache(lambda: stack.enter_context(closing(_kafka(hasty, records))))
        items = wanted.items(records, kafka)
        if audit is None:
            from retentiond.tools.delete_records.freed_bytes import with_bytes

            items = with_bytes(kafka(), refuse_hopeless(preview(kafka(), items)))
        elif any(item.is_pending for item in items):
            if may_ask:
                items = preview(kafka(), items)
                _confirm(items)
            audit.requested(bootstrap_server, items)
            items = delete(records, items, settings.request_timeout_s, kafka)
            audit.settled(items)
    show(items, output, sys.stdout, dry_run=dry_run)
    if audit is not None and audit.unrecorded is not None:
        raise RetentiondError(f"the outcome above is not in the audit log: {audit.unrecorded}")
    return any(item.has_failed for item in items)


def _records(settings: ClientSettings, command_config: Path | None) -> RecordsClient:
    from retentiond.kafka.confluent.client import RecordsClient

    try:
        return RecordsClient(settings)
    except ConfigError as error:  # it speaks of the daemon's file
        raise ConfigError(error.message, file=str(command_config or "")) from error


def _kafka(settings: ClientSettings, records: RecordsClient) -> KafkaCluster:
    """For look-ups; loaded only where there are any."""
    from retentiond.kafka.cluster import KafkaCluster

    return KafkaCluster(settings, lambda *_: None, records)


def _hasty(settings: ClientSettings) -> ClientSettings:
    """For look-ups: a cluster that doesn't answer is noticed soon, however long deletions take."""
    at_most_s = min(settings.request_timeout_s, LOOK_UP_TIMEOUT_S)
    kafka_python = {**settings.kafka_python, "request_timeout_ms": int(at_most_s * 1000)}
    return replace(settings, request_timeout_s=at_most_s, kafka_python=kafka_python)


def _confirm(items: Sequence[Item]) -> None:
    from retentiond.cli.output.delete_records import lines, spanned

    for line in lines(items):
        print(line, file=sys.stderr)
    pending = [item for item in items if item.is_pending]
    typer.confirm(f"Delete {spanned(pending)}?", abort=True, err=True)


@dataclass(frozen=True, slots=True)
class Targets:
    """``explicit``: the entries of a file; None where the rest says how to work targets out.

    ``before_ms``: only records from before that time, epoch milliseconds. Both bounds together
    mean that both must hold.
    """

    explicit: tuple[Item, ...] | None = None
    topics: tuple[str, ...] = ()
    before_ms: int | None = None
    groups: tuple[str, ...] = ()

    def items(self, topics: TopicSource, kafka: Callable[[], LookUps]) -> list[Item]:
        """One for each partition. Raises `RetentiondError` where nothing can be said of any."""
        from retentiond.tools.delete_records.bounds import Bounds, read_commits, work_out
        from retentiond.tools.delete_records.partitions import find

        if self.explicit is not None:
            return find(topics, self.explicit)
        commits: CommitsByGroup = read_commits(kafka(), self.groups) if self.groups else {}
        names = self.topics or sorted({at.topic for each in commits.values() for at in each})
        if not names:
            raise UsageError(f"no group of {', '.join(map(ascii, self.groups))} has any commit")
        return work_out(kafka(), names, Bounds(self.before_ms, commits))


def read_targets(
    *,
    file: Path | None,
    topics: Sequence[str],
    older_than: str | None,
    to_datetime: str | None,
    groups: Sequence[str],
) -> Targets:
    """Offline. Raises `UsageError`, and `ConfigError` for the file."""
    from retentiond.tools.delete_records.offsets_file import read_offsets_file

    by_time = [text for text in (older_than, to_datetime) if text is not None]
    if file is not None:
        if topics or by_time or groups:
            raise UsageError("--offset-json-file names every offset: leave the other bounds out")
        read = read_offsets_file(file)
        for warning in read.warnings:
            print(f"retentiond: warning: {file}: {warning}", file=sys.stderr)
        return Targets(read.items)
    if len(by_time) > 1:
        raise UsageError("choose --older-than or --to-datetime")
    if by_time and not topics and not groups:
        raise UsageError("--older-than and --to-datetime need --topic")
    if not by_time and not groups:
        raise UsageError(
            "nothing says what to delete: --offset-json-file, or --topic with --older-than, "
            "--to-datetime or --to-committed"
        )
    if "" in topics or "" in groups:
        raise UsageError("the name of a topic or group is empty")
    before_ms = _before_ms(older_than, to_datetime)
    return Targets(None, tuple(topics), before_ms, tuple(dict.fromkeys(groups)))


def _before_ms(older_than: str | None, to_datetime: str | None) -> int | None:
    if older_than is not None:
        from retentiond.config.durations import parse_duration

        age_ms = parse_duration(older_than)
        now_ms = time.time_ns() // 1_000_000
        if age_ms is None or age_ms > now_ms:
            raise UsageError(f"--older-than {older_than!a}: expected a time as in 7d, 12h or 90m")
        return now_ms - age_ms
    return None if to_datetime is None else _epoch_ms(to_datetime)


def _epoch_ms(text: str) -> int:
    """Of a time in UTC, if it names no zone. Negative ones have a meaning of their own in Kafka."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        at_ms = round(moment.timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"--to-datetime {text!a}: expected a time as in 2026-02-01T12:00:00+01:00"
        ) from error
    if at_ms < 0:
        raise UsageError(f"--to-datetime {text!a}: expected a time from 1970 on")
    return at_ms
