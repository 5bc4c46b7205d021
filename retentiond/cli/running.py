"""What ``retentiond run`` does."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import structlog

from retentiond.cli.configured import load
from retentiond.cli.options import Output
from retentiond.cli.show import progress, show
from retentiond.daemon import Daemon
from retentiond.engine import Engine
from retentiond.observe.canonical import log_cycle
from retentiond.state.state import open_state


def run_daemon(path: Path) -> None:
    """Returns when it was told to end."""
    loaded = load(path)
    with open_state(loaded.state_dir) as state:
        ended = Daemon(loaded, lambda: load(path), state).run()
    if not ended:
        # A reading still waits for an answer, on a thread that the interpreter would join.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def run_once(path: Path, output: Output) -> bool:
    """Whether a deletion failed, or may have."""
    loaded = load(path)
    with open_state(loaded.state_dir) as state:
        engine = Engine(loaded, threading.Event(), lambda *_: None, once=True)
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
