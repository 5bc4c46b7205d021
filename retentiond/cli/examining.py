"""What ``retentiond doctor`` does."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

from rich.table import Table
from rich.text import Text

from retentiond.cli.configured import load
from retentiond.cli.options import Output
from retentiond.cli.show import progress
from retentiond.cli.table import printer, say
from retentiond.doctor.examine import Examination, examine
from retentiond.doctor.finding import Finding, Level
from retentiond.doctor.host import spark_version
from retentiond.doctor.look import now_ms
from retentiond.kafka.properties import translate
from retentiond.wording.printable import printable

STYLES = {Level.OK: "green", Level.WARNING: "yellow", Level.PROBLEM: "bold red"}


def examine_and_show(path: Path, output: Output, *, with_spark: bool) -> bool:
    """Whether there is a problem."""
    loaded = load(path)
    with progress("examining"):
        examination = examine(loaded, translate(loaded.kafka), now_ms)
        if with_spark:
            from retentiond.doctor.trial import try_spark  # noqa: PLC0415 - brings Spark, slowly

            tried = try_spark(loaded.spark.master, loaded.spark.conf, spark_version())
            examination = replace(examination, findings=(*examination.findings, *tried))
    if output is Output.JSON:
        json.dump(document(examination), sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        _show(examination)
    return bool(examination.count(Level.PROBLEM))


def document(examination: Examination) -> dict[str, object]:
    """As ``--output json`` prints it."""
    return {
        "cluster_id": examination.cluster_id,
        "problems": examination.count(Level.PROBLEM),
        "warnings": examination.count(Level.WARNING),
        "ok": examination.count(Level.OK),
        "findings": [
            {
                "level": each.level.value,
                "subject": each.subject,
                "sentence": each.sentence,
                "remedy": each.remedy,
                "names": list(each.names),
            }
            for each in examination.findings
        ],
    }


def _show(examination: Examination) -> None:
    """A table where there is a terminal to fit it to, else a line for each finding."""
    console = printer()
    if console.is_terminal:
        console.print(_table(examination.findings))
    else:
        for each in examination.findings:
            say(console, printable(_line(each)))
    say(console, _summary(examination))


def _table(findings: tuple[Finding, ...]) -> Table:
    table = Table(
        box=None, pad_edge=False, show_header=False, padding=(0, 1), collapse_padding=True
    )
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", max_width=22)
    table.add_column(overflow="fold")
    for each in findings:
        found = Text(printable(each.sentence))
        if each.remedy is not None:
            found.append(f"\n→ {printable(each.remedy)}", style="bold")
        table.add_row(Text(each.level.value, STYLES[each.level]), printable(each.subject), found)
    return table


def _line(finding: Finding) -> str:
    remedy = f". Remedy: {finding.remedy}" if finding.remedy else ""
    return f"{finding.level:<8} {finding.subject}: {finding.sentence}{remedy}"


def _summary(examination: Examination) -> str:
    counts = {level: examination.count(level) for level in Level}
    return (
        f"{_many(counts[Level.PROBLEM], 'problem')}, {_many(counts[Level.WARNING], 'warning')}; "
        f"{_many(counts[Level.OK], 'check')} {'is' if counts[Level.OK] == 1 else 'are'} ok."
    )


def _many(count: int, what: str) -> str:
    return f"{count or 'no'} {what}{'' if count == 1 else 's'}"
