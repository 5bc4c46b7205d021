"""``python -m devkit.bench``: see ``scripts/bench``."""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from devkit.bench import cycles, floor, memory, page
from devkit.bench.layouts import LAYOUTS, XXL, L, Layout
from devkit.bench.result import RESULTS, Measurement, Result
from devkit.bench.seed import seed
from devkit.embedded import EmbeddedKafka, EmbeddedKafkaError
from retentiond.errors import RetentiondError
from retentiond.tell import logs

PARTS = ("dry", "deleting", "daemon")

BY_DEFAULT = ("L", "XL", "XXL")

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
        for name in options.layouts:
            for found in _measured(LAYOUTS[name], options.parts or PARTS):
                page.show(console, found)
                results += found
    except (EmbeddedKafkaError, RetentiondError, TimeoutError, ValueError) as error:
        print(error, file=sys.stderr)
        exit_code = 1
    measurement = Measurement(page.machine(), results)
    if options.write and results:  # what was measured before a failure counts all the same
        measurement.write(RESULTS / f"{measurement.machine['date']}.json")
        if not exit_code:
            page.write(measurement)
    return exit_code


def _measured(layout: Layout, parts: Sequence[str]) -> Iterator[Sequence[Result]]:
    """All parts on the same brokers."""
    options = LARGE_BROKER if layout is XXL else BROKER
    broker = EmbeddedKafka(layout.brokers, config=SESSION, java_options=options, witnessed=False)
    with tempfile.TemporaryDirectory(prefix="retentiond-bench-") as root, broker as kafka:
        folder = partial(Path, root)  # each part has one of its own below it
        seed(kafka, layout)
        if "dry" in parts:
            found = cycles.measure(kafka, layout, folder("dry"))
            yield found
            if layout is L:
                (gather,) = (each.value for each in found if each.what == "L, dry run: gather")
                yield floor.measure(kafka, layout, gather)
        if "daemon" in parts:  # before the deletions, which leave less to read
            yield memory.measure(kafka, layout, folder("daemon"))
        if "deleting" in parts:
            yield cycles.measure_deleting(kafka, layout, folder("deleting"))


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
        default=BY_DEFAULT,
        help=f"of {', '.join(LAYOUTS)}, separated by commas; default: {','.join(BY_DEFAULT)}",
    )
    parser.add_argument(
        "--compare",
        nargs=2,
        type=Path,
        metavar=("BEFORE", "AFTER"),
        help="measure nothing: the ratios between two kept results",
    )
    parser.add_argument(
        "--write", action="store_true", help="keep the results in bench/results and docs/scaling.md"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
