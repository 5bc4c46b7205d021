"""The dashboard: is it healthy, what does it delete, who holds what, and what do the disks say."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import (
    Dashboard,
    DatasourceVariable,
    QueryVariable,
    Row,
)
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard as Model
from grafana_foundation_sdk.models.dashboard import VariableRefresh

from devkit.dashboard.panels import BAD, DATASOURCE, GOOD, WARN, About, Query, bars, figure, graph

DAEMON = 'instance=~"$instance"'
TOPIC = f'{DAEMON}, topic=~"$topic"'

LOST_S = 0
LITTLE_S = 4 * 3600
ENOUGH_S = 86_400


def text() -> str:
    """The JSON that Grafana imports."""
    return JSONEncoder(sort_keys=True, indent=2).encode(build()) + "\n"


def build() -> Model:
    board = (
        Dashboard("retentiond")
        .uid("retentiond")
        .tags(["kafka", "retention"])
        .description("Consumed retention for Apache Kafka")
        .time("now-24h", "now")
        .refresh("1m")
        .readonly()
        .with_variable(DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
        .with_variable(_labels("instance", "retentiond_build_info"))
        .with_variable(_labels("topic", f"retentiond_partitions{{{DAEMON}}}"))
    )
    for add in (_health, _deletion, _holds, _disks, _work):
        add(board)
    built = board.build()
    for number, panel in enumerate(built.panels or [], start=1):
        panel.id_val = number
    return built


def _labels(name: str, series: str) -> QueryVariable:
    return (
        QueryVariable(name)
        .label(name.capitalize())
        .datasource(DATASOURCE)
        .query(f"label_values({series}, {name})")
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .multi(True)
        .include_all(True)
        .all_value(".*")
    )


def _health(board: Dashboard) -> None:
    board.with_row(Row("Is it healthy?"))
    board.with_panel(
        figure(
            About("Unready", "short", "Daemons without a complete cycle in three intervals."),
            Query(f"count(retentiond_ready{{{DAEMON}}} == 0) or vector(0)"),
            steps=((1, BAD),),
        )
    ).with_panel(
        figure(
            About("Last complete cycle", "s", "How long ago all evidence was complete."),
            Query(f"time() - min(retentiond_last_complete_cycle_timestamp_seconds{{{DAEMON}}})"),
            steps=((900, WARN), (3600, BAD)),
        )
    ).with_panel(
        figure(
            About("Records deleted", "short", "Within the time shown above."),
            Query(f"sum(increase(retentiond_records_deleted_total{{{TOPIC}}}[$__range]))"),
        )
    ).with_panel(
        figure(
            About("Bytes freed", "bytes", "On the disks of all replicas, in the time shown."),
            Query(f"sum(increase(retentiond_bytes_freed_total{{{TOPIC}}}[$__range]))"),
        )
    ).with_panel(
        figure(
            About("Partitions held", "short", "Nothing is deleted from these, for want of proof."),
            Query(f"sum(topic:retentiond_held_partitions:sum{{{TOPIC}}}) or vector(0)"),
            steps=((1, WARN),),
        )
    ).with_panel(
        figure(
            About("Groups vanished", "short", "Seen before, gone now: their last commits hold."),
            Query(f'sum(retentiond_groups{{{DAEMON}, state="vanished"}}) or vector(0)'),
            steps=((1, WARN),),
        )
    )


def _deletion(board: Dashboard) -> None:
    board.with_row(Row("What does it delete?"))
    board.with_panel(
        graph(
            About("Records deleted", "cps", "By topic, over half an hour."),
            Query(f"topic:retentiond_records_deleted:rate30m{{{TOPIC}}}", "{{topic}}"),
            stacked=True,
        )
    ).with_panel(
        graph(
            About("Records that may go and are still there", "short", "After the last cycle."),
            Query(f"sum by (topic) (retentiond_reclaimable_records{{{TOPIC}}})", "{{topic}}"),
        )
    ).with_panel(
        graph(
            About("Deletions by outcome", "short", "Partitions, within an hour."),
            Query(
                f"sum by (outcome) (increase(retentiond_deletions_total{{{TOPIC}}}[1h]))",
                "{{outcome}}",
            ),
        )
    ).with_panel(
        graph(
            About("Records there", "short", "From the log start to the high watermark."),
            Query(f"sum by (topic) (topic:retentiond_records:sum{{{TOPIC}}})", "{{topic}}"),
            stacked=True,
        )
    )


def _holds(board: Dashboard) -> None:
    board.with_row(Row("Who holds what?"))
    board.with_panel(
        bars(
            About(
                "Time until Kafka deletes what is unread",
                "s",
                "By Kafka's own retention; the 20 groups in greatest danger. Negative is loss.",
            ),
            Query(
                f"bottomk(20, retentiond_forced_retention_margin_seconds{{{TOPIC}}})",
                "{{group}} on {{topic}}",
            ),
            steps=((LOST_S, BAD), (LITTLE_S, WARN), (ENOUGH_S, GOOD)),
        )
    ).with_panel(
        graph(
            About("Bytes that one group alone keeps", "bytes", "By estimate, on all replicas."),
            Query(
                f"topk(10, group:retentiond_kept_bytes:sum{{{TOPIC}}})", "{{group}} on {{topic}}"
            ),
        )
    ).with_panel(
        graph(
            About("Records that one group alone keeps", "short", "On the partitions it binds."),
            Query(
                f"topk(10, retentiond_binding_group_lag_records{{{TOPIC}}})",
                "{{group}} on {{topic}}",
            ),
        )
    ).with_panel(
        graph(
            About("Partitions by reason", "short", "What the last plan decided about each, why."),
            Query(
                f"sum by (verdict, reason) (retentiond_partitions{{{TOPIC}}})",
                "{{verdict}}: {{reason}}",
            ),
            stacked=True,
        )
    ).with_panel(
        graph(
            About("Unread by the slowest group", "short", "High watermark less smallest commit."),
            Query(
                f"sum by (topic) (retentiond_high_watermark{{{TOPIC}}}"
                f" - retentiond_min_committed_offset{{{TOPIC}}})",
                "{{topic}}",
            ),
        )
    ).with_panel(
        graph(
            About("Groups", "short", "Of the whole cluster."),
            Query(f"sum by (kind, state) (retentiond_groups{{{DAEMON}}})", "{{kind}}, {{state}}"),
            stacked=True,
        )
    )


def _disks(board: Dashboard) -> None:
    board.with_row(Row("What do the disks say?"))
    board.with_panel(
        graph(
            About("Size of the topics", "bytes", "On the disks of all replicas."),
            Query(f"sum by (topic) (retentiond_log_size_bytes{{{TOPIC}}})", "{{topic}}"),
            stacked=True,
        )
    ).with_panel(
        graph(
            About("Predicted to be freed", "bytes", "By the last plan's deletions."),
            Query(f"sum by (topic) (retentiond_predicted_bytes{{{TOPIC}}})", "{{topic}}"),
        )
    ).with_panel(
        graph(
            About("Orphans", "bytes", "Partitions on a disk where the cluster has none."),
            Query(
                f"sum by (broker, log_dir) "
                f"(retentiond_orphan_log_partition_size_bytes{{{DAEMON}}})",
                "broker {{broker}}, {{log_dir}}",
            ),
        )
    ).with_panel(
        graph(
            About("Partitions whose retention stands still", "short", "By cause (KAFKA-9087)."),
            Query(
                f"sum by (cause) (retentiond_stuck_retention_partitions{{{TOPIC}}}) or vector(0)",
                "{{cause}}",
            ),
        )
    )


def _work(board: Dashboard) -> None:
    board.with_row(Row("How does it work?"))
    board.with_panel(
        graph(
            About("Cycles by result", "short", "Within an hour."),
            Query(
                f"sum by (result) (increase(retentiond_cycles_total{{{DAEMON}}}[1h]))",
                "{{result}}",
            ),
            span=8,
        )
    ).with_panel(
        graph(
            About("Seconds of a cycle by step", "s", "Means over half an hour."),
            Query(
                f"sum by (step) (rate(retentiond_cycle_duration_seconds_sum{{{DAEMON}}}[30m]))"
                f" / sum by (step)"
                f" (rate(retentiond_cycle_duration_seconds_count{{{DAEMON}}}[30m]))",
                "{{step}}",
            ),
            span=8,
        )
    ).with_panel(
        graph(
            About("Kafka's answers", "s", "The slowest twentieth, by request."),
            Query(
                "histogram_quantile(0.95, sum by (le, api)"
                f" (rate(retentiond_kafka_request_duration_seconds_bucket{{{DAEMON}}}[30m])))",
                "{{api}}",
            ),
            span=8,
        )
    )
