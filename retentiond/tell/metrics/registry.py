"""The metrics: what the daemon tells of itself, and of its last cycle."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from retentiond.config import Config
from retentiond.kafka.interface import LOOK_TO_REQUEST, THROTTLED
from retentiond.state.kept import Held, LastComplete
from retentiond.tell.figures.standing import HeldSince
from retentiond.tell.metrics import daemon as daemon_metrics
from retentiond.tell.metrics.cycle import CYCLE_METRICS, CycleFigures, Totals
from retentiond.tell.metrics.daemon import DAEMON_METRICS, OBSERVED, DaemonFigures
from retentiond.tell.metrics.definition import Definition
from retentiond.tell.report import CycleReport

ALL: tuple[Definition[Any], ...] = (*OBSERVED, *DAEMON_METRICS, *CYCLE_METRICS)
"""All metrics, in the order of the documentation."""


class Metrics(Collector):
    """Everything that `/metrics` shows. The cycle alone writes; scrapes read on other threads."""

    def __init__(
        self,
        registry: CollectorRegistry,
        build: Mapping[str, str],
        started_at_s: float = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``started_at_s``: in epoch seconds. ``clock``: monotonic seconds."""
        self._clock = clock
        self.daemon = DaemonFigures(build, started_at_s)
        self._held_since = HeldSince()
        self._totals = Totals()
        self.cycles = daemon_metrics.CYCLES.counter(registry)
        for result in ("ok", "incomplete", "failed"):
            self.cycles.labels(result)
        self._cycle_seconds = daemon_metrics.CYCLE_SECONDS.histogram(registry)
        self._evidence_age = daemon_metrics.EVIDENCE_AGE_SECONDS.histogram(registry)
        self._request_seconds = daemon_metrics.REQUEST_SECONDS.histogram(registry)
        self._measured_apart = {
            LOOK_TO_REQUEST: daemon_metrics.LOOK_TO_REQUEST_SECONDS.histogram(registry),
            THROTTLED: daemon_metrics.THROTTLED_SECONDS.histogram(registry),
        }
        self._by_partition = True
        self._of_last_cycle: tuple[Metric, ...] = ()  # replaced as a whole
        registry.register(self)

    def observe_request(self, api: str, result: str, seconds: float) -> None:
        """Records how long a request took. Times that are not Kafka's (see `LOOK_TO_REQUEST` and
        `THROTTLED`) have a metric of their own."""
        histogram = self._measured_apart.get(api)
        (histogram or self._request_seconds.labels(api, result)).observe(seconds)

    def restore(self, last: LastComplete | None) -> None:
        """Shows the last complete cycle of an earlier process; None if there was none."""
        self.daemon.cluster_id = last.cluster_id if last else ""
        self.daemon.last_complete_s = last.planned_at_ms / 1000 if last else 0

    def observe_config(self, config: Config) -> None:
        """Shows the configuration that is in force from the next cycle on."""
        self.daemon.interval_s = config.schedule.interval_ms / 1000
        self.daemon.cluster_name = config.metrics.cluster or ""
        self.daemon.unreadable = config.unreadable
        self._by_partition = config.metrics.partitions
        if not self._of_last_cycle:
            self.daemon.dry_run = config.dry_run

    def restore_held(self, held: Iterable[Held]) -> None:
        """Goes on from the holds that an earlier process has observed."""
        self._held_since.restore(held, self._clock())

    def held(self) -> tuple[Held, ...]:
        return self._held_since.held(self._clock())

    def observe_failure(self) -> None:
        """Counts a cycle that failed before it had a plan. The last plan's metrics stay."""
        self.cycles.labels("failed").inc()

    def observe_cycle(self, report: CycleReport) -> None:
        self.cycles.labels(report.result).inc()
        for step, seconds in report.seconds.items():
            self._cycle_seconds.labels(step).observe(seconds)
        self._cycle_seconds.labels("all").observe(sum(report.seconds.values()))
        for seconds in report.evidence_ages_s:
            self._evidence_age.observe(seconds)
        plan = report.plan
        if plan.cluster_id != self.daemon.cluster_id:
            self.restore(LastComplete(plan.cluster_id, 0))
        if report.result == "ok":
            self.daemon.last_complete_s = plan.planned_at_ms / 1000
        self.daemon.dry_run = plan.dry_run
        self.daemon.paused = plan.paused is not None
        self._totals.add(report)
        now_s = self._clock()
        self._held_since.add(plan, now_s)
        figures = CycleFigures(
            report,
            self._totals,
            self._held_since.longest_by_topic(now_s),
            self._held_since.longest_by_group(now_s),
        )
        self._of_last_cycle = tuple(
            each.family(figures)
            for each in CYCLE_METRICS
            if self._by_partition or "partition" not in each.labels
        )

    def collect(self) -> Iterator[Metric]:
        """The families of the last report are the same objects until the next cycle, so that their
        text is rendered once."""
        yield from (each.family(self.daemon) for each in DAEMON_METRICS)
        yield from self._of_last_cycle
