"""A cycle on a layout: its gather beside the bare clients, its steps, and whether it is right."""

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.registry import CollectorRegistry

from devkit.bench import load, requests
from devkit.bench.bare import BareClients
from devkit.bench.layouts import RECORDS, Layout
from devkit.bench.load import await_rest
from devkit.bench.result import Result
from devkit.bench.seed import commit
from devkit.bench.settings import CONSUMED_RETENTION_MS, settings, started
from devkit.bench.timing import RUNS, WARM_UP, default_garbage_collection, median, seconds
from devkit.embedded import EmbeddedKafka
from retentiond.act.delete import MAX_EVIDENCE_AGE_S
from retentiond.config import Config
from retentiond.daemon.engine import build_versions
from retentiond.model import Outcome
from retentiond.tell.metrics.registry import Exposition, Metrics
from retentiond.tell.report import CycleReport

STEPS = ("gather", "decide", "guard", "record")

GATHER_AT_MOST_S = {"L": 0.4, "XL": 3.0}
CYCLE_AT_MOST_S = {"L": 1.0, "XL": 3.0, "XXL": 20.0}
DELETING_AT_MOST_S = {"L": 2.0, "XL": 8.0, "XXL": 60.0}
RECORD_AT_MOST_S = {"XL": 0.3, "XXL": 2.0}
BROKER_AT_MOST_PERCENT = {"XL": 2.0}
SCRAPE_AT_MOST_S = {"L": 0.1, "XL": 0.5}

LARGE, VERY_LARGE = 200_000, 5_000_000
"""Commits."""

FEW_WARM_UP, FEW_RUNS = 3, 3
FEWEST_WARM_UP, FEWEST_RUNS = 1, 2

OPENMETRICS = "application/openmetrics-text;version=1.0.0"
"""What Prometheus asks for."""


def measure(kafka: EmbeddedKafka, layout: Layout, folder: Path) -> list[Result]:
    """Whole dry-run cycles, warm."""
    bare = _bare(kafka, layout)
    runs = _dry_runs(kafka, layout, folder)
    minima = right(layout, runs.last)
    steps = {step: runs.median_of(step) for step in STEPS}
    name = layout.name
    return [
        Result(f"{name}: the same requests through the bare clients", bare, "s"),
        Result(f"{name}: gather", steps["gather"], "s", GATHER_AT_MOST_S.get(name)),
        Result(f"{name}: gather against the bare clients", steps["gather"] / bare, "x"),
        *(
            Result(
                f"{name}: {step}",
                steps[step],
                "s",
                RECORD_AT_MOST_S.get(name) if step == "record" else None,
            )
            for step in STEPS[1:]
        ),
        Result(f"{name}: whole dry-run cycle", runs.whole_s, "s", CYCLE_AT_MOST_S.get(name)),
        Result(
            f"{name}: the broker's CPU for a dry-run cycle each minute (of one core)",
            100 * runs.cost_s / 60,
            "%",
            BROKER_AT_MOST_PERCENT.get(name),
        ),
        Result(f"{name}: the broker's CPU at rest (of one core)", 100 * runs.rest, "%"),
        Result(f"{name}: /metrics", _scrape(runs.last), "s", SCRAPE_AT_MOST_S.get(name)),
        minima,
    ]


def gather_s(kafka: EmbeddedKafka, layout: Layout, folder: Path) -> float:
    """Seconds that the gather of a cycle takes, as `measure` finds them."""
    return _dry_runs(kafka, layout, folder).median_of("gather")


def measure_moved(kafka: EmbeddedKafka, layout: Layout, folder: Path) -> list[Result]:
    """A dry run after one group of a hundred has committed again, on all that it reads."""
    config = requests.config(kafka, layout, folder, dry_run=True)
    some = range(0, layout.groups, 100)
    with started(config, folder) as cycle:
        cycle()
        commit(kafka.bootstrap_servers, layout, lambda *_: RECORDS, some)
        took_s = cycle().seconds["record"]
    return [Result(f"{layout.name}: record after 1 % has moved", took_s, "s")]


