"""When the log directories will be full: as they are, and in other courses of the past."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from retentiond.disks.broker_disks import trend
from retentiond.formatting import DAY_MS, HOUR_MS
from retentiond.history.ask.past import Moment, Timeline
from retentiond.history.ask.replay import Replay
from retentiond.history.ask.report_figures import POINTS, LogDirFilling, Point, World
from retentiond.history.ask.simulated_disks import (
    freed_by_log_dir,
    recorded_space,
    simulated_space,
)
from retentiond.history.schema import RowKind

Usable: TypeAlias = "Mapping[tuple[int, str], Sequence[tuple[int, float]]]"
"""By broker and path: at which times of the last day how many bytes are usable."""


def last_day(timeline: Timeline) -> Sequence[Moment]:
    """The moments of the period's last day."""
    last = timeline.period[-1]
    return [each for each in timeline.period if last.elapsed_ms - each.elapsed_ms <= DAY_MS]


def simulated_usable(replay: Replay, freed: DataFrame) -> Usable:
    """``freed``: see `freed_by_log_dir`, of the last day. Empty where the record doesn't tell where
    any replica lies."""
    timeline = replay.past.timeline
    since = timeline.order(last_day(timeline)[0])
    space = simulated_space(recorded_space(replay), freed_by_log_dir(freed))
    of_the_day = space.where(F.col("order") >= since).orderBy("order")
    rows = of_the_day.toArrow().to_pylist()
    if all(row["freed_bytes"] is None for row in rows):
        return {}
    found: dict[tuple[int, str], list[tuple[int, float]]] = {}
    for row in rows:
        elapsed_ms = timeline.moments[timeline.number(row["order"])].elapsed_ms
        found.setdefault((row["broker"], row["path"]), []).append(
            (elapsed_ms, row["simulated_bytes"])
        )
    return found


def full_ms(points: Sequence[tuple[int, float]], at_ms: int) -> int | None:
    """When a disk is full if it goes on like that; ``at_ms``: when the last point was seen. One
    that has been full within the points is since then."""
    (first, _), (elapsed, usable) = points[0], points[-1]
    if usable <= 0:
        return at_ms - elapsed + next(at for at, free in points if free <= 0)
    taken_per_ms = -trend(points)
    fills = taken_per_ms > 0 and elapsed - first >= HOUR_MS
    return at_ms + int(usable / taken_per_ms) if fills else None


def log_dirs_of(
    replay: Replay, simulated: Mapping[World, Usable]
) -> list[tuple[LogDirFilling, list[Point]]]:
    timeline = replay.past.timeline
    moments = {each.entry.entry: each for each in timeline.period}
    rows = replay.rows(
        RowKind.LOG_DIR,
        ["broker", "log_dir", "total_bytes", "usable_bytes"],
    ).orderBy("broker", "log_dir", "entry")
    width = max(1, -(-len(moments) // POINTS))
    by_dir: dict[tuple[int, str], list[tuple[int, int, int, int]]] = {}
    for row in rows.toArrow().to_pylist():
        moment = moments.get(row["entry"])
        if moment is not None and row["usable_bytes"] is not None and row["total_bytes"]:
            by_dir.setdefault((row["broker"], row["log_dir"]), []).append(
                (moment.elapsed_ms, moment.entry.at_ms, row["total_bytes"], row["usable_bytes"])
            )
    log_dirs = []
    for (broker, log_dir), readings in by_dir.items():
        elapsed, at_ms, total, usable = readings[-1]
        lately = [(at, free) for at, _, _, free in readings if elapsed - at <= DAY_MS]
        filling = LogDirFilling(
            *(broker, log_dir, total, usable),
            full_ms(lately, at_ms),
            elapsed - lately[0][0],
            {
                world: full_ms(by_log_dir[broker, log_dir], at_ms)
                for world, by_log_dir in simulated.items()
                if (broker, log_dir) in by_log_dir
            },
        )
        points = [Point(at, 100 * (1 - free / size)) for _, at, size, free in readings[::width]]
        log_dirs.append((filling, points))
    return log_dirs
