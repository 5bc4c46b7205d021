"""The kinds of panels that the dashboard is made of."""

from __future__ import annotations

from dataclasses import dataclass

from grafana_foundation_sdk.builders import bargauge, stat, timeseries
from grafana_foundation_sdk.builders.common import (
    ReduceDataOptions,
    StackingConfig,
    VizLegendOptions,
    VizTooltipOptions,
)
from grafana_foundation_sdk.builders.dashboard import ThresholdsConfig
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.models.common import (
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    StackingMode,
    TooltipDisplayMode,
    VizOrientation,
)
from grafana_foundation_sdk.models.dashboard import DataSourceRef, Threshold, ThresholdsMode

DATASOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")

WIDTH = 24
"""Of a row, in Grafana's units."""

GOOD, WARN, BAD = "green", "orange", "red"


@dataclass(frozen=True, slots=True)
class Query:
    """PromQL and what its series are called, with labels as ``{{topic}}``."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class About:
    """A panel's title, its unit in Grafana's words, and a sentence for who asks what it means."""

    title: str
    unit: str
    description: str


def figure(
    about: About, query: Query, span: int = 4, *, steps: tuple[tuple[float, str], ...] = ()
) -> stat.Panel:
    """One number. ``steps``: from which value on it has which colour; below the first, green."""
    return (
        stat.Panel()
        .title(about.title)
        .description(about.description)
        .unit(about.unit)
        .span(span)
        .height(4)
        .datasource(DATASOURCE)
        .reduce_options(ReduceDataOptions().calcs(["lastNotNull"]))
        .thresholds(_thresholds(GOOD, steps))
        .with_target(_target(query, "A"))
    )


def graph(about: About, *queries: Query, span: int = 12, stacked: bool = False) -> timeseries.Panel:
    """Lines over time, the largest first in the legend."""
    panel = (
        timeseries.Panel()
        .title(about.title)
        .description(about.description)
        .unit(about.unit)
        .span(span)
        .height(8)
        .datasource(DATASOURCE)
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
        panel.with_target(_target(query, letter))
    return panel


def bars(
    about: About, query: Query, *, steps: tuple[tuple[float, str], ...], span: int = 12
) -> bargauge.Panel:
    """Today's figures side by side. ``steps`` as in `figure`, but below the first, red."""
    return (
        bargauge.Panel()
        .title(about.title)
        .description(about.description)
        .unit(about.unit)
        .span(span)
        .height(8)
        .datasource(DATASOURCE)
        .orientation(VizOrientation.HORIZONTAL)
        .reduce_options(ReduceDataOptions().calcs(["lastNotNull"]))
        .thresholds(_thresholds(BAD, steps))
        .with_target(_target(query, "A"))
    )


def _thresholds(first: str, steps: tuple[tuple[float, str], ...]) -> ThresholdsConfig:
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
        .range()
    )
