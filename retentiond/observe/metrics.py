"""What counts over the daemon's life, and the collector that shows the last cycle.

Per-topic series are made anew from each report, so a topic that is gone leaves no stale series
behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from retentiond.model import Outcome
from retentiond.observe import definitions
from retentiond.observe.families import families
from retentiond.observe.report import CycleReport


class Metrics(Collector):
    """Everything that `/metrics` shows. One writer (the cycle), many readers."""

    def __init__(self, registry: CollectorRegistry, build: Mapping[str, str]) -> None:
        self.cycles = definitions.CYCLES.counter(registry)
        for result in ("ok", "incomplete", "failed"):
            self.cycles.labels(result)
        self._cycle_seconds = definitions.CYCLE_SECONDS.histogram(registry)
        self._request_seconds = definitions.REQUEST_SECONDS.histogram(registry)
        self._last_complete = definitions.LAST_COMPLETE_CYCLE.gauge(registry)
        definitions.BUILD.info(registry).info(dict(build))
        self._records_deleted: Counter[str] = Counter()
        self._deletions: Counter[tuple[str, str]] = Counter()
        self._bytes_freed: Counter[str] = Counter()
        self._of_report: tuple[Metric, ...] = ()  # replaced as a whole
        registry.register(self)

    def observe_request(self, api: str, result: str, seconds: float) -> None:
        self._request_seconds.labels(api, result).observe(seconds)

    def observe_failure(self) -> None:
        """A cycle that brought no plan: the last one stays on show."""
        self.cycles.labels("failed").inc()

    def observe_cycle(self, report: CycleReport) -> None:
        self.cycles.labels(report.result).inc()
        for step, seconds in report.seconds.items():
            self._cycle_seconds.labels(step).observe(seconds)
        self._cycle_seconds.labels("all").observe(sum(report.seconds.values()))
        if report.plan.complete:
            self._last_complete.set(report.plan.planned_at_ms / 1000)
        self._count(report)
        self._of_report = (*self._totals(report), *families(report))

    def _count(self, report: CycleReport) -> None:
        for row in report.plan.rows:
            if report.is_deleted(row):
                self._records_deleted[row.topic] += row.records
        for outcome in report.outcomes.values():
            self._deletions[outcome.topic, outcome.outcome.value] += 1
        self._bytes_freed.update(report.disk.freed_bytes)
        topics = {row.topic for row in report.plan.rows}
        self._records_deleted = Counter(
            {topic: count for topic, count in self._records_deleted.items() if topic in topics}
        )
        self._deletions = Counter(
            {key: count for key, count in self._deletions.items() if key[0] in topics}
        )
        self._bytes_freed = Counter(
            {topic: freed for topic, freed in self._bytes_freed.items() if topic in topics}
        )

    def describe(self) -> Iterable[Metric]:
        """Nothing is known before the first cycle; asked for at registration."""
        return []

    def collect(self) -> Iterable[Metric]:
        """The very same objects until the next cycle: their text needs no second rendering."""
        return self._of_report

    def _totals(self, report: CycleReport) -> Iterator[Metric]:
        """Each topic has all of them from the first cycle on, so that a rate sees their first
        step."""
        records = definitions.RECORDS_DELETED.counter_family()
        freed = definitions.BYTES_FREED.counter_family()
        deletions = definitions.DELETIONS.counter_family()
        for topic in sorted({row.topic for row in report.plan.rows}):
            records.add_metric([topic], self._records_deleted[topic])
            freed.add_metric([topic], self._bytes_freed[topic])
            for outcome in Outcome:
                deletions.add_metric([topic, outcome], self._deletions[topic, outcome])
        yield from (records, freed, deletions)
