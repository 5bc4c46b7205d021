"""``retentiond run``: the daemon, or a single cycle of it."""

from __future__ import annotations

from typing import Annotated

import typer

from retentiond.cli.configured import set_up
from retentiond.cli.options import ConfigPath, Debug, Output
from retentiond.errors import UsageError


def run(
    context: typer.Context,
    config: ConfigPath = None,
    once: Annotated[bool, typer.Option("--once", help="Run a single cycle, then exit.")] = False,
    output: Annotated[
        Output | None,
        typer.Option("--output", "-o", help="With --once: print the plan and its outcomes."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Run the daemon: gather, decide and delete every interval, and serve metrics.

    Example: retentiond run --config /etc/retentiond/retentiond.yaml
    """
    if output is not None and not once:
        raise UsageError("--output goes with --once; the daemon serves its plan at /api/plan")
    path = set_up(context, config, debug)
    from retentiond.cli.running import run_daemon, run_once  # noqa: PLC0415 - slow: see lazy.py

    if not once:
        run_daemon(path)
    elif run_once(path, output or Output.TABLE):
        raise typer.Exit(1)
