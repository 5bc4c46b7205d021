"""How full the disks of `scripts/demo pressure` were, as SVG."""

from collections.abc import Sequence
from typing import Protocol

import pygal
from pygal.style import Style

from retentiond.tell.charts import PALETTE

STYLE = Style(
    background="white",
    plot_background="white",
    font_family="system-ui, sans-serif",
    label_font_size=12,
    major_label_font_size=12,
    legend_font_size=13,
    title_font_size=15,
    opacity="1",
    colors=(PALETTE[3], PALETTE[0]),
)
"""It stands in a page as a picture, which does not know whether the page is light or dark."""


class Drawn(Protocol):
    """``samples``: seconds, and percent of the disk that is used."""

    name: str
    samples: list[tuple[float, float]]
    failed_at: float | None


def draw(runs: Sequence[Drawn]) -> str:
    """One line a run, up to its end."""
    chart = pygal.XY(
        style=STYLE,
        width=900,
        height=360,
        legend_at_bottom=True,
        legend_at_bottom_columns=1,
        truncate_legend=-1,
        stroke_style={"width": 2.5},
        title="Part of the disk that is used",
        x_title="seconds",
        dots_size=0,
        range=(0, 100),
        y_labels=[0, 20, 40, 60, 80, 100],
        value_formatter=lambda value: f"{value:.0f}%",
        x_value_formatter=lambda value: f"{value:.0f}",
        disable_xml_declaration=True,
        js=(),
    )
    for run in runs:
        end = "" if run.failed_at is None else f": the producer fails after {run.failed_at:.0f} s"
        chart.add(f"{run.name}{end}", run.samples)
    return str(chart.render(is_unicode=True))
