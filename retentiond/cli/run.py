"""``retentiond run``: the daemon, or a single cycle of it."""

from __future__ import annotations

import os
import sys
import threading
from typing import Annotated

import structlog
import typer

from retentiond.cli.configured import load, set_up
from retentiond.cli.options import ConfigPath, Debug, Output
from retentiond.cli.show import progress, show
from retentiond.config import Config
from retentiond.daemon import Daemon
from retentiond.engine import Engine
from retentiond.errors import UsageError
from retentiond.observe.canonical import log_cycle
from retentiond.state.state import State, open_state


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
    loaded = load(path)
    with open_state(loaded.state_dir) as state:
        if once:
            failed = _run_once(loaded, state, output or Output.TABLE)
            raise typer.Exit(1 if failed else 0)
        ended = Daemon(loaded, lambda: load(path), state).run()
    if not ended:
        # A reading still waits for an answer, on a thread that the interpreter would join.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _run_once(config: Config, state: State, output: Output) -> bool:
    """Whether a deletion failed, or may have."""
    engine = Engine(config, threading.Event(), lambda *_: None)
    try:
        with progress("running a cycle"):
            engine.warm_up()
            engine.settle(state)
            report = engine.run_cycle(state)
    finally:
        engine.close()
    log_cycle(structlog.get_logger(), report)
    show(report, output, with_outcomes=True)
    return bool(report.failed)
