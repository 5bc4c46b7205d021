"""All metrics, one line each, and the collector that shows the last cycle.

Per-topic series are made anew from the last report at every scrape, so a topic that is gone
leaves no stale series behind.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

import prometheus_client as prom
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from retentiond.model import Outcome, PlanRow, Verdict
from retentiond.observe.report import CycleReport

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

OFFSET_GAUGES: dict[str, tuple[str, Callable[[PlanRow], int | None]]] = {
    "retentiond_log_start_offset": (
        "First offset that a consumer can read.",
        lambda row: row.log_start_offset,
    ),
    "retentiond_high_watermark": (
        "One past the last readable record.",
        lambda row: row.high_watermark,
    ),
    "retentiond_min_committed_offset": (
        "Smallest committed offset over the relevant groups; absent where it is not known.",
        lambda row: row.min_committed_offset,
    ),
    "retentiond_cutoff_offset": (
        "First offset that the rule keeps; absent where it is not known.",
        lambda row: row.cutoff,
    ),
}
"""Gauges by topic and partition, from the plan's rows."""


class Metrics(Collector):
    """Everything that `/metrics` shows. One writer (the cycle), many readers."""

    def __init__(self, registry: CollectorRegistry, build: Mapping[str, str]) -> None:
        self.cycles = prom.Counter(
            "retentiond_cycles",
            "Cycles by result: ok, incomplete (deleted nothing for lack of evidence), failed.",
            ["result"],
            registry=registry,
        )
        for result in ("ok", "incomplete", "failed"):
            self.cycles.labels(result)
        self._cycle_seconds = prom.Histogram(
            "retentiond_cycle_duration_seconds",
            "Seconds spent in a cycle, by step and as a whole (all).",
            ["step"],
            buckets=BUCKETS,
            registry=registry,
        )
        self._request_seconds = prom.Histogram(
            "retentiond_kafka_request_duration_seconds",
            "Seconds that Kafka took to answer, by api and result (ok, failed).",
            ["api", "result"],
            buckets=BUCKETS,
            registry=registry,
        )
        self._last_complete = prom.Gauge(
            "retentiond_last_complete_cycle_timestamp_seconds",
            "When the last cycle with complete evidence was planned, epoch seconds; 0 is never.",
            registry=registry,
        )
        prom.Info("retentiond_build", "Versions at work.", registry=registry).info(dict(build))
        self._records_deleted: Counter[str] = Counter()
        self._deletions: Counter[tuple[str, str]] = Counter()
        self._report: CycleReport | None = None
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
        self._report = report

    def _count(self, report: CycleReport) -> None:
        for row in report.plan.rows:
            if report.is_deleted(row):
                self._records_deleted[row.topic] += row.records
        for outcome in report.outcomes.values():
            self._deletions[outcome.topic, outcome.outcome.value] += 1
        topics = {row.topic for row in report.plan.rows}
        self._records_deleted = Counter(
            {topic: count for topic, count in self._records_deleted.items() if topic in topics}
        )
        self._deletions = Counter(
            {key: count for key, count in self._deletions.items() if key[0] in topics}
        )

    def describe(self) -> Iterable[Metric]:
        """Nothing is known before the first cycle; asked for at registration."""
        return []

    def collect(self) -> Iterator[Metric]:
        report = self._report
        if report is None:
            return
        yield from self._totals(report)
        yield _partitions(report)
        yield _groups(report)
        yield _reclaimable(report)
        for name, (text, value_of) in OFFSET_GAUGES.items():
            gauge = GaugeMetricFamily(name, text, labels=["topic", "partition"])
            for row in report.plan.rows:
                value = value_of(row)
                if value is not None:
                    gauge.add_metric([row.topic, str(row.partition)], value)
            yield gauge

    def _totals(self, report: CycleReport) -> Iterator[Metric]:
        records = CounterMetricFamily(
            "retentiond_records_deleted", "Records deleted since the start.", labels=["topic"]
        )
        for topic in sorted({row.topic for row in report.plan.rows}):
            records.add_metric([topic], self._records_deleted[topic])
        yield records
        deletions = CounterMetricFamily(
            "retentiond_deletions",
            f"Partitions whose deletion was approved, by outcome: {', '.join(Outcome)}.",
            labels=["topic", "outcome"],
        )
        for (topic, outcome), count in sorted(self._deletions.items()):
            deletions.add_metric([topic, outcome], count)
        yield deletions


def _partitions(report: CycleReport) -> Metric:
    gauge = GaugeMetricFamily(
        "retentiond_partitions",
        "Partitions of enabled topics by what the last cycle decided, and why.",
        labels=["topic", "verdict", "reason"],
    )
    counts = Counter((row.topic, row.verdict.value, row.reason.value) for row in report.plan.rows)
    for labels, count in sorted(counts.items()):
        gauge.add_metric(list(labels), count)
    return gauge


def _groups(report: CycleReport) -> Metric:
    gauge = GaugeMetricFamily(
        "retentiond_groups",
        "Groups of the cluster by kind and state (live, empty, vanished, unreadable).",
        labels=["kind", "state"],
    )
    for group in report.groups:
        gauge.add_metric([group.kind, group.state], group.count)
    return gauge


def _reclaimable(report: CycleReport) -> Metric:
    gauge = GaugeMetricFamily(
        "retentiond_reclaimable_records",
        "Records that may go and are still there after the last cycle.",
        labels=["topic"],
    )
    records: defaultdict[str, int] = defaultdict(int)
    for row in report.plan.rows:
        waits = row.verdict is Verdict.DELETE and not report.is_deleted(row)
        records[row.topic] += row.records if waits else 0
    for topic, count in sorted(records.items()):
        gauge.add_metric([topic], count)
    return gauge
