"""A reading of a hundred brokers, which a stand-in answers for: its steps, requests and memory."""

import statistics
from pathlib import Path

from devkit.bench import cycles, memory, stand_in
from devkit.bench.layouts import Layout
from devkit.bench.result import Result
from devkit.bench.settings import settings, started
from devkit.bench.timing import seconds
from retentiond.config import Config

RUNS = 2
"""After one that doesn't count."""


def measure(layout: Layout, folder: Path) -> list[Result]:
    """Dry-run cycles. The stand-in takes a processor of its own for what it answers, and a hundred
    brokers would take a hundred."""
    name = layout.name
    with stand_in.running(layout) as cluster:
        document = settings(layout, cluster.bootstrap_servers, folder / "cycles", dry_run=True)
        with started(Config.model_validate(document), folder / "cycles") as cycle:
            cycle()
            timed = []
            for _ in range(RUNS):
                cluster.counted()
                timed.append(seconds(cycle))
                sent = cluster.counted()
        resident = memory.most(cluster.bootstrap_servers, layout, folder, [RUNS])
    reports = [report for _, report in timed]
    return [
        *(
            Result(
                f"{name}: {step}", statistics.median(each.seconds[step] for each in reports), "s"
            )
            for step in cycles.STEPS
        ),
        Result(f"{name}: whole dry-run cycle", statistics.median(took for took, _ in timed), "s"),
        Result(f"{name}: requests of a dry-run cycle", sent.total(), ""),
        *(
            Result(f"{name}: requests of a dry-run cycle, {api}", count, "")
            for api, count in sent.most_common()
        ),
        cycles.right(layout, reports[-1]),
        *resident,
    ]
