"""A cycle on a layout: its gather beside the bare clients, its steps, and whether it is right."""

import statistics
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import psutil
from prometheus_client.registry import CollectorRegistry

from devkit.bench.bare import BareClients
from devkit.bench.layouts import Layout
from devkit.bench.result import Result
from devkit.bench.seed import commit
from devkit.bench.settings import CONSUMED_RETENTION_MS, settings
from devkit.bench.timing import RUNS, WARM_UP, default_garbage_collection, median
from devkit.embedded import EmbeddedKafka
from retentiond.config import Config
from retentiond.engine import Engine, build_versions
from retentiond.model import Outcome
from retentiond.observe.exposition import Exposition
from retentiond.observe.metrics import Metrics
from retentiond.observe.report import CycleReport
from retentiond.state.state import open_state

STEPS = ("gather", "decide", "guard", "record")

GATHER_AT_MOST_S = {"L": 0.4, "XL": 3.0}
CYCLE_AT_MOST_S = {"L": 1.0}
DELETING_AT_MOST_S = {"L": 2.0}
BROKER_AT_MOST_PERCENT = {"XL": 2.0}
SCRAPE_AT_MOST_S = {"L": 0.1, "XL": 0.5}

OPENMETRICS = "application/openmetrics-text;version=1.0.0"
"""What Prometheus asks for."""


def measure(kafka: EmbeddedKafka, layout: Layout, folder: Path) -> list[Result]:
    """Whole dry-run cycles, warm."""
    bare = _bare(kafka, layout)
    reports, broker_cpu_s = _dry_runs(kafka, folder)
    right, all_of_them = _right(layout, reports[-1])
    if right < all_of_them:
        raise ValueError(f"{layout.name}: minima right: {right} of {all_of_them}")
    steps = {step: _median_of(step, reports) for step in STEPS}
    whole = statistics.median(sum(report.seconds.values()) for report in reports)
    name = layout.name
    return [
        Result(f"{name}: the same requests through the bare clients", bare, "s"),
        Result(f"{name}: gather", steps["gather"], "s", GATHER_AT_MOST_S.get(name)),
        Result(f"{name}: gather against the bare clients", steps["gather"] / bare, "x"),
        *(Result(f"{name}: {step}", steps[step], "s") for step in STEPS[1:]),
        Result(f"{name}: whole dry-run cycle", whole, "s", CYCLE_AT_MOST_S.get(name)),
        Result(
            f"{name}: the broker's CPU, a cycle each minute (of one core)",
            100 * broker_cpu_s / 60,
            "%",
            BROKER_AT_MOST_PERCENT.get(name),
        ),
        Result(f"{name}: /metrics", _scrape(reports[-1]), "s", SCRAPE_AT_MOST_S.get(name)),
        Result(f"{name}: minima right, of {all_of_them}", right, "", all_of_them),
    ]


def gather_s(kafka: EmbeddedKafka, folder: Path) -> float:
    """Seconds that the gather of a cycle takes, as `measure` finds them."""
    reports, _ = _dry_runs(kafka, folder)
    return _median_of("gather", reports)


def measure_deleting(kafka: EmbeddedKafka, layout: Layout, folder: Path) -> list[Result]:
    """Whole cycles that delete a record of every partition, and read back that it is gone."""
    config = Config.model_validate(settings(kafka.bootstrap_servers, folder, dry_run=False))
    engine = Engine(config, threading.Event(), lambda *_: None)
    took = []
    with closing(engine), open_state(folder) as state:
        for offset in range(1, WARM_UP + RUNS + 1):
            commit(kafka.bootstrap_servers, layout, lambda *_, at=offset: at)
            report = engine.run_cycle(state)
            took.append(sum(report.seconds.values()))
            deleted = sum(each.outcome is Outcome.DELETED for each in report.outcomes.values())
            if deleted < layout.topics * layout.partitions:
                raise ValueError(f"{layout.name}: only {deleted} partitions had a record deleted")
    return [
        Result(
            f"{layout.name}: whole cycle with {deleted:,} deletions, read back",
            statistics.median(took[WARM_UP:]),
            "s",
            DELETING_AT_MOST_S.get(layout.name),
        )
    ]


def _dry_runs(kafka: EmbeddedKafka, folder: Path) -> tuple[list[CycleReport], float]:
    """Warm cycles, and the seconds of CPU that the broker takes for one."""
    config = Config.model_validate(settings(kafka.bootstrap_servers, folder, dry_run=True))
    engine = Engine(config, threading.Event(), lambda *_: None)
    with closing(engine), open_state(folder) as state:
        for _ in range(WARM_UP):
            engine.run_cycle(state)
        cpu_before = _broker_cpu_s(kafka)
        reports = [engine.run_cycle(state) for _ in range(RUNS)]
        return reports, (_broker_cpu_s(kafka) - cpu_before) / RUNS


def _median_of(step: str, reports: Sequence[CycleReport]) -> float:
    """Of the step's seconds."""
    return statistics.median(report.seconds.get(step, 0.0) for report in reports)


def _bare(kafka: EmbeddedKafka, layout: Layout) -> float:
    with default_garbage_collection(), closing(BareClients(kafka.bootstrap_servers)) as clients:
        since_ms = int(time.time() * 1000) - CONSUMED_RETENTION_MS
        return median(lambda: clients.read(layout, since_ms))


def _broker_cpu_s(kafka: EmbeddedKafka) -> float:
    """Seconds of CPU that it has taken so far, or all of them together."""
    times = [psutil.Process(node.pid).cpu_times() for node in kafka.nodes]
    return sum(each.user + each.system for each in times)


def _scrape(report: CycleReport) -> float:
    """The text of all metrics, between two cycles."""
    registry = CollectorRegistry()
    Metrics(registry, build_versions()).observe_cycle(report)
    exposition = Exposition(registry)
    return median(lambda: exposition.text(OPENMETRICS))


def _right(layout: Layout, report: CycleReport) -> tuple[int, int]:
    """How many of the layout's minima the plan has."""
    planned = {(row.topic, row.partition): row.min_committed_offset for row in report.plan.rows}
    minima = layout.minima()
    return sum(planned.get(key) == offset for key, offset in minima.items()), len(minima)
