"""The figures for people: a table on the terminal, and one for each layout in docs/scaling.md."""

import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyspark
from rich.console import Console
from rich.table import Table

from devkit.bench.layouts import LAYOUTS, Layout
from devkit.bench.memory import cores
from devkit.bench.result import Measurement, Result
from devkit.embedded import default_version
from retentiond.kafka.brokers import librdkafka_version

ROOT = Path(__file__).resolve().parents[3]

PAGE = ROOT / "docs" / "scaling.md"


def write(measured: Measurement) -> None:
    """Puts each layout that was measured into its place on the page; the others keep their figures,
    with the date and commit at which they were measured. Raises ValueError if a place is missing.
    """
    text = PAGE.read_text()
    for layout in LAYOUTS.values():
        results = [each for each in measured.results if _is_of(layout, each)]
        if not results:
            continue
        begin, end = f"<!-- {layout.name}: scripts/bench --write -->\n", f"<!-- {layout.name} -->\n"
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise ValueError(f"{PAGE} has no place for layout {layout.name}")
        text = before + begin + "\n".join(_section(layout, measured, results)) + "\n" + end + after
    PAGE.write_text(text)


def _is_of(layout: Layout, result: Result) -> bool:
    return result.what.startswith(f"{layout.name}, ")


def _section(layout: Layout, measured: Measurement, results: Sequence[Result]) -> list[str]:
    on = dict(measured.machine)
    when = f"Measured on {on.pop('date')}, commit {on.pop('commit')}"
    machine = ", ".join(f"{name} {value}" for name, value in on.items())
    rows = [
        (each.what.removeprefix(f"{layout.name}, "), *each.cells()[1:])
        for each in results
        if each.is_for_people
    ]
    return [
        f"**{layout.commits:,} commits, {layout.topics * layout.partitions:,} partitions** of "
        f"{layout.topics:,} topics, {layout.groups:,} groups, brokers: {layout.brokers}. {when} "
        f"({machine}).",
        "",
        "| | figure | target |",
        "| --- | ---: | ---: |",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def show(console: Console, results: Sequence[Result]) -> None:
    """The table."""
    table = _table("what", "figure", "target")
    for result in results:
        table.add_row(*result.cells(), style="red" if result.kept is False else "")
    console.print(table)


def _table(what: str, *figures: str) -> Table:
    table = Table(what, box=None, pad_edge=False, header_style="bold")
    for heading in figures:
        table.add_column(heading, justify="right")
    return table


def compare(console: Console, before: Path, after: Path) -> None:
    """Two measurements side by side, with a ratio for each figure that both have. Raises ValueError
    for a file that holds none."""
    first, second = Measurement.read(before), Measurement.read(after)
    for measurement in (first, second):
        console.print(", ".join(f"{name} {value}" for name, value in measurement.machine.items()))
    earlier = {result.what: result for result in first.results}
    table = _table("what", "before", "after", "ratio")
    for result in second.results:
        if (old := earlier.get(result.what)) is not None:
            ratio = f"{result.value / old.value:.2f} x" if old.value else ""
            table.add_row(result.what, old.shown(old.value), result.shown(result.value), ratio)
    console.print(table)


def machine() -> dict[str, str]:
    """When, of which commit, on how many cores, and with which versions."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    commit = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": commit.strip(),
        "cores": str(cores()),
        "Python": platform.python_version(),
        "Kafka": default_version(),
        "Spark": pyspark.__version__,
        "librdkafka": librdkafka_version(),
    }
