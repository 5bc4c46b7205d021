"""``retentiond plan``: what would be deleted, and why the rest is not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from retentiond.cli.configured import set_up, start_without_configuration
from retentiond.cli.options import (
    CONSUMED_RETENTION,
    BootstrapServer,
    CommandConfig,
    ConfigPath,
    Debug,
    Output,
    OutputFormat,
)
from retentiond.errors import UsageError
from retentiond.model import Verdict

SOMETHING_TO_DELETE = 3


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
        from retentiond.cli.first_look import Wanted, look  # noqa: PLC0415 - slow: see lazy.py

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
        path = set_up(context, config, debug)
        from retentiond.cli.planning import plan_configured  # noqa: PLC0415 - as above

        report = plan_configured(path, output)
    if exit_code and any(row.verdict is Verdict.DELETE for row in report.plan.rows):
        raise typer.Exit(SOMETHING_TO_DELETE)
