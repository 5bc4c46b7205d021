"""Cycles on a layout: their steps, the memory that they take, and whether they are right."""

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

from devkit.bench import memory, requests
from devkit.bench.layouts import Layout
from devkit.bench.load import await_rest
from devkit.bench.result import Result
from devkit.bench.seed import commit
from devkit.bench.settings import started
from devkit.bench.timing import RUNS, WARM_UP, seconds
from devkit.embedded import EmbeddedKafka
from retentiond.act.delete import MAX_EVIDENCE_AGE_S
from retentiond.model import Outcome
from retentiond.tell.report import CycleReport

DRY_AT_MOST_S = {"L": 1.0, "XL": 3.0, "XXL": 20.0}
DELETING_AT_MOST_S = {"L": 2.0, "XL": 8.0, "XXL": 60.0}
DELETING_AT_MOST_MIB = {"XXL": 4200.0}
GUARD_AT_MOST = {"XXL": 1.3}
RECORD_AT_MOST = {"XXL": 0.5}

LARGE, VERY_LARGE = 200_000, 5_000_000
"""Commits."""

FEW_WARM_UP, FEW_RUNS = 3, 3
FEWEST_WARM_UP, FEWEST_RUNS = 1, 2

Timed = tuple[float, CycleReport]
"""The seconds that a cycle took, and what it tells."""


def measure(kafka: EmbeddedKafka, layout: Layout, folder: Path) -> list[Result]:
    """Warm dry-run cycles in which nothing has moved. The brokers are at rest before each."""
    warm_up, runs = numbers(layout)
    config = requests.config(kafka, layout, folder, dry_run=True)
    with started(config, folder) as cycle, memory.held(kafka) as mib:
        for _ in range(warm_up - 1):
            cycle()
        with requests.counted(kafka) as sent:  # the last that doesn't count as time
            last = cycle()
        timed = [_from_rest(kafka, cycle) for _ in range(runs)]
    name = layout.name
    return [
        *_steps(f"{name}, dry run", ("gather", "decide", "record"), timed),
        Result(f"{name}, dry run: whole cycle", _median(timed), "s", DRY_AT_MOST_S.get(name)),
        Result(f"{name}, dry run: memory of Python and Java", max(mib), "MiB"),
        *requests.results(f"{name}, dry run: requests", sent, kafka, layout),
        right(layout, last),
    ]


def measure_deleting(kafka: EmbeddedKafka, layout: Layout, folder: Path) -> list[Result]:
    """Whole cycles that delete a record of every partition after every commit has moved, and read
    back that it is gone. The brokers are at rest before each."""
    warm_up, runs = numbers(layout)
    config = requests.config(kafka, layout, folder, dry_run=False)
    with started(config, folder) as run_cycle, memory.held(kafka) as mib:

        def cycle(number: int) -> Timed:
            commit(kafka.bootstrap_servers, layout, lambda *_: number)
            timed = _from_rest(kafka, run_cycle)
            _check_deletions(layout, timed[1])
            return timed

        for number in range(1, warm_up):
            cycle(number)
        with requests.counted(kafka) as sent:
            cycle(warm_up)
        timed = [cycle(warm_up + number) for number in range(1, runs + 1)]
    name, reports = layout.name, [report for _, report in timed]
    what = f"{name}, {layout.topics * layout.partitions:,} deletions"
    ages = [age for report in reports for age in report.evidence_ages_s]
    return [
        *_steps(what, ("gather", "decide", "guard", "delete", "record"), timed),
        Result(f"{what}: whole cycle", _median(timed), "s", DELETING_AT_MOST_S.get(name)),
        Result(
            f"{what}: guard against gather", _ratio(reports, "guard"), "x", GUARD_AT_MOST.get(name)
        ),
        Result(
            f"{what}: record against gather",
            _ratio(reports, "record"),
            "x",
            RECORD_AT_MOST.get(name),
        ),
        Result(f"{what}: evidence at its request, on average", statistics.mean(ages), "s"),
        Result(f"{what}: the oldest evidence of a request", max(ages), "s", MAX_EVIDENCE_AGE_S),
        Result(
            f"{what}: memory of Python and Java", max(mib), "MiB", DELETING_AT_MOST_MIB.get(name)
        ),
        *requests.results(f"{what}: requests", sent, kafka, layout),
    ]


def numbers(layout: Layout) -> tuple[int, int]:
    """How many cycles warm up, and how many count: fewer where each takes many seconds, and fewest
    where it takes minutes."""
    if layout.commits < LARGE:
        return WARM_UP, RUNS
    return (FEW_WARM_UP, FEW_RUNS) if layout.commits < VERY_LARGE else (FEWEST_WARM_UP, FEWEST_RUNS)


def right(layout: Layout, report: CycleReport) -> Result:
    """How many of the layout's minima the plan has. Raises ValueError unless it has all."""
    planned = {(row.topic, row.partition): row.min_committed_offset for row in report.plan.rows}
    minima = layout.minima()
    found = sum(planned.get(key) == offset for key, offset in minima.items())
    if found < len(minima):
        raise ValueError(f"{layout.name}: minima right: {found} of {len(minima)}")
    return Result(f"{layout.name}, dry run: minima right", found, "", found)


def _check_deletions(layout: Layout, report: CycleReport) -> None:
    """Raises ValueError unless it has deleted from every partition."""
    deleted = sum(each.outcome is Outcome.DELETED for each in report.outcomes.values())
    if deleted < layout.topics * layout.partitions:
        raise ValueError(f"{layout.name}: only {deleted} partitions had a record deleted")


def _from_rest(kafka: EmbeddedKafka, cycle: Callable[[], CycleReport]) -> Timed:
    await_rest(kafka)
    return seconds(cycle)


def _steps(what: str, steps: Sequence[str], timed: Sequence[Timed]) -> list[Result]:
    return [
        Result(f"{what}: {step}", statistics.median(each.seconds[step] for _, each in timed), "s")
        for step in steps
    ]


def _median(timed: Sequence[Timed]) -> float:
    return statistics.median(took_s for took_s, _ in timed)


def _ratio(reports: Sequence[CycleReport], step: str) -> float:
    """How many times the gather of the same cycle the step took."""
    return statistics.median(each.seconds[step] / each.seconds["gather"] for each in reports)
