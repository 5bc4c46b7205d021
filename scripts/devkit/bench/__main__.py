"""``python -m devkit.bench``: see ``scripts/bench``."""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from devkit.bench import cycles, decisions, deletions, memory, page
from devkit.bench.layouts import LAYOUTS, Layout, M
from devkit.bench.result import Result
from devkit.bench.seed import seed
from devkit.embedded import EmbeddedKafka, EmbeddedKafkaError
from retentiond.observe import logs

PARTS = ("gather", "decide", "delete", "memory")


def main() -> int:
    options = _options()
    logs.configure()
    console = Console(highlight=False, markup=False)
    results: list[Result] = []
    try:
        for part in options.parts or PARTS:
            found = _measure(console, part, [LAYOUTS[name] for name in options.layouts])
            page.show(console, found)
            results += found
    except (EmbeddedKafkaError, TimeoutError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    if options.write:
        page.write(results, M.name)
    return 0


def _measure(console: Console, part: str, layouts: list[Layout]) -> list[Result]:
    console.print(f"\n{part} …")
    if part == "decide":
        return decisions.measure()
    if part == "gather":
        results = []
        for layout in layouts:
            with _seeded(layout) as (kafka, folder):
                results += cycles.measure(kafka, layout, folder)
        return results
    with _seeded(M) as (kafka, folder):
        if part == "delete":
            return deletions.measure(kafka, M, folder)
        return memory.measure(kafka, folder)


@contextmanager
def _seeded(layout: Layout) -> Iterator[tuple[EmbeddedKafka, Path]]:
    """A broker with that layout, and a folder for as long."""
    with tempfile.TemporaryDirectory(prefix="retentiond-bench-") as name, EmbeddedKafka() as kafka:
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
        default=list(LAYOUTS),
        help="for gather, separated by commas (default: M,L)",
    )
    parser.add_argument("--write", action="store_true", help="write bench/README.md")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
