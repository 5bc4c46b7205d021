"""``retentiond orphans``: KIP-370 on a broker's host, without a change to the broker."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from retentiond.cli.configured import start_logging
from retentiond.cli.options import Debug, Output, OutputFormat
from retentiond.errors import UsageError


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
    http_config: Annotated[
        Path | None,
        typer.Option(
            "--http-config",
            metavar="FILE",
            help="With --serve: a YAML file whose section http holds tls, basic_auth or both, as "
            "in the daemon's configuration.",
            show_default=False,
        ),
    ] = None,
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
    from retentiond.cli import orphans_work as work  # noqa: PLC0415 - slow: see lazy.py

    terms = work.terms(after, retention)
    port = work.port(listen, interval, http_config)
    if remove and not yes and (port is not None or not sys.stdin.isatty()):
        raise UsageError("--remove needs --yes where it can't ask; without --remove it only looks")
    wanted = work.Wanted(
        servers=bootstrap_server,
        command_config=command_config,
        log_dirs=(*log_dir, *(further or ())),
        terms=terms,
        approve=work.approval(yes=yes) if remove else None,
        state_dir=state_dir,
    )
    start_logging(debug)
    if port is not None:
        work.go_on(wanted, port)
    elif work.look_once(wanted, output):
        raise typer.Exit(1)
