"""How a plan looks: a table for people, one JSON object for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.table import Table

from retentiond.cli.options import Output
from retentiond.model import PlanRow, Verdict
from retentiond.observe.report import CycleReport, document

STYLES = {Verdict.DELETE: "green", Verdict.NOTHING: "dim", Verdict.HOLD: "yellow"}


@contextmanager
def progress(what: str) -> Iterator[None]:
    """A spinner on stderr while something takes long; nothing where that is no terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(f"{what} …"):
        yield


def show(report: CycleReport, output: Output, *, with_outcomes: bool) -> None:
    """Prints the result to stdout."""
    if output is Output.JSON:
        json.dump(document(report, with_outcomes=with_outcomes), sys.stdout, indent=2)
        sys.stdout.write("\n")
        return
    console = Console(highlight=False)
    console.print(_table(report, with_outcomes))
    for problem in report.plan.problems:
        console.print(f"[yellow]incomplete:[/yellow] {problem}")
    console.print(_summary(report, with_outcomes))


def _table(report: CycleReport, with_outcomes: bool) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("TOPIC-PARTITION", overflow="fold")
    for heading in ("START", "COMMITTED", "END", "CUTOFF", "RECORDS"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("VERDICT", no_wrap=True)
    table.add_column("BOUND BY", overflow="fold")
    if with_outcomes:
        table.add_column("OUTCOME", no_wrap=True)
    for row in report.plan.rows:
        cells = [
            f"{row.topic}-{row.partition}",
            _figure(row.log_start_offset),
            _figure(row.min_committed_offset),
            _figure(row.high_watermark),
            _figure(row.cutoff),
            str(row.records or "-"),
            f"{row.verdict}: {row.reason}",
            row.binding_group or "-",
        ]
        if with_outcomes:
            cells.append(_outcome(report, row))
        table.add_row(*cells, style=STYLES[row.verdict])
    return table


def _figure(value: int | None) -> str:
    return "?" if value is None else str(value)


def _outcome(report: CycleReport, row: PlanRow) -> str:
    return report.outcome(row).outcome.value if row.verdict is Verdict.DELETE else "-"


def _summary(report: CycleReport, with_outcomes: bool) -> str:
    rows = report.plan.rows
    deletions = [row for row in rows if row.verdict is Verdict.DELETE]
    records = sum(row.records for row in deletions)
    if with_outcomes and not report.plan.dry_run:
        did = f"{report.records_deleted} of {records} records deleted"
    else:
        did = f"{records} records in {len(deletions)} partitions may go; nothing was deleted"
    holds = sum(row.verdict is Verdict.HOLD for row in rows)
    return (
        f"{len(rows)} partitions of {len({row.topic for row in rows})} topics: {did}; {holds} held."
    )
