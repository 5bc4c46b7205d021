"""What ``retentiond plan`` does with a configuration; without one: `first_look`."""

from __future__ import annotations

import threading
from pathlib import Path

from retentiond.cli.configured import load
from retentiond.cli.options import Output
from retentiond.cli.show import progress, show
from retentiond.cycle import plan_cycle
from retentiond.engine import Engine
from retentiond.observe.report import CycleReport
from retentiond.state.kept import kept_in


def plan_configured(path: Path, output: Output) -> CycleReport:
    """Plans, and shows it."""
    report = _planned(path)
    show(report, output, with_outcomes=False)
    return report


def _planned(path: Path) -> CycleReport:
    loaded = load(path)
    engine = Engine(loaded, threading.Event(), lambda *_: None, once=True)
    try:
        with progress("reading the cluster"):
            engine.warm_up()
            return plan_cycle(engine.tools, loaded, kept_in(loaded.state_dir)).report
    finally:
        engine.close()
