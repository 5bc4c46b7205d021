"""When the log directories will be full."""

from __future__ import annotations

from collections.abc import Sequence

from retentiond.disks.broker_disks import trend
from retentiond.formatting import DAY_MS, HOUR_MS
from retentiond.history.ask.replay import Replay
from retentiond.history.ask.report_figures import POINTS, LogDirFilling, Point
from retentiond.history.schema import RowKind


def full_ms(points: Sequence[tuple[int, float]], at_ms: int) -> int | None:
    """When a disk is full if it goes on like that. ``points``: at which times of the last day how
    many bytes were usable; ``at_ms``: when the last one was seen. One that has been full within the
    points is since then."""
    (first, _), (elapsed, usable) = points[0], points[-1]
    if usable <= 0:
        return at_ms - elapsed + next(at for at, free in points if free <= 0)
    taken_per_ms = -trend(points)
    fills = taken_per_ms > 0 and elapsed - first >= HOUR_MS
    return at_ms + int(usable / taken_per_ms) if fills else None


def log_dirs_of(replay: Replay) -> list[tuple[LogDirFilling, list[Point]]]:
    """Each log directory, and the percent of it that was used."""
    moments = {each.entry.entry: each for each in replay.past.timeline.period}
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
            *(broker, log_dir, total, usable), full_ms(lately, at_ms), elapsed - lately[0][0]
        )
        points = [Point(at, 100 * (1 - free / size)) for _, at, size, free in readings[::width]]
        log_dirs.append((filling, points))
    return log_dirs
