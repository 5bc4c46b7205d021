"""The dashboard: is it healthy, what does it delete, who holds what, and what do the disks say."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import (
    Dashboard,
    DatasourceVariable,
    QueryVariable,
    Row,
    TextBoxVariable,
)
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import (
    AnnotationContainer,
    AnnotationQuery,
    VariableRefresh,
)
from grafana_foundation_sdk.models.dashboard import Dashboard as Model

from devkit.dashboard.panels import BAD, DAEMON, DATASOURCE, GOOD, WARN, runbook
from devkit.dashboard.rows import OWNED, rows

RUNBOOK = "docs/runbook.md"
"""Where the runbook is: what publishes it elsewhere replaces this text, as in the alerts."""


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
        .with_variable(_labels("Job", "job", "retentiond_build_info"))
        .with_variable(
            _labels("Cluster", "kafka_cluster", 'retentiond_cluster_info{job=~"$job"}')
            .name("cluster")
            .all_value(".*")  # also those without a name
        )
        # A daemon that is down has no series but `up`.
        .with_variable(
            _labels(
                "Instance",
                "instance",
                '{__name__=~"up|retentiond_cluster_info", job=~"$job", kafka_cluster=~"$cluster"}',
            )
        )
        .with_variable(
            _labels("Owner", "owner", f"retentiond_topic_owner_info{{{DAEMON}}}").all_value(".*")
        )
        .with_variable(
            _labels(
                "Topic",
                "topic",
                '{__name__=~"retentiond_partitions|retentiond_topic_owner_info", '
                f"{DAEMON}, {OWNED}}}",
            ).all_value(".*")
        )
        .with_variable(TextBoxVariable("runbook").label("Runbook").default_value(RUNBOOK))
        .link(runbook("Runbook"))
    )
    for title, panels in rows():
        board.with_row(Row(title))
        for made in panels:
            board.with_panel(made)
    built = board.build()
    built.annotations = AnnotationContainer(
        [
            _Mark("Deletions", GOOD, _RARE_DELETIONS),
            _Mark("Pauses", WARN, f"retentiond_paused{{{DAEMON}}}"),
            _Mark("Starts", BAD, f"time() - retentiond_started_timestamp_seconds{{{DAEMON}}} < 60"),
        ]
    )
    for number, panel in enumerate(built.panels or [], start=1):
        panel.id_val = number
    return built


_RARE_DELETIONS = (
    f"sum without (topic) (increase(retentiond_records_deleted_total{{{DAEMON}}}[5m])) > 0"
    " unless sum without (topic, outcome)"
    f' (increase(retentiond_deletions_total{{{DAEMON}, outcome="deleted"}}[1d])) > 24'
)
"""Where a daemon deletes in every cycle a mark says nothing, and hides the graph."""


class _Mark(AnnotationQuery):
    """Marks on every graph where the query is above 0, or has a series, daemon by daemon."""

    def __init__(self, name: str, color: str, expr: str) -> None:
        found = f"max by (kafka_cluster, instance) ({expr}) > 0"
        super().__init__(name, DATASOURCE, icon_color=color, expr=found)

    def to_json(self) -> dict[str, object]:
        title = f"{self.name}: {{{{kafka_cluster}}}} {{{{instance}}}}"
        return {**super().to_json(), "step": "60s", "titleFormat": title}


def _labels(shown: str, name: str, series: str) -> QueryVariable:
    """One of a label's values, or several, or all that there are."""
    return (
        QueryVariable(name)
        .label(shown)
        .datasource(DATASOURCE)
        .query(f"label_values({series}, {name})")
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .multi(True)
        .include_all(True)
    )
