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

from devkit.dashboard.panels import DATASOURCE
from devkit.dashboard.rows import DAEMON, ROWS


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
    for title, panels in ROWS:
        board.with_row(Row(title))
        for made in panels():
            board.with_panel(made)
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
