"""What became of the runs of `scripts/demo pressure`: in a sentence, and how full the disks were
as SVG."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from retentiond.tell.charts import Chart, Look

LOOK = Look(900, 360, text=13, left=60, most_times=10, is_alone=True)


@dataclass
class Run:
    """What became of one of the two. ``samples``: seconds since the first record, and the part of
    the disk that was used, in percent; all runs take them at the same intervals. ``failed_at``:
    when the producer failed."""

    name: str
    samples: list[tuple[float, float]]
    written: int = 0
    read: int = 0
    deleted: int = 0
    gaps: int = 0
    failed_at: float | None = None
    why: str = ""

    def __str__(self) -> str:
        end = "never failed" if self.failed_at is None else f"failed after {self.failed_at:.0f} s"
        fullest = max((used for _, used in self.samples), default=0.0)
        return (
            f"{self.name}: the producer {end}; {self.written:,} records written, {self.read:,} "
            f"read, {self.deleted:,} deleted, {self.gaps} gaps; at most {fullest:.0f}% of the disk "
            "used"
        )


def draw(runs: Sequence[Run], limits: Mapping[str, float]) -> str:
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
