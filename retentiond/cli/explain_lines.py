"""The lines that explanations of a partition and of a topic share."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from retentiond.cli.table import say as say_as_it_is
from retentiond.observe.report import CycleReport
from retentiond.wording.figures import say_about
from retentiond.wording.printable import printable

MOST_EXCLUDED = 5
"""Groups that a line names."""


def say(console: Console, line: str = "") -> None:
    """One line; a group's name in it can't steer the terminal."""
    say_as_it_is(console, printable(line))


def say_excluded(console: Console, excluded: Sequence[str]) -> None:
    if excluded:
        more = len(excluded) - MOST_EXCLUDED
        named = ", ".join(excluded[:MOST_EXCLUDED]) + (f" and {more} more" if more > 0 else "")
        say(console, f"Excluded by the policy: {named}.")


def say_report(console: Console, report: CycleReport) -> None:
    for problem in report.plan.problems:
        say(console, f"{'warning' if report.plan.complete else 'incomplete'}: {problem}")
    if report.plan.paused:
        say(console, report.plan.paused)


def say_standing(since_ms: int | None, now_ms: int) -> str:
    if since_ms is None:
        return "?"
    return "moves" if since_ms >= now_ms else say_about(now_ms - since_ms)


def say_figure(value: int | None, unknown: str = "?") -> str:
    return unknown if value is None else str(value)
