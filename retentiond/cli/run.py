"""``retentiond run``: the daemon, or a single cycle of it."""

from __future__ import annotations

import os
import queue
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from retentiond.cli.options import ConfigPath, Debug, Output, load, one_engine, set_up
from retentiond.cli.output.streams import settled
from retentiond.errors import (
    ConfigError,
    HistoryUnavailable,
    StateError,
    StateOfOtherCluster,
    UsageError,
)

if TYPE_CHECKING:
    from retentiond.config import Config
    from retentiond.config.files import ConfigFiles
    from retentiond.daemon.reload import Reading


def run(
    config: ConfigPath = None,
    once: Annotated[bool, typer.Option("--once", help="Run a single cycle, then exit.")] = False,
    output: Annotated[
        Output | None,
        typer.Option(
            "--output",
            "-o",
            help="With --once: how the plan and its outcomes are printed to stdout.",
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Run the daemon: read the cluster, plan and delete every interval, and serve metrics.

    Example: retentiond run --config /etc/retentiond/retentiond.yaml
    """
    if output is not None and not once:
        raise UsageError("--output goes with --once; the daemon serves its plan at /api/plan")
    from retentiond.tell import logs

    logs.write_aside()
    path = set_up(config, debug)

    if not once:
        run_daemon(path)
    elif run_once(path, output or Output.TABLE):
        raise typer.Exit(1)


def run_daemon(path: Path) -> None:
    """Returns when it was told to end."""
    from retentiond.cli.output.beside_daemon import ANSWERS
    from retentiond.config.files import ConfigFiles
    from retentiond.daemon.daemon import Daemon
    from retentiond.state.state import open_state

    signals: queue.SimpleQueue[int] = queue.SimpleQueue()
    # Until the daemon listens: a file that changes behind its first reading is read again.
    signal.signal(signal.SIGHUP, lambda number, _: signals.put(number))
    loaded, files, _ = _read(path, ConfigFiles)
    if isinstance(loaded, ConfigError):
        raise loaded
    with open_state(loaded.state_dir) as state:
        daemon = Daemon(
            loaded,
            lambda make, readers: _read(path, make, readers),
            state,
            files=files,
            answers=ANSWERS,
            signals=signals,
        )
        ended = daemon.run()
        if not ended:  # and before the state is closed: somebody may still be writing it
            _end_at_once(0)


def _read(
    path: Path,
    make_files: Callable[[], ConfigFiles],
    readers_in_force: Mapping[str, object] | None = None,
) -> Reading:
    from retentiond.daemon.reload import Reading

    files: list[ConfigFiles] = []
    outcome: Config | ConfigError
    try:
        outcome = load(
            path, tell=files.append, make_files=make_files, readers_in_force=readers_in_force
        )
    except ConfigError as error:
        outcome = error
    return Reading(outcome, files[-1])


def run_once(path: Path, output: Output) -> bool:
    """Whether something was planned and not done, or may not have been."""
    import structlog

    from retentiond.cli.output.plan import show
    from retentiond.config.warnings import passed_over
    from retentiond.history.keeper import HistoryKeeper
    from retentiond.state.state import open_state
    from retentiond.tell import logs
    from retentiond.tell.cycle_log import log_report, log_settled

    loaded = load(path)
    with open_state(loaded.state_dir) as state:
        log = structlog.get_logger()
        logs.log_files(log, loaded, passed_over(loaded))

        def tell(error: HistoryUnavailable | None) -> None:
            if error is not None:
                log.warning(logs.HISTORY_FAILED, error=str(error))

        history = HistoryKeeper(loaded, tell)
        with one_engine(loaded, doing="running a cycle") as engine:
            engine.warm_up()
            try:
                log_settled(log, engine.reconcile(state))
                report, finished = engine.run_cycle(state)
            except StateError as error:
                if not isinstance(error, StateOfOtherCluster):
                    error.exit_code = 1  # the cycle failed; its state was right when it began
                raise
        history.see(finished)
        history.keep()
        try:
            log_report(log, report, each_deletion=loaded.audit.log)
            show(report, output, with_outcomes=True)
            engine.prune(state)
        except StateError as error:  # the cycle is over, and is what counts
            log.warning(logs.AUDIT_NOT_PRUNED, error=str(error))
        finally:  # an interpreter that ends while deltalake writes may crash
            is_written = history.finish(HISTORY_S)
        if not is_written:
            _end_at_once(1 if report.undone else 0)
        return bool(report.undone)


HISTORY_S = 10.0
"""How long an entry of the history may take to be written, after the plan was shown."""


def _end_at_once(code: int) -> NoReturn:
    """Something still waits for an answer, on a thread that the interpreter would join."""
    code = settled(code)
    if sys.stderr is not None:
        getattr(sys.stderr, "finish", sys.stderr.flush)()
    os._exit(code)
