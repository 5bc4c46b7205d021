"""The rows of the dashboard, each an operator's question, and the panels that answer it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from grafana_foundation_sdk.builders import bargauge, stat, timeseries

from devkit.dashboard.panels import BAD, GOOD, WARN, About, Query, bars, figure, graph

Panels = Iterator[stat.Panel | timeseries.Panel | bargauge.Panel]

DAEMON = 'instance=~"$instance"'
TOPIC = f'{DAEMON}, topic=~"$topic"'

LOST_S = 0
LITTLE_S = 4 * 3600
ENOUGH_S = 86_400


def _health() -> Panels:
    yield figure(
        About("Unready", "short", "Daemons without a complete cycle in three intervals."),
        Query(f"count(retentiond_ready{{{DAEMON}}} == 0) or vector(0)"),
        steps=((1, BAD),),
    )
    yield figure(
        About("Last complete cycle", "s", "Time since a cycle was last complete."),
        Query(f"time() - min(retentiond_last_complete_cycle_timestamp_seconds{{{DAEMON}}})"),
        steps=((900, WARN), (3600, BAD)),
    )
    yield figure(
        About("Records deleted", "short", "In the time range of the dashboard."),
        Query(f"sum(increase(retentiond_records_deleted_total{{{TOPIC}}}[$__range]))"),
    )
    yield figure(
        About("Bytes freed", "bytes", "On the disks of all replicas, in that time range."),
        Query(f"sum(increase(retentiond_bytes_freed_total{{{TOPIC}}}[$__range]))"),
    )
    yield figure(
        About("Partitions held", "short", "Nothing is deleted from these; see the reasons."),
        Query(f"sum(topic:retentiond_held_partitions:sum{{{TOPIC}}}) or vector(0)"),
        steps=((1, WARN),),
    )
    yield figure(
        About("Groups vanished", "short", "Seen before and no longer listed; they hold."),
        Query(f'sum(retentiond_groups{{{DAEMON}, state="vanished"}}) or vector(0)'),
        steps=((1, WARN),),
    )


def _deletion() -> Panels:
    yield graph(
        About("Records deleted", "cps", "By topic, over half an hour."),
        Query(f"topic:retentiond_records_deleted:rate30m{{{TOPIC}}}", "{{topic}}"),
        stacked=True,
    )
    yield graph(
        About("Records that may be deleted", "short", "Still there after the last cycle."),
        Query(f"sum by (topic) (retentiond_reclaimable_records{{{TOPIC}}})", "{{topic}}"),
    )
    yield graph(
        About("Deletions by outcome", "short", "Partitions, within an hour."),
        Query(
            f"sum by (outcome) (increase(retentiond_deletions_total{{{TOPIC}}}[1h]))",
            "{{outcome}}",
        ),
    )
    yield graph(
        About("Records", "short", "From log start offset to high watermark."),
        Query(f"sum by (topic) (topic:retentiond_records:sum{{{TOPIC}}})", "{{topic}}"),
        stacked=True,
    )


def _holds() -> Panels:
    yield bars(
        About(
            "Time until Kafka deletes unread records",
            "s",
            "By Kafka's own retention; the 20 groups with the least time. Negative is loss.",
        ),
        Query(
            f"bottomk(20, retentiond_forced_retention_margin_seconds{{{TOPIC}}})",
            "{{group}} on {{topic}}",
        ),
        steps=((LOST_S, BAD), (LITTLE_S, WARN), (ENOUGH_S, GOOD)),
    )
    yield graph(
        About("Bytes that one group alone keeps", "bytes", "Estimated, on all replicas."),
        Query(f"topk(10, group:retentiond_kept_bytes:sum{{{TOPIC}}})", "{{group}} on {{topic}}"),
    )
    yield graph(
        About("Records that one group alone keeps", "short", "On the partitions it binds."),
        Query(
            f"topk(10, retentiond_binding_group_lag_records{{{TOPIC}}})",
            "{{group}} on {{topic}}",
        ),
    )
    yield graph(
        About("Partitions by reason", "short", "By verdict and reason of the last plan."),
        Query(
            f"sum by (verdict, reason) (retentiond_partitions{{{TOPIC}}})",
            "{{verdict}}: {{reason}}",
        ),
        stacked=True,
    )
    yield graph(
        About("Lag of the slowest group", "short", "High watermark less least commit."),
        Query(
            f"sum by (topic) (retentiond_high_watermark{{{TOPIC}}}"
            f" - retentiond_min_committed_offset{{{TOPIC}}})",
            "{{topic}}",
        ),
    )
    yield graph(
        About("Groups", "short", "Of the whole cluster."),
        Query(f"sum by (kind, state) (retentiond_groups{{{DAEMON}}})", "{{kind}}, {{state}}"),
        stacked=True,
    )


def _disks() -> Panels:
    yield graph(
        About(
            "Size of the topics",
            "bytes",
            "On the disks of all replicas; in remote storage by estimate.",
        ),
        Query(f"sum by (topic) (retentiond_log_size_bytes{{{TOPIC}}})", "{{topic}}"),
        Query(f"sum by (topic) (retentiond_remote_log_size_bytes{{{TOPIC}}})", "{{topic}}, remote"),
        stacked=True,
    )
    yield graph(
        About("Predicted to be freed", "bytes", "By the last plan's deletions."),
        Query(f"sum by (topic) (retentiond_predicted_bytes{{{TOPIC}}})", "{{topic}}"),
        Query(
            f"sum by (topic) (retentiond_predicted_remote_bytes{{{TOPIC}}})", "{{topic}}, remote"
        ),
    )
    yield graph(
        About("Orphans", "bytes", "Partitions that the cluster does not assign there."),
        Query(
            f"sum by (broker, log_dir) (retentiond_orphan_log_partition_size_bytes{{{DAEMON}}})",
            "broker {{broker}}, {{log_dir}}",
        ),
    )
    yield graph(
        About("Partitions with stuck retention", "short", "By cause (KAFKA-9087)."),
        Query(
            f"sum by (cause) (retentiond_stuck_retention_partitions{{{TOPIC}}}) or vector(0)",
            "{{cause}}",
        ),
    )
    yield graph(
        About("Free on the brokers' disks", "percentunit", "Of each log directory's disk."),
        Query(
            f"min by (broker, log_dir) (retentiond_log_dir_usable_bytes{{{DAEMON}}}"
            f" / retentiond_log_dir_total_bytes{{{DAEMON}}})",
            "broker {{broker}}, {{log_dir}}",
        ),
    )
    yield graph(
        About("History", "bytes", "What cycles have seen, as it is kept."),
        Query(f"sum by (instance) (retentiond_history_bytes{{{DAEMON}}})", "{{instance}}"),
    )


def _work() -> Panels:
    yield figure(
        About("History not written", "short", "Failures in the time range of the dashboard."),
        Query(f"sum(increase(retentiond_history_failures_total{{{DAEMON}}}[$__range]))"),
        steps=((1, WARN),),
    )
    yield graph(
        About("Cycles by result", "short", "Within an hour."),
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


ROWS: tuple[tuple[str, Callable[[], Panels]], ...] = (
    ("Is it healthy?", _health),
    ("What does it delete?", _deletion),
    ("Who holds what?", _holds),
    ("What do the disks say?", _disks),
    ("How does it work?", _work),
)