def measure_deleting(kafka: EmbeddedKafka, layout: Layout, folder: Path) -> list[Result]:
    """Whole cycles that delete a record of every partition, and read back that it is gone; the
    broker is at rest before each."""
    config = requests.config(kafka, layout, folder, dry_run=False)
    warm_up, runs = _numbers(layout)
    with started(config, folder) as run_cycle:
        rest = load.at_rest(kafka)

        def cycle(number: int) -> tuple[float, float, CycleReport]:
            commit(kafka.bootstrap_servers, layout, lambda *_: number)
            return _deleting(kafka, layout, rest, run_cycle)

        measured = [cycle(number) for number in range(1, warm_up + runs + 1)][warm_up:]
        with requests.counted(kafka) as sent:
            cycle(warm_up + runs + 1)
    took_s = statistics.median(took_s for took_s, _, _ in measured)
    cpu_s = statistics.median(cpu_s for _, cpu_s, _ in measured)
    reports = [report for _, _, report in measured]
    name, deleting = layout.name, f"with {layout.topics * layout.partitions:,} deletions"
    return [
        Result(
            f"{name}: whole cycle {deleting}, read back", took_s, "s", DELETING_AT_MOST_S.get(name)
        ),
        *(
            Result(
                f"{name}: {step} {deleting}",
                statistics.median(report.seconds[step] for report in reports),
                "s",
            )
            for step in ("guard", "delete")
        ),
        Result(
            f"{name}: the oldest evidence of a request",
            max(max(report.evidence_ages_s) for report in reports),
            "s",
            MAX_EVIDENCE_AGE_S,
        ),
        Result(
            f"{name}: the broker's CPU for a cycle {deleting} each minute (of one core)",
            100 * cpu_s / 60,
            "%",
        ),
        *requests.results(f"{name}: requests of a cycle {deleting}", sent, kafka, layout),
    ]


def _deleting(
    kafka: EmbeddedKafka, layout: Layout, rest: float, cycle: Callable[[], CycleReport]
) -> tuple[float, float, CycleReport]:
    """The seconds that it takes, and those of CPU that it costs the broker, until that rests again;
    and what it tells.

    Raises ValueError unless it has deleted from every partition.
    """

    def until_rest() -> tuple[float, CycleReport]:
        timed = seconds(cycle)
        await_rest(kafka)
        return timed

    await_rest(kafka)
    (took_s, report), cost_s = load.cost(kafka, rest, until_rest)
    deleted = sum(each.outcome is Outcome.DELETED for each in report.outcomes.values())
    if deleted < layout.topics * layout.partitions:
        raise ValueError(f"{layout.name}: only {deleted} partitions had a record deleted")
    return took_s, cost_s, report


def _numbers(layout: Layout) -> tuple[int, int]:
    """How many cycles warm up, and how many count: fewer where each takes many seconds, and fewest
    where it takes minutes."""
    if layout.commits < LARGE:
        return WARM_UP, RUNS
    return (FEW_WARM_UP, FEW_RUNS) if layout.commits < VERY_LARGE else (FEWEST_WARM_UP, FEWEST_RUNS)


@dataclass(frozen=True)
class _DryRuns:
    """Warm cycles: the seconds that each takes, and those of CPU that one costs the broker, which
    takes ``rest`` in each second anyway."""

    timed: Sequence[tuple[float, CycleReport]]
    cost_s: float
    rest: float

    @property
    def last(self) -> CycleReport:
        return self.timed[-1][1]

    @property
    def whole_s(self) -> float:
        return statistics.median(took_s for took_s, _ in self.timed)

    def median_of(self, step: str) -> float:
        """Seconds."""
        return statistics.median(report.seconds.get(step, 0.0) for _, report in self.timed)


def _dry_runs(kafka: EmbeddedKafka, layout: Layout, folder: Path) -> _DryRuns:
    warm_up, runs = _numbers(layout)
    config = Config.model_validate(settings(layout, kafka.bootstrap_servers, folder, dry_run=True))
    with started(config, folder) as cycle:
        for _ in range(warm_up):
            cycle()
        rest = load.at_rest(kafka)
        timed, cost_s = load.cost(kafka, rest, lambda: [seconds(cycle) for _ in range(runs)])
    return _DryRuns(timed, cost_s / runs, rest)


def _bare(kafka: EmbeddedKafka, layout: Layout) -> float:
    warm_up, runs = _numbers(layout)
    with default_garbage_collection(), closing(BareClients(kafka.bootstrap_servers)) as clients:
        since_ms = int(time.time() * 1000) - CONSUMED_RETENTION_MS
        return median(lambda: clients.read(layout, since_ms), runs, warm_up)


def _scrape(report: CycleReport) -> float:
    """The text of all metrics, between two cycles."""
    registry = CollectorRegistry()
    Metrics(registry, build_versions()).observe_cycle(report)
    exposition = Exposition(registry)
    return median(lambda: exposition.text(OPENMETRICS))


def right(layout: Layout, report: CycleReport) -> Result:
    """How many of the layout's minima the plan has. Raises ValueError unless it has all."""
    planned = {(row.topic, row.partition): row.min_committed_offset for row in report.plan.rows}
    minima = layout.minima()
    found = sum(planned.get(key) == offset for key, offset in minima.items())
    if found < len(minima):
        raise ValueError(f"{layout.name}: minima right: {found} of {len(minima)}")
    return Result(f"{layout.name}: minima right, of {found}", found, "", found)
