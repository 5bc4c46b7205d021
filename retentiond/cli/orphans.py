"""``retentiond orphans``: KIP-370 on a broker's host, without a change to the broker."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from retentiond.cli.options import Debug, Output, OutputFormat
from retentiond.cli.orphans_audit import OrphansAudit
from retentiond.cli.orphans_show import show
from retentiond.cli.state_dir import default_state_dir, make_state_dir
from retentiond.command_config.settings import read_settings
from retentiond.config.duration import parse_duration
from retentiond.errors import ConfigError, UsageError
from retentiond.observe import logs
from retentiond.orphans.cluster import KafkaReplicas
from retentiond.orphans.identity import identify
from retentiond.orphans.look import Terms
from retentiond.orphans.orphan import Fate, Orphan
from retentiond.orphans.serve import serve
from retentiond.orphans.session import Approve, Session
from retentiond.wording.printable import printable


def orphans(  # noqa: PLR0917 - typer hands each option over by its name
    bootstrap_server: Annotated[
        str, typer.Option("--bootstrap-server", help="The brokers to start from: host:port,…")
    ],
    log_dir: Annotated[
        list[Path],
        typer.Option("--log-dir", metavar="DIR…", help="The broker's log directories (log.dirs)."),
    ],
    further: Annotated[
        list[Path] | None, typer.Argument(help="Further directories of --log-dir.", metavar="DIR")
    ] = None,
    command_config: Annotated[
        Path | None,
        typer.Option("--command-config", help="Java properties of an AdminClient."),
    ] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the orphans that may go; else only look.")
    ] = False,
    after: Annotated[
        str,
        typer.Option("--after", help="How long a folder must have been an orphan, as in 2h or 1d."),
    ] = "2h",
    retention: Annotated[
        str | None,
        typer.Option(
            "--retention",
            help="How old all of its records must be; by default the broker's log.retention.*",
            show_default=False,
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output: OutputFormat = Output.TABLE,
    listen: Annotated[
        str | None,
        typer.Option(
            "--serve",
            metavar="[HOST:]PORT",
            help="Go on looking, and serve metrics there, until SIGTERM.",
        ),
    ] = None,
    interval: Annotated[
        str, typer.Option("--interval", help="With --serve: how often to look.")
    ] = "5m",
    state_dir: Annotated[
        Path | None,
        typer.Option(
            "--state-dir",
            help="Remembers since when each folder is an orphan, and holds the audit log; by "
            "default $XDG_STATE_HOME/retentiond, else ~/.local/state/retentiond.",
            show_default=False,
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Report, and remove, partition folders that the cluster does not assign to this broker.

    Run it on the broker's host, as Kafka's user. Without --remove nothing is changed but its own
    memory of what it saw. A folder is removed when it has been an orphan for long enough, all of
    its records are older than the retention period, the cluster was read completely, and nobody
    has it open.

    Example: retentiond orphans --bootstrap-server localhost:9092 --log-dir /var/lib/kafka

    Example: retentiond orphans --bootstrap-server localhost:9092 --log-dir /disk1 /disk2
    --remove --yes --serve 9478
    """
    terms = Terms(
        after_ms=_duration("--after", after),
        retention_ms=None if retention is None else _duration("--retention", retention),
    )
    interval_ms = _interval_ms(interval)
    address = None if listen is None else _address(listen)
    if remove and not yes and (address is not None or not sys.stdin.isatty()):
        raise UsageError("--remove needs --yes where it can't ask; without --remove it only looks")
    logs.configure(debug=debug)
    disks = identify([*log_dir, *(further or ())])
    where = state_dir or default_state_dir()
    make_state_dir(where)
    stop = threading.Event()
    with closing(KafkaReplicas(read_settings(bootstrap_server, command_config))) as cluster:
        session = Session(
            disks,
            cluster,
            terms,
            where,
            OrphansAudit(where),
            approve=approval(yes=yes) if remove else None,
            stopping=stop.is_set,
            while_down=address is None,
        )
        if address is not None:
            try:
                serve(session.run, stop, *address, interval_ms)
            except ConfigError as error:  # it speaks of the daemon's file
                raise UsageError(f"--serve: {error.message}") from error
            return
        look = session.run()
    show(look, output, sys.stdout)
    if look.problems or any(orphan.fate is Fate.FAILED for orphan in look.orphans):
        raise typer.Exit(1)


def approval(*, yes: bool) -> Approve:
    """Asks once for all; with ``yes`` not at all."""

    def ask(due: Sequence[Orphan]) -> bool:
        if yes:
            return True
        for orphan in due:
            size_bytes = orphan.contents.segment_bytes
            path = printable(str(orphan.folder.path))
            print(f"{path}: {size_bytes:,} bytes; {orphan.why}", file=sys.stderr)
        what = "this folder" if len(due) == 1 else f"these {len(due)} folders"
        return typer.confirm(f"Remove {what} for good?", err=True)

    return ask


def _duration(option: str, text: str) -> int:
    duration_ms = parse_duration(text)
    if duration_ms is None:
        raise UsageError(f"{option} {text!a}: expected a number and a unit, as in 2h, 7d or 90m")
    return duration_ms


def _interval_ms(text: str) -> int:
    interval_ms = _duration("--interval", text)
    if interval_ms < 1000:
        raise UsageError("--interval: expected 1s or more")
    return interval_ms


def _address(text: str) -> tuple[str, int]:
    """All addresses of the host where none is named."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal() and int(port) < 65536):
        raise UsageError(f"--serve {text!a}: expected [HOST:]PORT, as in 9478 or 127.0.0.1:9478")
    return host.strip("[]") or "0.0.0.0", int(port)
