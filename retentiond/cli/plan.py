"""``retentiond plan``: what would be deleted, and why the rest is not."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated

import typer

from retentiond.cli.configured import load, set_up
from retentiond.cli.first_look import CONSUMED_RETENTION, Wanted, look
from retentiond.cli.options import ConfigPath, Debug, Output, OutputFormat, Settings
from retentiond.cli.show import progress, show
from retentiond.cycle import kept_in, plan_cycle
from retentiond.engine import Engine
from retentiond.errors import UsageError
from retentiond.model import Verdict
from retentiond.observe import logs
from retentiond.observe.report import CycleReport

SOMETHING_TO_DELETE = 3

BootstrapServer = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        help="Look at this cluster without a configuration: host:port,…",
        show_default=False,
    ),
]

CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        help="With --bootstrap-server: Java properties of an AdminClient, for a secure cluster.",
        show_default=False,
    ),
]


def plan(  # noqa: PLR0917 - typer hands each option over by its name
    context: typer.Context,
    config: ConfigPath = None,
    bootstrap_server: BootstrapServer = None,
    consumed_retention: Annotated[
        str | None,
        typer.Option(
            "--consumed-retention",
            help="With --bootstrap-server: keep every record at least this long, as in 90m or "
            f"7d; by default {CONSUMED_RETENTION}.",
            show_default=False,
        ),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            metavar="PATTERN",
            help="With --bootstrap-server: only topics whose whole name matches this regular "
            "expression; may be given several times.",
        ),
    ] = None,
    command_config: CommandConfig = None,
    write_config: Annotated[
        Path | None,
        typer.Option(
            "--write-config",
            metavar="FILE",
            help="With --bootstrap-server: make a configuration of it to start from.",
            show_default=False,
        ),
    ] = None,
    output: OutputFormat = Output.TABLE,
    exit_code: Annotated[
        bool,
        typer.Option("--exit-code", help="Exit with 3 when there is something to delete."),
    ] = False,
    debug: Debug = False,
) -> None:
    """Gather and decide; delete nothing, and leave no trace.

    Example: retentiond plan --bootstrap-server localhost:9092 --consumed-retention 24h

    Example: retentiond plan --output json | jq '.partitions[] | select(.verdict == "delete")'
    """
    if bootstrap_server is not None:
        start_without_configuration(context, config, debug)
        wanted = Wanted(
            bootstrap_server, command_config, consumed_retention, topic or (), write_config
        )
        report = look(wanted, output).report
    else:
        for option, given in {
            "--consumed-retention": consumed_retention,
            "--topic": topic,
            "--command-config": command_config,
            "--write-config": write_config,
        }.items():
            if given:
                raise UsageError(f"{option} goes with --bootstrap-server, without a configuration")
        report = _configured(set_up(context, config, debug))
        show(report, output, with_outcomes=False)
    if exit_code and any(row.verdict is Verdict.DELETE for row in report.plan.rows):
        raise typer.Exit(SOMETHING_TO_DELETE)


def start_without_configuration(context: typer.Context, config: Path | None, debug: bool) -> None:
    """Starts logging. The environment's configuration is passed over, one that is given is an
    error."""
    before: Settings = context.obj
    if config or before.config:
        raise UsageError("give either --config or --bootstrap-server, which goes without one")
    logs.configure(debug=debug or before.debug)


def _configured(path: Path) -> CycleReport:
    loaded = load(path)
    engine = Engine(loaded, threading.Event(), lambda *_: None)
    try:
        with progress("reading the cluster"):
            engine.warm_up()
            return plan_cycle(engine.tools, loaded, kept_in(loaded.state_dir)).report
    finally:
        engine.close()
