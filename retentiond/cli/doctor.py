"""``retentiond doctor``: what would keep retentiond from working, and what to do about it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from retentiond.cli.options import ConfigPath, Debug, Output, OutputFormat, load, set_up
from retentiond.cli.output.printing import Printer, print_json, progress
from retentiond.clock import now_ms
from retentiond.fields import document_of
from retentiond.formatting import printable, say_verb

if TYPE_CHECKING:
    from retentiond.tools.doctor.examine import Examination
    from retentiond.tools.doctor.finding import Finding


def doctor(
    config: ConfigPath = None,
    output: OutputFormat = Output.TABLE,
    spark: Annotated[
        bool | None,
        typer.Option(
            "--spark/--no-spark",
            help="Start Spark and run a job, which takes 10 to 20 s. "
            "By default it is started unless a daemon is at work with this state_dir.",
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Connect, and list what would keep retentiond from working, each with its remedy.

    It changes nothing on the cluster. On this host it tries the file system of state_dir in a
    folder of its own, which it removes. It exits with 1 if there is a problem.

    Example: retentiond doctor --output json | jq '.findings[] | select(.level != "ok")'
    """
    from retentiond.tools.doctor.examine import examine
    from retentiond.tools.doctor.spark import spark_tried

    loaded = load(set_up(config, debug))
    with progress("examining"):
        examination = examine(loaded, now_ms)
        tried = tuple(spark_tried(loaded.spark, loaded.state_dir, spark))
        examination = replace(examination, findings=(*examination.findings, *tried))
    if output is Output.JSON:
        print_json(document_of(examination))
    else:
        _show(examination)
    if examination.problems:
        raise typer.Exit(1)


STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red"}


def _show(examination: Examination) -> None:
    """A table where there is a terminal to fit it to, else a line for each finding."""
    printer = Printer()
    if printer.console.is_terminal:
        printer.console.print(_table(examination.findings))
    else:
        for finding in examination.findings:
            remedy = f". Remedy: {finding.remedy}" if finding.remedy else ""
            line = f"{finding.level:<8} {finding.subject}: {finding.sentence}{remedy}"
            printer.say(printable(line))
    printer.say(
        f"{_many(examination.problems, 'problem')}, {_many(examination.warnings, 'warning')}; "
        f"{_many(examination.ok, 'check')} {say_verb(examination.ok, 'is', 'are')} ok."
    )


def _table(findings: tuple[Finding, ...]) -> Table:
    table = Table(
        box=None, pad_edge=False, show_header=False, padding=(0, 1), collapse_padding=True
    )
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", max_width=22)
    table.add_column(overflow="fold")
    for finding in findings:
        text = Text(printable(finding.sentence))
        if finding.remedy is not None:
            text.append(f"\n→ {printable(finding.remedy)}", style="bold")
        table.add_row(
            Text(finding.level.value, STYLES[finding.level.value]),
            printable(finding.subject),
            text,
        )
    return table


def _many(count: int, what: str) -> str:
    return f"{count or 'no'} {what}{'' if count == 1 else 's'}"
