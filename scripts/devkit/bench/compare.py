"""Two measurements side by side: how much slower or faster the second is."""

from pathlib import Path

from rich.console import Console
from rich.table import Table

from devkit.bench.result import Measurement


def show(console: Console, before: Path, after: Path) -> None:
    """A ratio for each figure that both have. Raises ValueError for a file that holds none."""
    first, second = Measurement.read(before), Measurement.read(after)
    for measurement in (first, second):
        console.print(", ".join(f"{name} {value}" for name, value in measurement.machine.items()))
    earlier = {result.what: result for result in first.results}
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("what", "before", "after", "ratio"):
        table.add_column(heading, justify="left" if heading == "what" else "right")
    for result in second.results:
        if (old := earlier.get(result.what)) is not None:
            ratio = f"{result.value / old.value:.2f} x" if old.value else ""
            table.add_row(result.what, old.shown(old.value), result.shown(result.value), ratio)
    console.print(table)
