"""The figures for people: a table on the terminal, and bench/README.md."""

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

import pyspark
from rich.console import Console
from rich.table import Table

from devkit.bench.layouts import LAYOUTS
from devkit.bench.memory import cores
from devkit.bench.result import Measurement, Result
from devkit.embedded import default_version
from retentiond.kafka.brokers import librdkafka_version

BENCH = Path(__file__).resolve().parents[3] / "bench"

BEGIN, END = "<!-- by scripts/bench --write -->\n", "<!-- end of it -->\n"
"""Around what is written into bench/README.md; the rest of the page is by hand."""

BARE = "the same requests through the bare clients"

BESIDE = "gather, right before the others"

POLLER = "a poller over franz-go, one round"

AT_A_GLANCE = {
    "the same requests through the bare clients": (BARE, None),
    "reading the cluster": ("gather", BARE),
    "decide": ("decide", BARE),
    "one dry-run cycle": ("whole dry-run cycle", BARE),
    "one cycle that deletes from every partition": ("whole cycle with *", BARE),
    "requests of a dry-run cycle": ("requests of a dry-run cycle", None),
    "requests of a cycle that deletes": ("requests of a cycle with * deletions", None),
    "a poller over franz-go reads all group offsets": (POLLER, None),
    "reading the cluster beside that poller": (BESIDE, POLLER),
    "kafka-consumer-groups reads them": ("kafka-consumer-groups, whole process", BESIDE),
    "memory of the daemon, Python and Java": ("both after *", None),
    "from the start to the first plan": ("start of the daemon to its first plan", None),
    "the broker's CPU, with a cycle each minute": ("the broker's CPU for a dry-run cycle *", None),
}
"""What a user compares by: the names of its figures, of which the largest counts, and those that it
is a multiple of."""


def write(measured: Measurement) -> None:
    """The main figures into bench/README.md."""
    machine = dict(measured.machine)
    date, on = machine.pop("date"), ", ".join(f"{name} {value}" for name, value in machine.items())
    layouts = "\n".join(
        f"- {layout}"
        for name, layout in LAYOUTS.items()
        if any(result.what.startswith(f"{name}:") for result in measured.results)
    )
    with_target = [result for result in measured.results if result.at_most is not None]
    missed = [("what", "target", "measured"), ("---", "---:", "---:")]
    missed += [
        (each.what, each.shown(each.at_most or 0), each.shown(each.value))
        for each in with_target
        if not each.kept
    ]
    readme = BENCH / "README.md"
    before, _, rest = readme.read_text().partition(BEGIN)
    readme.write_text(
        f"{before}{BEGIN}Measured on {date} ({on}); [all figures](results/{date}.json).\n\n"
        f"{layouts}\n\n" + "\n".join(at_a_glance(measured.results)) + "\n\n"
        f"Of {len(with_target)} targets, {len(missed) - 2} were missed:\n\n"
        + "\n".join(f"| {' | '.join(row)} |" for row in missed)
        + f"\n{END}{rest.partition(END)[2]}"
    )


def at_a_glance(results: Sequence[Result]) -> list[str]:
    """The result in a few lines of Markdown: a column for each layout that was measured."""
    layouts = [name for name in LAYOUTS if _largest(results, f"{name}: *")]
    lines = [f"| | {' | '.join(layouts)} |", f"|---|{'---:|' * len(layouts)}"]
    for label, (names, beside) in AT_A_GLANCE.items():
        cells = [_cell(results, layout, names, beside) for layout in layouts]
        if any(cells):
            lines.append(f"| {label} | {' | '.join(cells)} |")
    return lines


def _cell(results: Sequence[Result], layout: str, names: str, beside: str | None) -> str:
    found = _largest(results, f"{layout}: {names}")
    if found is None:
        return ""
    other = _largest(results, f"{layout}: {beside}") if beside else None
    return found.shown(found.value) + (f" ({found.value / other.value:.1f} x)" if other else "")


def _largest(results: Sequence[Result], names: str) -> Result | None:
    found = [each for each in results if fnmatchcase(each.what, names)]
    return max(found, key=lambda each: each.value, default=None)


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
    """When, on how many cores, and with which versions."""
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "cores": str(cores()),
        "Python": platform.python_version(),
        "Kafka": default_version(),
        "Spark": pyspark.__version__,
        "librdkafka": librdkafka_version(),
    }
