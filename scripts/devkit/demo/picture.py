"""How full the disks of `scripts/demo pressure` were, as SVG."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Protocol

from retentiond.tell.charts import Chart, Look

LOOK = Look(900, 360, text=13, left=60, most_times=10, is_alone=True)


class Drawn(Protocol):
    """``samples``: seconds, and percent of the disk that is used; all runs take them at the same
    intervals."""

    name: str
    samples: list[tuple[float, float]]
    failed_at: float | None


def draw(runs: Sequence[Drawn], limits: Mapping[str, float]) -> str:
    """One line a run, up to its end. ``limits``: by setting, the percentage at which it applies."""
    ends = [
        "" if run.failed_at is None else f": the producer fails after {run.failed_at:.0f} s"
        for run in runs
    ]
    used = zip_longest(*([percent for _, percent in run.samples] for run in runs))
    names = [f"{run.name}{end}" for run, end in zip(runs, ends, strict=True)]
    longest = max((run.samples for run in runs), key=len)
    chart = Chart(
        "Part of the disk that is used",
        [round(1000 * seconds) for seconds, _ in longest],
        [*zip(names, zip(*used, strict=True), strict=True)],
        lambda percent: f"{percent:.0f} %",
        least_top=100,
        limits=limits,
        say_time=lambda time_ms, _: f"{time_ms // 1000} s",
    )
    # A picture in a page does not know whether the page is light or dark.
    svg = str(chart.svg(LOOK, chart.title))
    return svg.replace("<svg ", '<svg style="background: #fff" ', 1)
