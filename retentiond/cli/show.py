"""How a plan looks: a table for people, one JSON object for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from retentiond.cli.options import Output
from retentiond.cli.table import Column, Kind, Row, print_table, printer, say
from retentiond.model import PlanRow, Verdict
from retentiond.observe.report import CycleReport, TopicFigures, document, topic_figures
from retentiond.wording.figures import say_bytes, say_many, say_share
from retentiond.wording.printable import printable

STYLES = {Verdict.DELETE: "green", Verdict.NOTHING: "dim", Verdict.HOLD: "yellow"}

COLUMNS = (
    Column("TOPIC-PARTITION", Kind.NAME),
    Column("START", Kind.FIGURE, spare=True),
    Column("COMMITTED", Kind.FIGURE, spare=True),
    Column("END", Kind.FIGURE, spare=True),
    Column("CUTOFF", Kind.FIGURE, spare=True),
    Column("RECORDS", Kind.FIGURE),
    Column("BYTES", Kind.FIGURE, spare=True),
    Column("VERDICT", Kind.WORD),
    Column("BOUND BY", Kind.NAME),
)


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
    console = printer()
    print_table(console, COLUMNS, (_row(report, row, with_outcomes) for row in report.plan.rows))
    for problem in report.plan.problems:
        say(console, f"{'warning' if report.plan.complete else 'incomplete'}: {problem}")
    if report.plan.paused:
        say(console, report.plan.paused)
    for stuck in report.disk.stuck:
        say(console, f"stuck: {printable(str(stuck.at))}: {stuck.sentence}")
    for problem in report.disk.problems:
        say(console, f"bytes are not known: {problem}")
    for topic in topic_figures(report):
        if topic.records and topic.predicted_bytes is not None and topic.size_bytes is not None:
            say(console, _on_disk(topic))
    say(console, _summary(report, with_outcomes))


def _row(report: CycleReport, row: PlanRow, with_outcomes: bool) -> Row:
    """After a run, a deletion's outcome stands in place of its reason, which is always the same."""
    is_done = with_outcomes and row.verdict is Verdict.DELETE
    cells = [
        f"{row.topic}-{row.partition}",
        _figure(row.log_start_offset),
        _figure(row.min_committed_offset),
        _figure(row.high_watermark),
        _figure(row.cutoff),
        str(row.records or "-"),
        _bytes(row),
        f"{row.verdict}: {report.outcome(row).outcome if is_done else row.reason}",
        row.binding_group or "-",
    ]
    return Row(cells, STYLES[row.verdict])


def _figure(value: int | None) -> str:
    return "?" if value is None else str(value)


def _bytes(row: PlanRow) -> str:
    """To be freed on all replicas' disks."""
    if not row.records:
        return "-"
    return "?" if row.predicted_bytes is None else say_bytes(row.predicted_bytes)


def _on_disk(topic: TopicFigures) -> str:
    freed, size = topic.predicted_bytes or 0, topic.size_bytes or 0
    return (
        f"{printable(topic.topic)}: about {say_bytes(freed)} of {say_bytes(size)} on disk "
        f"({say_share(freed, size)}) in {say_many(topic.records, 'record')}"
    )


def _summary(report: CycleReport, with_outcomes: bool) -> str:
    rows = report.plan.rows
    deletions = [row for row in rows if row.verdict is Verdict.DELETE]
    records = sum(row.records for row in deletions)
    predicted = report.predicted_bytes
    freed = f" (about {say_bytes(predicted)} on disk)" if predicted else ""
    if with_outcomes and not report.plan.dry_run:
        did = f"{report.records_deleted} of {records} records deleted{freed}"
    else:
        did = f"{records} records in {len(deletions)} partitions may go{freed}; nothing was deleted"
    holds = sum(row.verdict is Verdict.HOLD for row in rows)
    return (
        f"{len(rows)} partitions of {len({row.topic for row in rows})} topics: {did}; {holds} held."
    )
