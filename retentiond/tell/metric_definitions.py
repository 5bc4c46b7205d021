"""Every metric of retentiond: its name, type, labels and help stand here, and nowhere else.

docs/metrics.md is generated from this list, and a test compares the list with what `/metrics`
shows.
"""

from __future__ import annotations

from dataclasses import dataclass

import prometheus_client as prom
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import CollectorRegistry

from retentiond.disks.stuck import StuckCause
from retentiond.model import Outcome

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""The buckets of every histogram, in seconds."""

COUNTER, GAUGE, HISTOGRAM, INFO = "counter", "gauge", "histogram", "info"


@dataclass(frozen=True, slots=True)
class Definition:
    """A metric. ``name`` is the name that a query uses: a counter's ends in ``_total``, and an
    info's in ``_info``. Prometheus appends ``_bucket``, ``_sum`` and ``_count`` to a histogram's
    name."""

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
        """An empty family, to be filled from a report."""
        return CounterMetricFamily(self.name, self.help, labels=self.labels)

    def gauge_family(self) -> GaugeMetricFamily:
        """An empty family, to be filled from a report."""
        return GaugeMetricFamily(self.name, self.help, labels=self.labels)


CYCLES = Definition(
    "retentiond_cycles_total",
    COUNTER,
    "Cycles, by result: ok, incomplete (evidence was missing, or a deletion was not done), failed.",
    ("result",),
)
CYCLE_SECONDS = Definition(
    "retentiond_cycle_duration_seconds",
    HISTOGRAM,
    "Seconds that a cycle took, by step; step=all is the whole cycle.",
    ("step",),
)
LAST_COMPLETE_CYCLE = Definition(
    "retentiond_last_complete_cycle_timestamp_seconds",
    GAUGE,
    "Time of the last complete cycle's plan, in epoch seconds; 0: there was none. A restart does "
    "not change it. A complete cycle had all evidence and did all that it had planned.",
)
STARTED = Definition(
    "retentiond_started_timestamp_seconds", GAUGE, "When the daemon started, in epoch seconds."
)
INTERVAL = Definition(
    "retentiond_schedule_interval_seconds",
    GAUGE,
    "The interval of cycles that is in force (schedule.interval).",
)
LOG_LINES_DROPPED = Definition(
    "retentiond_log_lines_dropped_total",
    COUNTER,
    "Lines of the log that could not be written: its reader stands still, or its disk is full.",
)
READY = Definition(
    "retentiond_ready",
    GAUGE,
    "1 while /readyz says ready, else 0. Ready: a complete cycle within three intervals, or within "
    "three times what the last one took.",
)
RECORDS_DELETED = Definition(
    "retentiond_records_deleted_total",
    COUNTER,
    "Records deleted since the daemon started.",
    ("topic",),
)
DELETIONS = Definition(
    "retentiond_deletions_total",
    COUNTER,
    f"Approved deletions, one for each partition, by outcome: {', '.join(Outcome)}.",
    ("topic", "outcome"),
)
PARTITIONS = Definition(
    "retentiond_partitions",
    GAUGE,
    "Partitions of enabled topics, by the last cycle's verdict and reason.",
    ("topic", "verdict", "reason"),
)
TOPIC_OWNER = Definition(
    "retentiond_topic_owner_info",
    GAUGE,
    "1 for each enabled topic that a team's policy file covers, with that file's owner.",
    ("topic", "owner"),
)
LOG_START_OFFSET = Definition(
    "retentiond_log_start_offset",
    GAUGE,
    "Log start offset: the first offset that a consumer can read.",
    ("topic", "partition"),
)
HIGH_WATERMARK = Definition(
    "retentiond_high_watermark",
    GAUGE,
    "High watermark: one past the last readable record.",
    ("topic", "partition"),
)
MIN_COMMITTED_OFFSET = Definition(
    "retentiond_min_committed_offset",
    GAUGE,
    "Smallest committed offset of all relevant groups; absent if it is not known.",
    ("topic", "partition"),
)
CUTOFF_OFFSET = Definition(
    "retentiond_cutoff_offset",
    GAUGE,
    "Cutoff: the first offset that the rule keeps; absent if it is not known.",
    ("topic", "partition"),
)
RECLAIMABLE_RECORDS = Definition(
    "retentiond_reclaimable_records",
    GAUGE,
    "Records that may be deleted and are still there after the last cycle.",
    ("topic",),
)
LOG_RECORDS = Definition(
    "retentiond_log_records",
    GAUGE,
    "Records from log start offset to high watermark, over the partitions whose offsets are known; "
    "absent if there are none.",
    ("topic",),
)
SLOWEST_GROUP_LAG = Definition(
    "retentiond_slowest_group_lag_records",
    GAUGE,
    "Records from the smallest committed offset to the high watermark, over the partitions "
    "whose offsets are known; absent if there are none.",
    ("topic",),
)
LOG_SIZE = Definition(
    "retentiond_log_size_bytes",
    GAUGE,
    "Bytes that the topic takes on the disks of all replicas; absent if they are not known.",
    ("topic",),
)
PREDICTED_BYTES = Definition(
    "retentiond_predicted_bytes",
    GAUGE,
    "Estimated bytes that the last plan's deletions free on the disks of all replicas; absent "
    "if they are not known.",
    ("topic",),
)
REMOTE_LOG_SIZE = Definition(
    "retentiond_remote_log_size_bytes",
    GAUGE,
    "Bytes of a tiered topic in remote storage, by estimate; absent for other topics, and if it "
    "is not known.",
    ("topic",),
)
PREDICTED_REMOTE_BYTES = Definition(
    "retentiond_predicted_remote_bytes",
    GAUGE,
    "Bytes in remote storage that the last plan's deletions free, by estimate; absent for topics "
    "that are not tiered, and if it is not known.",
    ("topic",),
)
BYTES_FREED = Definition(
    "retentiond_bytes_freed_total",
    COUNTER,
    "Bytes that deletions have freed on the disks of all replicas since the daemon started, by the "
    "sizes that brokers report.",
    ("topic",),
)
STUCK_RETENTION = Definition(
    "retentiond_stuck_retention_partitions",
    GAUGE,
    f"Partitions whose retention is stuck on a broker, by cause: {', '.join(StuckCause)}.",
    ("topic", "cause"),
)
ORPHAN_PARTITIONS = Definition(
    "retentiond_orphan_log_partitions",
    GAUGE,
    "Orphan partitions in a broker's log directory: the cluster's metadata do not assign them to "
    "the broker.",
    ("broker", "log_dir"),
)
ORPHAN_BYTES = Definition(
    "retentiond_orphan_log_partition_size_bytes",
    GAUGE,
    "Bytes of the orphan partitions in a broker's log directory.",
    ("broker", "log_dir"),
)
BINDING_GROUP_LAG = Definition(
    "retentiond_binding_group_lag_records",
    GAUGE,
    "Records that only this group keeps, summed over the partitions that it binds: from its"
    " committed offset (without one, from the log start offset) up to the next bound, which is"
    " another group, the consumed retention or the end.",
    ("topic", "group"),
)
FORCED_RETENTION_MARGIN = Definition(
    "retentiond_forced_retention_margin_seconds",
    GAUGE,
    "Time until Kafka's own retention by age reaches records that the group has not read, on the"
    " partition where that is soonest; negative: loss. Absent if the group has no lag or has never"
    " committed, or if retention.ms is unlimited.",
    ("topic", "group"),
)
FORCED_RETENTION = Definition(
    "retentiond_forced_retention_seconds",
    GAUGE,
    "The topic's forced retention by age (retention.ms); absent if it is unlimited or unknown.",
    ("topic",),
)
GROUP_LAST_COMMIT = Definition(
    "retentiond_group_last_commit_timestamp_seconds",
    GAUGE,
    "When one of the group's commits on an enabled topic was last seen to move, in epoch seconds; "
    "if none has moved yet, when the group was first seen.",
    ("group",),
)
GROUP_LIVE = Definition(
    "retentiond_group_live",
    GAUGE,
    "1 if a group with commits on enabled topics has members, 0 if it has none now; absent for an "
    "external reader, and if that can't be read.",
    ("group",),
)
GROUP_VANISHED = Definition(
    "retentiond_group_vanished_seconds",
    GAUGE,
    "For how long a remembered group has been missing, as far as that was observed; absent for "
    "groups that exist.",
    ("group",),
)
TOPIC_HELD = Definition(
    "retentiond_topic_held_seconds",
    GAUGE,
    "The longest time for which one and the same partition of the topic has been held for this "
    "reason without a break; never for limit_reached. Failed cycles and restarts are no break; the "
    "time of a restart does not count.",
    ("topic", "reason"),
)
GROUP_HELD = Definition(
    "retentiond_group_held_seconds",
    GAUGE,
    "By group, for the reasons that a group causes: the longest time for which one of the "
    "partitions that the group holds now has been held for this reason without a break.",
    ("group", "reason"),
)
STATE_DIR_USABLE = Definition(
    "retentiond_state_dir_usable_bytes",
    GAUGE,
    "Bytes that retentiond may still write on the disk of state_dir; NaN if they can't be read.",
)
LOG_DIR_TOTAL = Definition(
    "retentiond_log_dir_total_bytes",
    GAUGE,
    "Size of the disk that a log directory lies on; absent before Kafka 3.3 (KIP-827).",
    ("broker", "log_dir"),
)
LOG_DIR_USABLE = Definition(
    "retentiond_log_dir_usable_bytes",
    GAUGE,
    "Bytes that the broker may still write on the disk of a log directory; absent before Kafka "
    "3.3 (KIP-827).",
    ("broker", "log_dir"),
)
LOG_DIR_FULL = Definition(
    "retentiond_log_dir_full_seconds",
    GAUGE,
    "Seconds until the disk of a log directory is full if it fills as in the last day, 0 once it "
    "is full; absent while it is not filling, and until it was seen for an hour.",
    ("broker", "log_dir"),
)
LOG_DIR_UNDER_PRESSURE = Definition(
    "retentiond_log_dir_under_pressure",
    GAUGE,
    "1 while the log directory is under pressure, else 0; absent without disk_pressure, and if "
    "its space is not known.",
    ("broker", "log_dir"),
)
LOG_DIR_PLANNED = Definition(
    "retentiond_log_dir_planned_bytes",
    GAUGE,
    "Log directory under pressure: bytes that the plan's deletions free on its disk, by estimate.",
    ("broker", "log_dir"),
)
LOG_DIR_SHORT = Definition(
    "retentiond_log_dir_short_bytes",
    GAUGE,
    "Log directory under pressure: bytes that are missing after the plan's deletions, because "
    "nothing more may be deleted. 0: the plan frees enough, or will once a pause ends or a limit "
    "allows it.",
    ("broker", "log_dir"),
)
LOG_DIR_KEPT = Definition(
    "retentiond_log_dir_kept_bytes",
    GAUGE,
    "Log directory under pressure: bytes there that a group keeps, because it has yet to read "
    "them; for the ten groups with the most.",
    ("broker", "log_dir", "group"),
)
AUDIT_LOG_BYTES = Definition(
    "retentiond_audit_log_bytes",
    GAUGE,
    "Bytes of the audit log's files, free room for further entries included; 0 without files.",
)
HISTORY_BYTES = Definition(
    "retentiond_history_bytes",
    GAUGE,
    "Bytes of the history's files of this cluster.",
)
HISTORY_LAST_WRITE = Definition(
    "retentiond_history_last_write_timestamp_seconds",
    GAUGE,
    "Time of the last entry of the history that was written, in epoch seconds; absent before the "
    "first one, and while history.enabled is false.",
)
HISTORY_FAILURES = Definition(
    "retentiond_history_failures_total",
    COUNTER,
    "Entries of the history that could not be written, and older ones that could not be merged or "
    "removed.",
)
GROUPS = Definition(
    "retentiond_groups",
    GAUGE,
    "Groups of the cluster, by kind and state (live, empty, vanished, unreadable).",
    ("kind", "state"),
)
REQUEST_SECONDS = Definition(
    "retentiond_kafka_request_duration_seconds",
    HISTOGRAM,
    "Seconds that Kafka took to answer, by api and result (ok, failed).",
    ("api", "result"),
)
EVIDENCE_AGE_SECONDS = Definition(
    "retentiond_evidence_age_seconds",
    HISTOGRAM,
    "Seconds from the beginning of the second reading, before it asks for the first commit, until "
    "the last request that rests on it. Nothing is requested on one that is older than 5 seconds.",
)
LOOK_TO_REQUEST_SECONDS = Definition(
    "retentiond_look_to_request_duration_seconds",
    HISTOGRAM,
    "Seconds from the last check of topic ids until DeleteRecords was handed over.",
)
THROTTLED_SECONDS = Definition(
    "retentiond_kafka_throttled_duration_seconds",
    HISTOGRAM,
    "Seconds that a request waited because of a broker's quota, before it went out.",
)
DRY_RUN = Definition(
    "retentiond_dry_run",
    GAUGE,
    "1 if the last cycle was a dry run, which deletes nothing, else 0. Before the first cycle: "
    "whether it will be one.",
)
PAUSED = Definition(
    "retentiond_paused",
    GAUGE,
    "1 if an operator had paused deletion when the last cycle ended or failed (before the first "
    "one: when the daemon started), else 0.",
)
CONFIG_RELOADED = Definition(
    "retentiond_config_last_reload_successful",
    GAUGE,
    "1 if the last reload of the configuration succeeded, else 0.",
)
BUILD = Definition(
    "retentiond_build_info",
    INFO,
    "Versions of retentiond, Spark and librdkafka.",
    ("version", "spark_version", "librdkafka_version"),
)
CLUSTER = Definition(
    "retentiond_cluster_info",
    INFO,
    "The Kafka cluster: its id (empty while unknown) and the operator's name for it "
    "(metrics.cluster).",
    ("cluster_id", "kafka_cluster"),
)

ALL: tuple[Definition, ...] = (
    CYCLES,
    CYCLE_SECONDS,
    LAST_COMPLETE_CYCLE,
    READY,
    LOG_LINES_DROPPED,
    STARTED,
    INTERVAL,
    RECORDS_DELETED,
    DELETIONS,
    PARTITIONS,
    TOPIC_OWNER,
    LOG_START_OFFSET,
    HIGH_WATERMARK,
    MIN_COMMITTED_OFFSET,
    CUTOFF_OFFSET,
    RECLAIMABLE_RECORDS,
    LOG_RECORDS,
    SLOWEST_GROUP_LAG,
    BINDING_GROUP_LAG,
    FORCED_RETENTION_MARGIN,
    FORCED_RETENTION,
    GROUP_LAST_COMMIT,
    GROUP_LIVE,
    GROUP_VANISHED,
    TOPIC_HELD,
    GROUP_HELD,
    LOG_SIZE,
    PREDICTED_BYTES,
    REMOTE_LOG_SIZE,
    PREDICTED_REMOTE_BYTES,
    BYTES_FREED,
    STUCK_RETENTION,
    ORPHAN_PARTITIONS,
    ORPHAN_BYTES,
    LOG_DIR_TOTAL,
    LOG_DIR_USABLE,
    LOG_DIR_FULL,
    LOG_DIR_UNDER_PRESSURE,
    LOG_DIR_PLANNED,
    LOG_DIR_SHORT,
    LOG_DIR_KEPT,
    GROUPS,
    REQUEST_SECONDS,
    EVIDENCE_AGE_SECONDS,
    LOOK_TO_REQUEST_SECONDS,
    THROTTLED_SECONDS,
    DRY_RUN,
    PAUSED,
    CONFIG_RELOADED,
    STATE_DIR_USABLE,
    AUDIT_LOG_BYTES,
    HISTORY_BYTES,
    HISTORY_LAST_WRITE,
    HISTORY_FAILURES,
    CLUSTER,
    BUILD,
)
"""All metrics, in the order of the documentation."""
