"""``retentiond plan``: what would be deleted, and why the rest is not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retentiond.cli.options import (
    CONSUMED_RETENTION,
    ONLY_TOPICS,
    OWNER,
    SOMETHING_FOUND,
    WITH_SERVER,
    WRITE_CONFIG,
    BootstrapServer,
    CommandConfig,
    ConfigPath,
    Debug,
    Output,
    OutputFormat,
    load,
    one_engine,
    refuse,
    set_up,
)
from retentiond.errors import UsageError
from retentiond.model import Verdict

if TYPE_CHECKING:
    from retentiond.tell.report import CycleReport

UNMANAGED = "--unmanaged"

FIRST_LOOK = f"--bootstrap-server or {UNMANAGED}"


def plan(  # noqa: PLR0917 - typer hands each option over by its name
    config: ConfigPath = None,
    bootstrap_server: BootstrapServer = None,
    unmanaged: Annotated[
        bool,
        typer.Option(
            UNMANAGED,
            help="Look at the topics that no entry of the configuration is about, the largest "
            "first.",
        ),
    ] = False,
    consumed_retention: Annotated[
        str | None,
        typer.Option(
            help=f"With {FIRST_LOOK}: keep every record at least this long, as in 90m or 7d; by "
            f"default what the configuration's defaults say, else {CONSUMED_RETENTION}."
        ),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN", help=f"With {FIRST_LOOK}: {ONLY_TOPICS[0].lower()}{ONLY_TOPICS[1:]}"
        ),
    ] = None,
    command_config: CommandConfig = None,
    write_config: Annotated[
        Path | None,
        typer.Option(
            WRITE_CONFIG,
            metavar="FILE",
            help=f"With --bootstrap-server: write a configuration to start from. With {UNMANAGED}: "
            "write a policy file.",
        ),
    ] = None,
    owner: Annotated[
        str | None,
        typer.Option(
            OWNER,
            metavar="NAME",
            help=f"With {UNMANAGED} {WRITE_CONFIG}: who is asked about these topics; by default "
            "unassigned.",
        ),
    ] = None,
    include_unlimited: Annotated[
        bool,
        typer.Option(
            "--include-unlimited",
            help=f"With {FIRST_LOOK}: enable topics with unlimited retention, too.",
        ),
    ] = False,
    partitions: Annotated[
        bool,
        typer.Option(
            "--partitions",
            help="Show a row a partition on a terminal, too, where the table is by topic. A pipe "
            "always gets a row a partition.",
        ),
    ] = False,
    output: OutputFormat = Output.TABLE,
    exit_code: Annotated[
        bool,
        typer.Option("--exit-code", help="Exit with 3 when there is something to delete."),
    ] = False,
    debug: Debug = False,
) -> None:
    """Show what would be deleted, and why the rest is not; delete and record nothing.

    Example: retentiond plan --bootstrap-server localhost:9092 --consumed-retention 24h

    Example: retentiond plan --unmanaged --write-config policies.d/new.yaml --owner payments

    Example: retentiond plan --output json | jq '.partitions[] | select(.verdict == "delete")'
    """
    if unmanaged and bootstrap_server is not None:
        raise UsageError(
            f"give either {UNMANAGED} or --bootstrap-server: without a configuration "
            "no topic has an entry"
        )
    if bootstrap_server is None:
        refuse({"--command-config": command_config}, WITH_SERVER)
    if not unmanaged:
        refuse({OWNER: owner}, f"goes with {UNMANAGED}")
    if owner is not None and write_config is None:
        raise UsageError(f"{OWNER} goes with {WRITE_CONFIG}, which writes the policy file")
    report: CycleReport | None
    path = set_up(config, debug, bootstrap_server)
    if bootstrap_server is not None or unmanaged:
        if partitions:
            raise UsageError("--partitions doesn't go with a first look, which is by topic")
        from retentiond.cli.first_look import FirstLookOptions, take_first_look

        report = take_first_look(
            FirstLookOptions(
                bootstrap_server,
                command_config,
                path,
                consumed_retention,
                topic or (),
                write_config,
                output,
                include_unlimited,
                owner,
            )
        )
    else:
        of_first_look = {
            "--consumed-retention": consumed_retention,
            "--topic": topic,
            WRITE_CONFIG: write_config,
            "--include-unlimited": include_unlimited,
        }
        refuse(of_first_look, f"goes with {FIRST_LOOK}")
        from retentiond.cli.output.plan import show
        from retentiond.cycle import plan_cycle
        from retentiond.state.state import read_stored_state

        loaded = load(path)
        with one_engine(loaded) as engine:
            engine.warm_up()
            stored = read_stored_state(loaded.state_dir)
            report = plan_cycle(engine.context, loaded, stored).report
        show(report, output, with_outcomes=False, by_topic=not partitions)
    if exit_code and report and any(row.verdict is Verdict.DELETE for row in report.plan.rows):
        raise typer.Exit(SOMETHING_FOUND)
