"""``python -m devkit.bench``: see ``scripts/bench``."""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from devkit.bench import (
    cycles,
    decisions,
    deletions,
    idle,
    many_brokers,
    memory,
    others,
    page,
    requests,
)
from devkit.bench.layouts import LAYOUTS, XL, XXL, L, Layout, M
from devkit.bench.result import RESULTS, Measurement, Result
from devkit.bench.seed import seed
from devkit.embedded import EmbeddedKafka, EmbeddedKafkaError
from retentiond.tell import logs

PARTS = ("gather", "others", "decide", "delete", "daemon", "many-brokers")

LAYOUTS_OF = {
    "gather": ("M", "L", "XL", "XXL"),
    "others": ("M", "L"),
    "delete": ("M", "L"),
    "daemon": ("L", "XL"),
    "many-brokers": ("WIDE",),
}

BROKER = ("-Xmx2g", "-XX:TieredStopAtLevel=4")
LARGE_BROKER = ("-Xmx4g", "-XX:TieredStopAtLevel=4")
"""XL's 20,000 partitions don't fit into the usual half of a gigabyte, nor XXL's ten million commits
into two. And a broker that lives for months has Java's optimizing compiler, which those of the
tests do without."""

SESSION = {"broker.session.timeout.ms": "18000", "broker.heartbeat.interval.ms": "2000"}
"""Brokers of the tests are fenced after 4 s. One that tells millions of commits may stand still for
as long, and a cycle in which its groups have no coordinator is incomplete."""


def main() -> int:
    options = _options()
    logs.configure()
    console = Console(highlight=False, markup=False)
    results: list[Result] = []
    exit_code = 0
    try:
        if options.compare:
            page.compare(console, *options.compare)
            return 0
        for part in options.parts or PARTS:
            for found in _measured(console, part, options):
                page.show(console, found)
                results += found
    except (EmbeddedKafkaError, TimeoutError, ValueError) as error:
        print(error, file=sys.stderr)
        exit_code = 1
    measurement = Measurement(page.machine(), results)
    if options.write and results:  # what was measured before a failure counts all the same
        measurement.write(RESULTS / f"{measurement.machine['date']}.json")
        if not exit_code:
            page.write(measurement)
    return exit_code


def _measured(
    console: Console, part: str, options: argparse.Namespace
) -> Iterator[Sequence[Result]]:
    console.print(f"\n{part} …")
    if part == "decide":
        yield decisions.measure()
        return
    for name in options.layouts or LAYOUTS_OF[part]:
        layout = LAYOUTS[name]
        if part == "many-brokers":
            with tempfile.TemporaryDirectory(prefix="retentiond-bench-") as folder:
                yield many_brokers.measure(layout, Path(folder))
            continue
        with _seeded(layout) as (kafka, folder):
            if part == "gather":
                yield cycles.measure(kafka, layout, folder)
                yield requests.measure(kafka, layout, folder)
                if layout in (XL, XXL):
                    yield cycles.measure_moved(kafka, layout, folder)
                if layout is not M:
                    yield cycles.measure_deleting(kafka, layout, folder)
            elif part == "others":
                yield others.measure(kafka, layout, folder, console.print)
            elif part == "delete":
                yield deletions.measure(kafka, layout, folder)
            else:
                yield memory.measure(kafka, layout, folder)
                if layout is L:
                    yield idle.measure(kafka, layout, folder / "idle")


@contextmanager
def _seeded(layout: Layout) -> Iterator[tuple[EmbeddedKafka, Path]]:
    """A broker with that layout, and a folder for as long."""
    folder = tempfile.TemporaryDirectory(prefix="retentiond-bench-")
    options = LARGE_BROKER if layout is XXL else BROKER
    broker = EmbeddedKafka(layout.brokers, config=SESSION, java_options=options, witnessed=False)
    with folder as name, broker as kafka:
        seed(kafka, layout)
        yield kafka, Path(name)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Measures retentiond.")
    parser.add_argument(
        "parts",
        nargs="*",
        choices=[*PARTS, []],
        metavar="PART",
        help=f"{', '.join(PARTS)}; default: all of them",
    )
    parser.add_argument(
        "--layouts",
        type=lambda text: text.split(","),
        help="separated by commas; default: those with a target",
    )
    parser.add_argument(
        "--compare",
        nargs=2,
        type=Path,
        metavar=("BEFORE", "AFTER"),
        help="measure nothing: the ratios between two kept results",
    )
    parser.add_argument(
        "--write", action="store_true", help="keep the results in bench/results and bench/README.md"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
