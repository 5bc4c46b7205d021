"""Every metric of retentiond: its name, type, labels and help stand here, and nowhere else.

docs/metrics.md is made from this list, and a test holds it against what
`/metrics` shows.
"""

from __future__ import annotations

from dataclasses import dataclass

import prometheus_client as prom
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import CollectorRegistry

from retentiond.disk.stuck import StuckCause
from retentiond.model import Outcome

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""Seconds, of every histogram."""

COUNTER, GAUGE, HISTOGRAM, INFO = "counter", "gauge", "histogram", "info"


@dataclass(frozen=True, slots=True)
class Definition:
    """A metric. ``name`` is what a query says, so a counter's ends in ``_total``, an info's in
    ``_info``; a histogram's series have ``_bucket``, ``_sum`` and ``_count`` behind it."""

    name: str
    type: str  # COUNTER, GAUGE, HISTOGRAM or INFO
    help: str
    labels: tuple[str, ...] = ()

    def counter(self, registry: CollectorRegistry) -> prom.Counter:
        return prom.Counter(self.name, self.help, self.labels, registry=registry)

    def gauge(self, registry: CollectorRegistry) -> prom.Gauge:
        return prom.Gauge(self.name, self.help, self.labels, registry=registry)

    def histogram(self, registry: CollectorRegistry) -> prom.Histogram:
        return prom.Histogram(self.name, self.help, self.labels, registry=registry, buckets=BUCKETS)

    def info(self, registry: CollectorRegistry) -> prom.Info:
        return prom.Info(self.name.removesuffix("_info"), self.help, registry=registry)

    def counter_family(self) -> CounterMetricFamily:
        """An empty one, to be filled from a report."""
        return CounterMetricFamily(self.name, self.help, labels=self.labels)

    def gauge_family(self) -> GaugeMetricFamily:
        """An empty one, to be filled from a report."""
        return GaugeMetricFamily(self.name, self.help, labels=self.labels)


