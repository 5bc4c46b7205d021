"""The rows of the dashboard, each an operator's question, and the panels that answer it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from grafana_foundation_sdk.builders import bargauge, stat, statetimeline, table, timeseries

from devkit.dashboard.panels import (
    BAD,
    DAEMON,
    GOOD,
    WARN,
    About,
    Query,
    bars,
    figure,
    graph,
    listing,
    states,
)

Panels = Iterator[
    stat.Panel | timeseries.Panel | bargauge.Panel | statetimeline.Panel | table.Panel
]

TOPIC = f'{DAEMON}, topic=~"$topic"'

OWNED = 'owner=~"$owner"'
"""Absent is empty, so where every owner is chosen, topics without one match, too."""


def of_owner(expr: str, *, within: str = "") -> str:
    """What is about topics of the chosen owners. ``within``: that were there in that time."""
    each = [
        f"retentiond_{name}{{{DAEMON}, {OWNED}}}" for name in ("partitions", "topic_owner_info")
    ]
    chosen = " or ".join(f"last_over_time({of}[{within}])" if within else of for of in each)
    return f"({expr} and on (job, instance, topic) ({chosen}))"


TOPIC_NAME = "{{kafka_cluster}} {{topic}}"
"""Of a series: two clusters may have topics of the same name."""

GROUP_NAME = "{{kafka_cluster}} {{group}} on {{topic}}"

LOG_DIR_NAME = "{{kafka_cluster}} broker {{broker}}, {{log_dir}}"

STATES = (
    ("down", BAD),
    ("not ready", WARN),
    ("paused", "purple"),
    ("dry run", "blue"),
    ("deletes", GOOD),
)

LOST_S = 0
LITTLE_S = 4 * 3600
ENOUGH_S = 86_400

LATE, VERY_LATE = 3, 12
"""Intervals without a complete cycle."""


def _increase_in_range(counter: str) -> str:
    increase = f"increase({counter}{{{TOPIC}}}[$__range])"
    return f"sum({of_owner(increase, within='$__range')})"


def _health() -> Panels:
    yield figure(
        About("Daemons", "short", "How many are up.", "RetentiondDown"),
        Query(f"count(up{{{DAEMON}}})"),
        span=3,
    )
    yield figure(
        About(
            "Not ready",
            "short",
            "Daemons without a complete cycle in three intervals.",
            "RetentiondNotReady",
        ),
        Query(f"count(retentiond_ready{{{DAEMON}}} == 0) or vector(0)"),
        span=3,
        steps=((1, BAD),),
    )
    yield figure(
        About(
            "Since a complete cycle",
            "short",
            "In intervals, of the daemon that is the latest.",
            "RetentiondNoCompleteCycle",
        ),
        Query(
            "max(clamp_min("
            f"time() - (retentiond_last_complete_cycle_timestamp_seconds{{{DAEMON}}} > 0"
            f" or retentiond_started_timestamp_seconds{{{DAEMON}}}), 0)"
            f" / retentiond_schedule_interval_seconds{{{DAEMON}}})"
        ),
        span=3,
        steps=((LATE, WARN), (VERY_LATE, BAD)),
    )
    yield figure(
        About(
            "Dry run or paused",
            "short",
            "Daemons that delete nothing because somebody wants that.",
            "RetentiondPaused",
        ),
        Query(f"count(instance:retentiond_deletion_off:max{{{DAEMON}}}) or vector(0)"),
        span=3,
        steps=((1, WARN),),
    )
    yield figure(
        About("Records deleted", "short", "In the time range of the dashboard."),
        Query(_increase_in_range("retentiond_records_deleted_total")),
        span=3,
    )
    yield figure(
        About("Bytes freed", "bytes", "On the disks of all replicas, in that time range."),
        Query(_increase_in_range("retentiond_bytes_freed_total")),
        span=3,
    )
    yield figure(
        About(
            "Partitions held",
            "short",
            "Nothing is deleted from these; see the reasons.",
            "RetentiondPartitionsHeld",
        ),
        Query(f"sum({of_owner(f'topic:retentiond_held_partitions:sum{{{TOPIC}}}')}) or vector(0)"),
        span=3,
        steps=((1, WARN),),
    )
    yield figure(
        About(
            "Groups vanished",
            "short",
            "Seen before and no longer listed; they hold.",
            "RetentiondGroupVanished",
        ),
        Query(f'sum(retentiond_groups{{{DAEMON}, state="vanished"}}) or vector(0)'),
        span=3,
        steps=((1, WARN),),
    )
    ready, paused, dry_run = (
        f"retentiond_{name}{{{DAEMON}}}" for name in ("ready", "paused", "dry_run")
    )
    yield states(
        About("What each daemon does", "short", "By daemon, over time.", "RetentiondDown"),
        Query(
            f"0 * (up{{{DAEMON}}} == 0) or 0 * ({ready} == 0) + 1 or 0 * ({paused} == 1) + 2"
            f" or 0 * ({dry_run} == 1) + 3 or 0 * {ready} + 4",
            "{{kafka_cluster}} {{instance}}",
        ),
        STATES,
        span=12,
    )
    yield listing(
        About("Clusters", "short", "Which cluster each daemon is for, and its version."),
        Query(
            f"retentiond_cluster_info{{{DAEMON}}}"
            f" * on (job, instance) group_left (version) retentiond_build_info{{{DAEMON}}}"
        ),
        ("kafka_cluster", "cluster_id", "instance", "version"),
        span=12,
    )


def _deletion() -> Panels:
    yield graph(
        About("Records deleted", "cps", "By topic, over half an hour; the 20 with the most."),
        Query(
            f"topk(20, {of_owner(f'topic:retentiond_records_deleted:rate30m{{{TOPIC}}}')})",
            TOPIC_NAME,
        ),
        stacked=True,
    )
    yield graph(
        About(
            "Records that can be deleted",
            "short",
            "Still there after the last cycle; the 20 topics with the most.",
        ),
        Query(f"topk(20, {of_owner(f'retentiond_reclaimable_records{{{TOPIC}}}')})", TOPIC_NAME),
    )
    yield graph(
        About(
            "Deletions by outcome",
            "short",
            "Partitions, within an hour.",
            "RetentiondDeletionsFailing",
        ),
        Query(
            "sum by (outcome) ("
            f"{of_owner(f'increase(retentiond_deletions_total{{{TOPIC}}}[1h])')})",
            "{{outcome}}",
        ),
    )
    yield graph(
        About(
            "Records",
            "short",
            "From log start offset to high watermark; the 20 topics with the most.",
        ),
        Query(f"topk(20, {of_owner(f'retentiond_log_records{{{TOPIC}}}')})", TOPIC_NAME),
        stacked=True,
    )


def _holds() -> Panels:
    yield bars(
        About(
            "Time until Kafka deletes unread records",
            "s",
            "By Kafka's own retention; the 20 groups with the least time. Negative is loss.",
            "RetentiondUnreadRecordsAtRisk",
        ),
        Query(
            f"bottomk(20, {of_owner(f'retentiond_forced_retention_margin_seconds{{{TOPIC}}}')})",
            GROUP_NAME,
        ),
        steps=((LOST_S, BAD), (LITTLE_S, WARN), (ENOUGH_S, GOOD)),
    )
    yield graph(
        About(
            "Bytes that one group alone keeps",
            "bytes",
            "Estimated, on all replicas.",
            "RetentiondGroupKeepsMuch",
        ),
        Query(f"topk(10, {of_owner(f'group:retentiond_kept_bytes:sum{{{TOPIC}}}')})", GROUP_NAME),
    )
    yield graph(
        About("Records that one group alone keeps", "short", "On the partitions it binds."),
        Query(
            f"topk(10, {of_owner(f'retentiond_binding_group_lag_records{{{TOPIC}}}')})", GROUP_NAME
        ),
    )
    yield graph(
        About(
            "Partitions by reason",
            "short",
            "By verdict and reason of the last plan.",
            "RetentiondPartitionsHeld",
        ),
        Query(
            f"sum by (verdict, reason) ({of_owner(f'retentiond_partitions{{{TOPIC}}}')})",
            "{{verdict}}: {{reason}}",
        ),
        stacked=True,
    )
    yield graph(
        About(
            "Lag of the slowest group",
            "short",
            "High watermark less least commit; the 20 topics with the most.",
        ),
        Query(
            f"topk(20, {of_owner(f'retentiond_slowest_group_lag_records{{{TOPIC}}}')})", TOPIC_NAME
        ),
    )
    yield graph(
        About(
            "Longest holds",
            "s",
            "Of one and the same partition, for one reason; the 20 longest, by topic and by the "
            "group that is the cause.",
            "RetentiondPartitionsHeld",
        ),
        Query(
            f"topk(20, {of_owner(f'retentiond_topic_held_seconds{{{TOPIC}}}')})",
            f"{TOPIC_NAME}: {{{{reason}}}}",
        ),
        Query(
            f"topk(20, retentiond_group_held_seconds{{{DAEMON}}})",
            "{{kafka_cluster}} {{group}}: {{reason}}",
        ),
    )
    yield graph(
        About(
            "Groups that are missing",
            "s",
            "For how long; the 20 longest.",
            "RetentiondGroupVanished",
        ),
        Query(
            f"topk(20, retentiond_group_vanished_seconds{{{DAEMON}}})",
            "{{kafka_cluster}} {{group}}",
        ),
    )
    yield graph(
        About("Groups", "short", "Of the whole cluster.", "RetentiondGroupVanished"),
        Query(f"sum by (kind, state) (retentiond_groups{{{DAEMON}}})", "{{kind}}, {{state}}"),
        stacked=True,
    )


def _disks() -> Panels:
    yield graph(
        About(
            "Size of the topics",
            "bytes",
            "On the disks of all replicas; in remote storage by estimate. The 20 largest.",
        ),
        Query(f"topk(20, {of_owner(f'retentiond_log_size_bytes{{{TOPIC}}}')})", TOPIC_NAME),
        Query(
            f"topk(20, {of_owner(f'retentiond_remote_log_size_bytes{{{TOPIC}}}')})",
            f"{TOPIC_NAME}, remote",
        ),
        stacked=True,
    )
    yield graph(
        About(
            "Predicted to be freed",
            "bytes",
            "By the last plan's deletions; the 20 topics with the most.",
        ),
        Query(f"topk(20, {of_owner(f'retentiond_predicted_bytes{{{TOPIC}}}')})", TOPIC_NAME),
        Query(
            f"topk(20, {of_owner(f'retentiond_predicted_remote_bytes{{{TOPIC}}}')})",
            f"{TOPIC_NAME}, remote",
        ),
    )
    yield graph(
        About(
            "Orphans",
            "bytes",
            "Partitions that the cluster does not assign there.",
            "RetentiondOrphanPartitions",
        ),
        Query(f"retentiond_orphan_log_partition_size_bytes{{{DAEMON}}}", LOG_DIR_NAME),
    )
    yield graph(
        About(
            "Partitions with stuck retention",
            "short",
            "By cause (KAFKA-9087).",
            "RetentiondRetentionStuck",
        ),
        Query(
            f"sum by (cause) ({of_owner(f'retentiond_stuck_retention_partitions{{{TOPIC}}}')})"
            f" or 0 * count(retentiond_ready{{{DAEMON}}})",
            "{{cause}}",
        ),
    )
    yield graph(
        About(
            "Free on the brokers' disks",
            "percentunit",
            "Of each log directory's disk.",
            "RetentiondDiskPressureShort",
        ),
        Query(
            f"retentiond_log_dir_usable_bytes{{{DAEMON}}}"
            f" / retentiond_log_dir_total_bytes{{{DAEMON}}}",
            LOG_DIR_NAME,
        ),
    )
    yield bars(
        About(
            "Time until a broker's disk is full",
            "s",
            "If it goes on as in the last day; the 20 that are full first.",
            "RetentiondDiskFillsUp",
        ),
        Query(f"bottomk(20, retentiond_log_dir_full_seconds{{{DAEMON}}})", LOG_DIR_NAME),
        steps=((LITTLE_S, WARN), (3 * ENOUGH_S, GOOD)),
    )
    yield graph(
        About(
            "Disks under pressure",
            "bytes",
            "For each directory under pressure: what the plan's deletions free, what they should "
            "free and don't, and the 20 groups that keep the most there.",
            "RetentiondDiskPressureShort",
        ),
        Query(f"retentiond_log_dir_planned_bytes{{{DAEMON}}}", f"{LOG_DIR_NAME}: planned"),
        Query(
            f"retentiond_log_dir_short_bytes{{{DAEMON}}}"
            f" and retentiond_log_dir_under_pressure{{{DAEMON}}} == 1",
            f"{LOG_DIR_NAME}: too little",
        ),
        Query(
            f"topk(20, retentiond_log_dir_kept_bytes{{{DAEMON}}})",
            f"{LOG_DIR_NAME}: for {{{{group}}}}",
        ),
    )
    yield graph(
        About(
            "History and audit log",
            "bytes",
            "What cycles have seen and done, as it is kept: `history.keep` and `audit.keep`.",
        ),
        Query(f"retentiond_history_bytes{{{DAEMON}}}", "history {{kafka_cluster}} {{instance}}"),
        Query(
            f"retentiond_audit_log_bytes{{{DAEMON}}}", "audit log {{kafka_cluster}} {{instance}}"
        ),
        Query(
            f"retentiond_state_dir_usable_bytes{{{DAEMON}}}",
            "free for both {{kafka_cluster}} {{instance}}",
        ),
    )


def _work() -> Panels:
    yield figure(
        About("History not written", "short", "Failures in the time range of the dashboard."),
        Query(f"sum(increase(retentiond_history_failures_total{{{DAEMON}}}[$__range]))"),
        steps=((1, WARN),),
    )
    yield graph(
        About("Cycles by result", "short", "Within an hour.", "RetentiondNoCompleteCycle"),
        Query(
            f"sum by (result) (increase(retentiond_cycles_total{{{DAEMON}}}[1h]))",
            "{{result}}",
        ),
        span=8,
    )
    yield graph(
        About("Seconds of a cycle by step", "s", "Means over half an hour."),
        Query(
            f"sum by (step) (rate(retentiond_cycle_duration_seconds_sum{{{DAEMON}}}[30m]))"
            f" / sum by (step)"
            f" (rate(retentiond_cycle_duration_seconds_count{{{DAEMON}}}[30m]))",
            "{{step}}",
        ),
        span=8,
    )
    yield graph(
        About("Kafka's answers", "s", "95th percentile, by request."),
        Query(
            "histogram_quantile(0.95, sum by (le, api)"
            f" (rate(retentiond_kafka_request_duration_seconds_bucket{{{DAEMON}}}[30m])))",
            "{{api}}",
        ),
        span=8,
    )


NONE_YET = f"0 * count(retentiond_ready{{{DAEMON}}})"


def _coverage() -> Panels:
    name = "{{kafka_cluster}} {{instance}}"
    yield graph(
        About("Bytes that no entry covers", "bytes", "`retentiond plan --unmanaged` lists them."),
        Query(f"retentiond_unmanaged_bytes{{{DAEMON}}} or {NONE_YET}", name),
    )
    yield graph(
        About("Topics that no entry covers", "short", "Internal topics apart."),
        Query(f"retentiond_unmanaged_topics{{{DAEMON}}}", name),
    )
    yield graph(
        About(
            "Entries that match no topic, and files that can't be used",
            "short",
            "Of the policy, by owner.",
            "RetentiondEntryWithoutTopic",
        ),
        Query(
            f"sum by (owner) (retentiond_policy_entries_without_topic{{{DAEMON}}})",
            "entries {{owner}}",
        ),
        Query(f"count(retentiond_policy_unreadable{{{DAEMON}}}) or {NONE_YET}", "files"),
    )
    yield graph(
        About("Topics with a weakening setting", "short", "By setting and owner."),
        Query(
            f"sum by (by, owner) (retentiond_weakened_topics{{{DAEMON}}}) or {NONE_YET}",
            "{{by}} {{owner}}",
        ),
    )
    yield graph(
        About("Topics on trial", "short", "Planned and told of; nothing is requested."),
        Query(f"count(retentiond_topic_dry_run{{{DAEMON}}}) or {NONE_YET}", "on trial"),
    )
    yield graph(
        About(
            "Host's clock ahead of the cluster's",
            "s",
            "Negative: behind.",
            "RetentiondClockAhead",
        ),
        Query(
            f"retentiond_clock_skew_seconds{{{DAEMON}}} or {NONE_YET}",
            "{{kafka_cluster}} {{instance}}",
        ),
    )
    yield graph(
        About(
            "Time that the audit log covers, and that the certificate lasts",
            "s",
            "`audit.keep` and `audit.max_bytes`; `ssl.certificate.location`.",
            "RetentiondAuditCutShort",
        ),
        Query(
            f"time() - retentiond_audit_oldest_entry_timestamp_seconds{{{DAEMON}}}",
            "audit log {{kafka_cluster}} {{instance}}",
        ),
        Query(
            f"retentiond_client_certificate_expiry_timestamp_seconds{{{DAEMON}}} - time()"
            f" or {NONE_YET}",
            "certificate {{kafka_cluster}} {{instance}}",
        ),
    )


ROWS: tuple[tuple[str, Callable[[], Panels]], ...] = (
    ("Is it healthy?", _health),
    ("What does it delete?", _deletion),
    ("Who holds what?", _holds),
    ("What do the disks say?", _disks),
    ("What does the policy cover?", _coverage),
    ("How does it work?", _work),
)
