"""The kinds of panels that the dashboard is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from grafana_foundation_sdk.builders import bargauge, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.builders.common import (
    ReduceDataOptions,
    StackingConfig,
    VizLegendOptions,
    VizTooltipOptions,
)
from grafana_foundation_sdk.builders.dashboard import DashboardLink, ThresholdsConfig
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.common import (
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    StackingMode,
    TooltipDisplayMode,
    VizOrientation,
)
from grafana_foundation_sdk.models.dashboard import DashboardLink as Link
from grafana_foundation_sdk.models.dashboard import (
    DashboardLinkType,
    DashboardRangeMapOptions,
    DataSourceRef,
    DataTransformerConfig,
    RangeMap,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMappingResult,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

DATASOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")

WIDTH = 24
"""Of a row, in Grafana's units."""

GOOD, WARN, BAD = "green", "orange", "red"

DAEMON = 'job=~"$job", instance=~"$instance"'
"""The daemons that are chosen. A series of every target has these labels, ``up`` too."""

Steps = Sequence[tuple[float, str]]
"""From which value on a figure has which colour."""

DOWN = RangeMap(
    DashboardRangeMapOptions(to=-0.5, result=ValueMappingResult(text="down", color=BAD))
)
"""How `_of_live_daemons` says that a daemon is down."""


@dataclass(frozen=True, slots=True)
class Query:
    """PromQL and what its series are called, with labels as ``{{topic}}``."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class About:
    """A panel's title, its unit in Grafana's words, a sentence for who asks what it means, and the
    alert whose section of the runbook it leads to."""

    title: str
    unit: str
    description: str
    alert: str = ""

    @property
    def links(self) -> list[Builder[Link]]:
        if not self.alert:
            return []
        return [runbook(self.alert, f"#{self.alert.lower()}")]


def runbook(title: str, anchor: str = "") -> DashboardLink:
    link = DashboardLink(title).type(DashboardLinkType.LINK)
    return link.url(f"${{runbook}}{anchor}").target_blank(True)


def _of_live_daemons(expr: str) -> str:
    """The figure, as long as every chosen daemon is up: what one of them has not told is missing
    from it. Otherwise a negative number: how many are down; -1 where there is none at all."""
    up = f"up{{{DAEMON}}}"
    return f"({expr}) and on () (min({up}) == 1) or -count({up} == 0) or -absent({up})"


Begun = TypeVar(
    "Begun", stat.Panel, statetimeline.Panel, table.Panel, timeseries.Panel, bargauge.Panel
)


def _begun(panel: Begun, about: About, span: int, height: int) -> Begun:
    """With what every kind has."""
    panel.title(about.title).description(about.description).links(about.links)
    panel.datasource(DATASOURCE).span(span).height(height)
    return panel


def figure(about: About, query: Query, span: int = 4, *, steps: Steps = ()) -> stat.Panel:
    """One number, by a query that gives one. ``steps``: from which value on it has which colour;
    below the first, green. While a daemon is down it says so, in red."""
    return (
        _begun(stat.Panel(), about, span, 4)
        .unit(about.unit)
        .reduce_options(ReduceDataOptions().calcs(["lastNotNull"]))
        .mappings([DOWN])
        .thresholds(_thresholds(GOOD, steps))
        .with_target(_target(Query(_of_live_daemons(query.expr), query.legend), "A").instant())
    )


def states(
    about: About, query: Query, names: Sequence[tuple[str, str]], *, span: int
) -> statetimeline.Panel:
    """What something was over time. ``names``: each state's, from 0 on, with its colour."""
    results = {
        str(number): ValueMappingResult(text=name, color=color, index=number)
        for number, (name, color) in enumerate(names)
    }
    return (
        _begun(statetimeline.Panel(), about, span, 7)
        .mappings([ValueMap(results)])
        .with_target(_target(query, "A").range())
    )


def listing(about: About, query: Query, columns: Sequence[str], *, span: int) -> table.Panel:
    """Labels of the series that there are now, a row for each."""
    hidden = ("Time", "Value", "__name__", "job", "exported_kafka_cluster")
    return (
        _begun(table.Panel(), about, span, 7)
        .with_target(_target(query, "A").instant().format(PromQueryFormat.TABLE))
        .with_transformation(
            DataTransformerConfig(
                id_val="organize",
                options={
                    "excludeByName": dict.fromkeys(hidden, True),
                    "indexByName": {name: place for place, name in enumerate(columns)},
                },
            )
        )
    )


def graph(about: About, *queries: Query, span: int = 12, stacked: bool = False) -> timeseries.Panel:
    """Lines over time, the largest first in the legend."""
    panel = (
        _begun(timeseries.Panel(), about, span, 8)
        .unit(about.unit)
        .fill_opacity(10)
        .legend(
            VizLegendOptions()
            .display_mode(LegendDisplayMode.TABLE)
            .placement(LegendPlacement.BOTTOM)
            .show_legend(True)
            .calcs(["lastNotNull"])
            .sort_by("Last *")
            .sort_desc(True)
        )
        .tooltip(VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING))
    )
    if stacked:
        panel.stacking(StackingConfig().mode(StackingMode.NORMAL))
    for letter, query in zip("ABCD", queries, strict=False):
        panel.with_target(_target(query, letter).range())
    return panel


def bars(about: About, query: Query, *, steps: Steps, span: int = 12) -> bargauge.Panel:
    """Today's figures side by side. ``steps`` as in `figure`, but below the first, red."""
    return (
        _begun(bargauge.Panel(), about, span, 8)
        .unit(about.unit)
        .orientation(VizOrientation.HORIZONTAL)
        .reduce_options(ReduceDataOptions().calcs(["lastNotNull"]))
        .thresholds(_thresholds(BAD, steps))
        .with_target(_target(query, "A").instant())
    )


def _thresholds(first: str, steps: Steps) -> ThresholdsConfig:
    return (
        ThresholdsConfig()
        .mode(ThresholdsMode.ABSOLUTE)
        .steps(
            [Threshold(value=None, color=first)]
            + [Threshold(value=value, color=color) for value, color in steps]
        )
    )


def _target(query: Query, letter: str) -> Dataquery:
    return (
        Dataquery()
        .expr(query.expr)
        .legend_format(query.legend)
        .ref_id(letter)
        .datasource(DATASOURCE)
    )
