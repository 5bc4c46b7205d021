"""The metrics that show the last cycle, made from its report and nothing else."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import Metric

from retentiond.collect.remembered import GroupOnTopic
from retentiond.model import PlanRow, Verdict
from retentiond.observe import definitions
from retentiond.observe.definitions import Definition
from retentiond.observe.disk_families import disk_families
from retentiond.observe.report import CycleReport

OFFSETS: dict[Definition, Callable[[PlanRow], int | None]] = {
    definitions.LOG_START_OFFSET: lambda row: row.log_start_offset,
    definitions.HIGH_WATERMARK: lambda row: row.high_watermark,
    definitions.MIN_COMMITTED_OFFSET: lambda row: row.min_committed_offset,
    definitions.CUTOFF_OFFSET: lambda row: row.cutoff,
}
"""Gauges by topic and partition, from the plan's rows."""


def families(report: CycleReport) -> Iterator[Metric]:
    yield _partitions(report)
    yield _groups(report)
    yield _reclaimable(report)
    yield from _unread(report)
    yield from _offsets(report)
    yield from disk_families(report)


def _offsets(report: CycleReport) -> Iterator[Metric]:
    for definition, value_of in OFFSETS.items():
        gauge = definition.gauge_family()
        for row in report.plan.rows:
            value = value_of(row)
            if value is not None:
                gauge.add_metric([row.topic, str(row.partition)], value)
        yield gauge


def _unread(report: CycleReport) -> Iterator[Metric]:
    shown: dict[Definition, Mapping[GroupOnTopic, float]] = {
        definitions.BINDING_GROUP_LAG: report.unread.kept,
        definitions.FORCED_RETENTION_MARGIN: report.unread.margins,
    }
    for definition, values in shown.items():
        gauge = definition.gauge_family()
        for at, value in sorted(values.items()):
            gauge.add_metric([at.topic, at.group_id], value)
        yield gauge


def _partitions(report: CycleReport) -> Metric:
    gauge = definitions.PARTITIONS.gauge_family()
    counts = Counter((row.topic, row.verdict.value, row.reason.value) for row in report.plan.rows)
    for labels, count in sorted(counts.items()):
        gauge.add_metric(list(labels), count)
    return gauge


def _groups(report: CycleReport) -> Metric:
    gauge = definitions.GROUPS.gauge_family()
    for group in report.groups:
        gauge.add_metric([group.kind, group.state], group.count)
    return gauge


def _reclaimable(report: CycleReport) -> Metric:
    gauge = definitions.RECLAIMABLE_RECORDS.gauge_family()
    records: defaultdict[str, int] = defaultdict(int)
    for row in report.plan.rows:
        waits = row.verdict is Verdict.DELETE and not report.is_deleted(row)
        records[row.topic] += row.records if waits else 0
    for topic, count in sorted(records.items()):
        gauge.add_metric([topic], count)
    return gauge
