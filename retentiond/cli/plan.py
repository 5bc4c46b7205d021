"""``retentiond plan``: what would be deleted, and why the rest is not."""

from __future__ import annotations

import threading
from typing import Annotated

import typer

from retentiond.cli.configured import load, set_up
from retentiond.cli.options import ConfigPath, Debug, Output, OutputFormat
from retentiond.cli.show import progress, show
from retentiond.cycle import kept_in, plan_cycle
from retentiond.engine import Engine
from retentiond.model import Verdict

SOMETHING_TO_DELETE = 3


def plan(
    context: typer.Context,
    config: ConfigPath = None,
    output: OutputFormat = Output.TABLE,
    exit_code: Annotated[
        bool,
        typer.Option("--exit-code", help="Exit with 3 when there is something to delete."),
    ] = False,
    debug: Debug = False,
) -> None:
    """Gather and decide; delete nothing, and leave no trace.

    Example: retentiond plan --output json | jq '.partitions[] | select(.verdict == "delete")'
    """
    loaded = load(set_up(context, config, debug))
    engine = Engine(loaded, threading.Event(), lambda *_: None)
    try:
        with progress("reading the cluster"):
            engine.warm_up()
            report = plan_cycle(engine.tools, loaded, kept_in(loaded.state_dir)).report
    finally:
        engine.close()
    show(report, output, with_outcomes=False)
    if exit_code and any(row.verdict is Verdict.DELETE for row in report.plan.rows):
        raise typer.Exit(SOMETHING_TO_DELETE)
