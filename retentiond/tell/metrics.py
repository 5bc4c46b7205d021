"""The metrics: totals over the daemon's life, and gauges from the report of the last cycle.

Series of topics are made anew from each report, so a deleted topic leaves no stale series behind.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice, product

from prometheus_client.core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from retentiond.config import Config
from retentiond.disks.broker_disks import DiskReport
from retentiond.disks.log_dirs import LogDirCapacity, LogDirKey, Orphans
from retentiond.disks.pressure import LogDirRelief
from retentiond.formatting import label
from retentiond.history.keeper import HistoryStatus
from retentiond.kafka.interface import LOOK_TO_REQUEST, THROTTLED
from retentiond.memory.remembered import GroupOnTopic
from retentiond.model import Outcome, PlanRow
from retentiond.state.state import LastComplete
from retentiond.tell import metric_definitions
from retentiond.tell.answers import TopicAnswer
from retentiond.tell.group_answers import LagReport
from retentiond.tell.metric_definitions import Definition
from retentiond.tell.pressure import MOST_KEEPERS
from retentiond.tell.report import CycleReport
from retentiond.tell.standing import HeldFor, HeldSince, Standing

Labels = tuple[str, ...]


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
        self._held_since = HeldSince()
        self.cycles = metric_definitions.CYCLES.counter(registry)
        for result in ("ok", "incomplete", "failed"):
            self.cycles.labels(result)
        self._cycle_seconds = metric_definitions.CYCLE_SECONDS.histogram(registry)
        self._evidence_age = metric_definitions.EVIDENCE_AGE_SECONDS.histogram(registry)
        self._request_seconds = metric_definitions.REQUEST_SECONDS.histogram(registry)
        self._measured_apart = {
            LOOK_TO_REQUEST: metric_definitions.LOOK_TO_REQUEST_SECONDS.histogram(registry),
            THROTTLED: metric_definitions.THROTTLED_SECONDS.histogram(registry),
        }
        self._last_complete = metric_definitions.LAST_COMPLETE_CYCLE.gauge(registry)
        self._config_reloaded = metric_definitions.CONFIG_RELOADED.gauge(registry)
        self._config_reloaded.set(1)
        self._dry_run = metric_definitions.DRY_RUN.gauge(registry)
        self._paused = metric_definitions.PAUSED.gauge(registry)
        self._interval = metric_definitions.INTERVAL.gauge(registry)
        metric_definitions.STARTED.gauge(registry).set(started_at_s)
        self._cluster = metric_definitions.CLUSTER.info(registry)
        self._cluster_id = self._cluster_name = ""
        self._by_partition = True
        metric_definitions.BUILD.info(registry).info(dict(build))
        self._records_deleted: Counter[Labels] = Counter()
        self._deletions: Counter[Labels] = Counter()
        self._bytes_freed: Counter[Labels] = Counter()
        self._report_families: tuple[Metric, ...] = ()  # replaced as a whole
        registry.register(self)

    def observe_request(self, api: str, result: str, seconds: float) -> None:
        """Records how long a request took. Times that are not Kafka's (see `LOOK_TO_REQUEST` and
        `THROTTLED`) have a metric of their own."""
        histogram = self._measured_apart.get(api)
        (histogram or self._request_seconds.labels(api, result)).observe(seconds)

    def restore(self, last: LastComplete | None) -> None:
        """Shows the last complete cycle of an earlier process; None if there was none."""
        self._cluster_id = last.cluster_id if last else ""
        self._last_complete.set(last.planned_at_ms / 1000 if last else 0)
        self._show_cluster()

    def observe_config(self, config: Config) -> None:
        """Shows the configuration that is in force from the next cycle on."""
        self._interval.set(config.schedule.interval_ms / 1000)
        self._cluster_name = config.metrics.cluster or ""
        self._by_partition = config.metrics.partitions
        if not self._report_families:
            self._dry_run.set(int(config.dry_run))
        self._show_cluster()

    def _show_cluster(self) -> None:
        names = (self._cluster_id, self._cluster_name)
        self._cluster.info(dict(zip(metric_definitions.CLUSTER.labels, names, strict=True)))

    def restore_held(self, held: HeldFor) -> None:
        """Goes on from the holds that an earlier process has observed."""
        self._held_since.restore(held, self._clock())

    def held(self) -> HeldFor:
        return self._held_since.held(self._clock())

    def observe_reload(self, *, successful: bool) -> None:
        self._config_reloaded.set(int(successful))

    def observe_pause(self, *, is_paused: bool) -> None:
        """Shows whether an operator has paused deletion, until a cycle says so itself."""
        self._paused.set(int(is_paused))

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
        if report.plan.cluster_id != self._cluster_id:
            self.restore(LastComplete(report.plan.cluster_id, 0))
        if report.result == "ok":
            self._last_complete.set(report.plan.planned_at_ms / 1000)
        self._dry_run.set(int(report.plan.dry_run))
        self.observe_pause(is_paused=report.plan.paused is not None)
        self._count(report)
        by_partition = self._by_partition
        now_s = self._clock()
        self._held_since.add(report.plan, now_s)
        by_topic = sorted(self._held_since.longest_by_topic(now_s).items())
        by_group = sorted(self._held_since.longest_by_group(now_s).items())
        self._report_families = (
            *self._totals(report),
            *families(report, by_partition=by_partition),
            _gauge(metric_definitions.TOPIC_HELD, by_topic),
            _gauge(
                metric_definitions.GROUP_HELD,
                (((label(group), reason), seconds) for (group, reason), seconds in by_group),
            ),
        )

    def _count(self, report: CycleReport) -> None:
        for each in report.answers.partitions:
            topic = each.row.topic
            if each.is_deleted_by_us:
                self._records_deleted[topic,] += each.records
            if each.outcome is not None:
                self._deletions[topic, each.outcome.outcome] += 1
        for topic, freed in report.disk.freed_bytes.items():
            self._bytes_freed[topic,] += freed
        topics = {each.topic for each in report.answers.topics}
        for counter in (self._records_deleted, self._bytes_freed, self._deletions):
            for labels in [each for each in counter if each[0] not in topics]:
                del counter[labels]

    def collect(self) -> Iterable[Metric]:
        """The families of the last report: the same objects until the next cycle, so that their
        text is rendered once."""
        return self._report_families

    def _totals(self, report: CycleReport) -> Iterator[Metric]:
        """The totals by topic. Every topic has all of them from its first cycle on, with 0, so that
        `rate` sees their first step."""
        topics = [each.topic for each in report.answers.topics]
        totals: tuple[tuple[Definition, Counter[Labels], Iterable[Labels]], ...] = (
            (metric_definitions.RECORDS_DELETED, self._records_deleted, [(t,) for t in topics]),
            (metric_definitions.BYTES_FREED, self._bytes_freed, [(t,) for t in topics]),
            (metric_definitions.DELETIONS, self._deletions, list(product(topics, Outcome))),
        )
        for definition, counts, all_labels in totals:
            family = definition.counter_family()
            for labels in all_labels:
                family.add_metric(labels, counts[labels])
            yield family


BY_PARTITION: Mapping[Definition, Callable[[PlanRow], int | None]] = {
    metric_definitions.LOG_START_OFFSET: lambda row: row.log_start_offset,
    metric_definitions.HIGH_WATERMARK: lambda row: row.high_watermark,
    metric_definitions.MIN_COMMITTED_OFFSET: lambda row: row.min_committed_offset,
    metric_definitions.CUTOFF_OFFSET: lambda row: row.cutoff,
}

BY_TOPIC: Mapping[Definition, Callable[[TopicAnswer], int | None]] = {
    metric_definitions.RECLAIMABLE_RECORDS: lambda topic: topic.reclaimable_records,
    metric_definitions.LOG_RECORDS: lambda topic: topic.known_log_records,
    metric_definitions.SLOWEST_GROUP_LAG: lambda topic: topic.slowest_group_lag,
    metric_definitions.LOG_SIZE: lambda topic: topic.size.local,
    metric_definitions.PREDICTED_BYTES: lambda topic: topic.frees.local,
    metric_definitions.REMOTE_LOG_SIZE: lambda topic: (
        topic.size.remote if topic.is_tiered else None
    ),
    metric_definitions.PREDICTED_REMOTE_BYTES: lambda topic: (
        topic.frees.remote if topic.is_tiered else None
    ),
}

BY_GROUP: Mapping[Definition, Callable[[LagReport], Mapping[GroupOnTopic, float]]] = {
    metric_definitions.BINDING_GROUP_LAG: lambda lag: lag.kept,
    metric_definitions.FORCED_RETENTION_MARGIN: lambda lag: lag.margins,
}

ORPHAN_GAUGES: Mapping[Definition, Callable[[Orphans], int]] = {
    metric_definitions.ORPHAN_PARTITIONS: lambda orphans: orphans.partitions,
    metric_definitions.ORPHAN_BYTES: lambda orphans: orphans.size_bytes,
}

LOG_DIR_GAUGES: Mapping[Definition, Callable[[LogDirCapacity], int]] = {
    metric_definitions.LOG_DIR_TOTAL: lambda disk: disk.total_bytes,
    metric_definitions.LOG_DIR_USABLE: lambda disk: disk.usable_bytes,
}

RELIEF_GAUGES: Mapping[Definition, Callable[[LogDirRelief], int]] = {
    metric_definitions.LOG_DIR_PLANNED: lambda relief: relief.planned_bytes,
    metric_definitions.LOG_DIR_SHORT: lambda relief: relief.short_bytes,
}


def families(report: CycleReport, *, by_partition: bool = True) -> Iterator[Metric]:
    """The gauges of a report. A figure that is not known has no series."""
    plan, disk = report.plan, report.disk
    verdicts = Counter((row.topic, row.verdict, row.reason) for row in plan.rows)
    yield _gauge(metric_definitions.PARTITIONS, sorted(verdicts.items()))
    owned = [each for each in report.answers.topics if each.owner is not None]
    yield _gauge(
        metric_definitions.TOPIC_OWNER,
        (((each.topic, label(str(each.owner))), 1) for each in owned),
    )
    groups = Counter(report.group_states.values())
    yield _gauge(metric_definitions.GROUPS, sorted(groups.items()))
    for definition, by_group in BY_GROUP.items():
        shown = sorted(by_group(report.lag).items())
        yield _gauge(definition, (((at.topic, label(at.group_id)), value) for at, value in shown))
    yield from _standing_families(report.standing)
    for definition, row_figure in BY_PARTITION.items() if by_partition else ():
        rows = (((row.topic, str(row.partition)), row_figure(row)) for row in plan.rows)
        yield _gauge(definition, rows)
    for definition, topic_figure in BY_TOPIC.items():
        yield _gauge(definition, (((t.topic,), topic_figure(t)) for t in report.answers.topics))
    stuck = Counter((each.at.topic, each.cause) for each in disk.stuck)
    yield _gauge(metric_definitions.STUCK_RETENTION, sorted(stuck.items()))
    for definition, orphan_figure in ORPHAN_GAUGES.items():
        yield _log_dir_gauge(definition, ((each[:2], orphan_figure(each)) for each in disk.orphans))
    for definition, space_figure in LOG_DIR_GAUGES.items():
        yield _log_dir_gauge(definition, ((each.key, space_figure(each)) for each in disk.space))
    yield _log_dir_gauge(metric_definitions.LOG_DIR_FULL, sorted(disk.until_full_s.items()))
    yield from _pressure_families(disk)


def _pressure_families(disk: DiskReport) -> Iterator[Metric]:
    pressed = {each.log_dir.key: each for each in disk.relief or ()}
    known = [each.key for each in disk.space if disk.relief is not None]
    yield _log_dir_gauge(
        metric_definitions.LOG_DIR_UNDER_PRESSURE, ((key, int(key in pressed)) for key in known)
    )
    for definition, relief_figure in RELIEF_GAUGES.items():
        yield _log_dir_gauge(
            definition, ((key, relief_figure(each)) for key, each in pressed.items())
        )
    yield _gauge(
        metric_definitions.LOG_DIR_KEPT,
        (
            ((str(broker), log_dir, label(group)), kept)
            for (broker, log_dir), each in pressed.items()
            for group, kept in islice(each.kept_bytes.items(), MOST_KEEPERS)
        ),
    )


def _standing_families(standing: Standing) -> Iterator[Metric]:
    retention = sorted(standing.forced_retention_ms.items())
    yield _gauge(
        metric_definitions.FORCED_RETENTION, (((topic,), ms / 1000) for topic, ms in retention)
    )
    for definition, by_group in (
        (metric_definitions.GROUP_LAST_COMMIT, standing.last_commit_ms),
        (metric_definitions.GROUP_VANISHED, standing.vanished_ms),
    ):
        times = sorted(by_group.items())
        yield _gauge(definition, (((label(group),), ms / 1000) for group, ms in times))
    groups = sorted(standing.is_live.items())
    yield _gauge(
        metric_definitions.GROUP_LIVE,
        (((label(group),), int(is_live)) for group, is_live in groups),
    )


def _log_dir_gauge(definition: Definition, samples: Iterable[tuple[LogDirKey, float]]) -> Metric:
    return _gauge(definition, (((str(broker), path), value) for (broker, path), value in samples))


def _gauge(definition: Definition, samples: Iterable[tuple[Labels, float | None]]) -> Metric:
    gauge = definition.gauge_family()
    for labels, value in samples:
        if value is not None:
            gauge.add_metric(labels, value)
    return gauge


class HistoryMetrics(Collector):
    """Metrics of the history. A figure that is not known has no series."""

    def __init__(self, status: Callable[[], HistoryStatus]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        status = self._status()
        yield _gauge(metric_definitions.HISTORY_BYTES, [((), status.bytes)])
        yield _gauge(metric_definitions.HISTORY_LAST_WRITE, [((), status.written_at)])
        failures = metric_definitions.HISTORY_FAILURES.counter_family()
        failures.add_metric([], status.failures)
        yield failures


class LogMetrics(Collector):
    """Metrics of the log. ``dropped_lines`` returns how many lines were dropped since the start of
    the process."""

    def __init__(self, dropped_lines: Callable[[], int]) -> None:
        self._dropped_lines = dropped_lines

    def collect(self) -> Iterator[Metric]:
        dropped = metric_definitions.LOG_LINES_DROPPED.counter_family()
        dropped.add_metric([], self._dropped_lines())
        yield dropped
