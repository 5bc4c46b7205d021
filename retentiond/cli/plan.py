"""``retentiond plan``: what would be deleted, and why the rest is not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retentiond.cli.options import (
    BootstrapServer,
    CommandConfig,
    ConfigPath,
    ConsumedRetention,
    Debug,
    Output,
    OutputFormat,
    load,
    one_engine,
    refuse_without_server,
    set_up,
    start_without_configuration,
    topics,
)
from retentiond.model import Verdict

if TYPE_CHECKING:
    from retentiond.tell.report import CycleReport


SOMETHING_TO_DELETE = 3


def plan(  # noqa: PLR0917 - typer hands each option over by its name
    context: typer.Context,
    config: ConfigPath = None,
    bootstrap_server: BootstrapServer = None,
    consumed_retention: ConsumedRetention = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            metavar="PATTERN",
            help="With --bootstrap-server: only topics whose whole name matches this regular "
            "expression; may be given several times.",
            autocompletion=topics,
        ),
    ] = None,
    command_config: CommandConfig = None,
    write_config: Annotated[
        Path | None,
        typer.Option(
            "--write-config",
            metavar="FILE",
            help="With --bootstrap-server: write a configuration to start from.",
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
    """Show what would be deleted, and why the rest is not; delete and record nothing.

    Example: retentiond plan --bootstrap-server localhost:9092 --consumed-retention 24h

    Example: retentiond plan --output json | jq '.partitions[] | select(.verdict == "delete")'
    """
    if bootstrap_server is not None:
        start_without_configuration(context, config, debug)
        from retentiond.cli.first_look import FirstLook, take_first_look

        wanted = FirstLook(
            bootstrap_server, command_config, consumed_retention, topic or (), write_config
        )
        report = take_first_look(wanted, output).report
    else:
        refuse_without_server(
            {
                "--consumed-retention": consumed_retention,
                "--topic": topic,
                "--command-config": command_config,
                "--write-config": write_config,
            }
        )
        report = _planned(set_up(context, config, debug))
        from retentiond.cli.output.plan import show

        show(report, output, with_outcomes=False)
    if exit_code and any(row.verdict is Verdict.DELETE for row in report.plan.rows):
        raise typer.Exit(SOMETHING_TO_DELETE)


def _planned(path: Path) -> CycleReport:
    from retentiond.cycle import plan_cycle
    from retentiond.state.state import read_stored_state

    loaded = load(path)
    with one_engine(loaded) as engine:
        engine.warm_up()
        return plan_cycle(engine.context, loaded, read_stored_state(loaded.state_dir)).report