CYCLES = Definition(
    "retentiond_cycles_total",
    COUNTER,
    "Cycles by result: ok, incomplete (deleted nothing for lack of evidence), failed.",
    ("result",),
)
CYCLE_SECONDS = Definition(
    "retentiond_cycle_duration_seconds",
    HISTOGRAM,
    "Seconds spent in a cycle, by step and as a whole (all).",
    ("step",),
)
LAST_COMPLETE_CYCLE = Definition(
    "retentiond_last_complete_cycle_timestamp_seconds",
    GAUGE,
    "When the last cycle with complete evidence was planned, epoch seconds; 0 is never.",
)
READY = Definition(
    "retentiond_ready",
    GAUGE,
    "1 while /readyz says ready (a complete cycle within three intervals), else 0.",
)
RECORDS_DELETED = Definition(
    "retentiond_records_deleted_total", COUNTER, "Records deleted since the start.", ("topic",)
)
DELETIONS = Definition(
    "retentiond_deletions_total",
    COUNTER,
    f"Partitions whose deletion was approved, by outcome: {', '.join(Outcome)}.",
    ("topic", "outcome"),
)
PARTITIONS = Definition(
    "retentiond_partitions",
    GAUGE,
    "Partitions of enabled topics by what the last cycle decided, and why.",
    ("topic", "verdict", "reason"),
)
LOG_START_OFFSET = Definition(
    "retentiond_log_start_offset",
    GAUGE,
    "First offset that a consumer can read.",
    ("topic", "partition"),
)
HIGH_WATERMARK = Definition(
    "retentiond_high_watermark",
    GAUGE,
    "One past the last readable record.",
    ("topic", "partition"),
)
MIN_COMMITTED_OFFSET = Definition(
    "retentiond_min_committed_offset",
    GAUGE,
    "Smallest committed offset over the relevant groups; absent where it is not known.",
    ("topic", "partition"),
)
CUTOFF_OFFSET = Definition(
    "retentiond_cutoff_offset",
    GAUGE,
    "First offset that the rule keeps; absent where it is not known.",
    ("topic", "partition"),
)
RECLAIMABLE_RECORDS = Definition(
    "retentiond_reclaimable_records",
    GAUGE,
    "Records that may go and are still there after the last cycle.",
    ("topic",),
)
LOG_SIZE = Definition(
    "retentiond_log_size_bytes",
    GAUGE,
    "Bytes of the topic on the disks of all its replicas; absent where it is not known.",
    ("topic",),
)
PREDICTED_BYTES = Definition(
    "retentiond_predicted_bytes",
    GAUGE,
    "Bytes on all replicas' disks that the last plan's deletions free, by estimate; absent where "
    "it is not known.",
    ("topic",),
)
BYTES_FREED = Definition(
    "retentiond_bytes_freed_total",
    COUNTER,
    "Bytes on all replicas' disks that deletions have freed since the start, as the brokers' "
    "sizes show it.",
    ("topic",),
)
STUCK_RETENTION = Definition(
    "retentiond_stuck_retention_partitions",
    GAUGE,
    f"Partitions whose retention stands still on a broker, by cause: {', '.join(StuckCause)}.",
    ("topic", "cause"),
)
ORPHAN_COUNT = Definition(
    "retentiond_orphan_log_partition_count",
    GAUGE,
    "Partitions in a broker's log directory that the cluster's metadata do not place there.",
    ("broker", "log_dir"),
)
ORPHAN_BYTES = Definition(
    "retentiond_orphan_log_partition_size_bytes",
    GAUGE,
    "Bytes of those partitions.",
    ("broker", "log_dir"),
)
BINDING_GROUP_LAG = Definition(
    "retentiond_binding_group_lag_records",
    GAUGE,
    "Records that only this group keeps, summed over the partitions that it binds: from its"
    " commit (without one, from the log start) up to what would bind next, which is another"
    " group, the consumed retention or the end.",
    ("topic", "group"),
)
FORCED_RETENTION_MARGIN = Definition(
    "retentiond_forced_retention_margin_seconds",
    GAUGE,
    "How long at least until Kafka's own retention by age reaches records that the group has not"
    " read, on the partition where that is soonest; negative is loss. Absent where nothing is"
    " unread, retention.ms is unlimited or the group has never committed.",
    ("topic", "group"),
)
GROUPS = Definition(
    "retentiond_groups",
    GAUGE,
    "Groups of the cluster by kind and state (live, empty, vanished, unreadable).",
    ("kind", "state"),
)
REQUEST_SECONDS = Definition(
    "retentiond_kafka_request_duration_seconds",
    HISTOGRAM,
    "Seconds that Kafka took to answer, by api and result (ok, failed).",
    ("api", "result"),
)
BUILD = Definition(
    "retentiond_build_info",
    INFO,
    "Versions at work.",
    ("version", "spark_version", "librdkafka_version"),
)
LAST_ORPHAN_LOOK = Definition(
    "retentiond_orphan_last_look_timestamp_seconds",
    GAUGE,
    "When `retentiond orphans` last looked completely, epoch seconds; 0 is never.",
)

ALL: tuple[Definition, ...] = (
    CYCLES,
    CYCLE_SECONDS,
    LAST_COMPLETE_CYCLE,
    READY,
    RECORDS_DELETED,
    DELETIONS,
    PARTITIONS,
    LOG_START_OFFSET,
    HIGH_WATERMARK,
    MIN_COMMITTED_OFFSET,
    CUTOFF_OFFSET,
    RECLAIMABLE_RECORDS,
    BINDING_GROUP_LAG,
    FORCED_RETENTION_MARGIN,
    LOG_SIZE,
    PREDICTED_BYTES,
    BYTES_FREED,
    STUCK_RETENTION,
    ORPHAN_COUNT,
    ORPHAN_BYTES,
    LAST_ORPHAN_LOOK,
    GROUPS,
    REQUEST_SECONDS,
    BUILD,
)
"""In the order of the documentation."""
