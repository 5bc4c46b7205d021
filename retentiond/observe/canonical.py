"""The canonical log line of a cycle."""

from __future__ import annotations

from typing import Any

from retentiond.observe import events
from retentiond.observe.report import CycleReport, figures


def log_cycle(log: Any, report: CycleReport) -> None:
    """One line. It is a warning where something speaks against the evidence, also where the
    policy goes on in spite of it (``groups_visible: assumed``)."""
    say = log.warning if report.plan.problems else log.info
    say(events.CYCLE, **figures(report))
