"""When log directories would have been under pressure, by what was recorded of their disks.

The past is replayed under the tried policy without any pressure. Where that leaves a disk too
little usable space, its log directories are under pressure.

Invariant: as far as the record tells, that is all the pressure that there could have been. Pressure
only deletes sooner, so with it no disk ever has less usable space than here. A directory is under
pressure if it had less than ``below_free`` at some moment and has not reached ``until_free`` since.
Both are then true here as well.

By moments, which are those of the entries: what a disk had between two of them is not recorded. The
period begins without pressure, as a first start of the daemon does.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from retentiond.config.disk_pressure import DiskPressure
from retentiond.history.ask.past import Timeline
from retentiond.history.ask.readers import MomentRange
from retentiond.history.ask.replay import LogDirTimes, Replay
from retentiond.history.ask.simulated_disks import (
    freed_by_log_dir,
    recorded_space,
    simulated_space,
    with_freed,
)


def times_under_pressure(replay: Replay, rules: DiskPressure) -> tuple[LogDirTimes, ...]:
    """Of each log directory whose space was recorded, by broker and path; empty where none was.

    ``replay``: of all topics, because those that are not asked about lie on the same disks, too.
    Raises what Spark raises.
    """
    freed = freed_by_log_dir(with_freed(replay.starts()))
    space = simulated_space(recorded_space(replay), freed)
    times = pressure_runs(with_pressure(space, rules.below_free, rules.until_free))
    return _by_log_dir(times.toArrow().to_pylist(), replay.past.timeline)


def with_pressure(space: DataFrame, below_free: float, until_free: float) -> DataFrame:
    """``space`` is of `simulated_space`; the lines are percent. Grain and columns: those of
    ``space``; is_pressed: boolean. What lies between the lines is as the moment before."""
    crossed = (
        f"CASE WHEN simulated_bytes < total_bytes * {below_free}D / 100 THEN true"
        f" WHEN simulated_bytes >= total_bytes * {until_free}D / 100 THEN false END"
    )
    until_now = (
        Window.partitionBy("log_dir").orderBy("order").rowsBetween(Window.unboundedPreceding, 0)
    )
    last = F.last("crossed", ignorenulls=True).over(until_now)
    return (
        space.withColumn("crossed", F.expr(crossed))
        .withColumn("is_pressed", F.coalesce(last, F.lit(False)))
        .drop("crossed")
    )


def pressure_runs(pressed: DataFrame) -> DataFrame:
    """``pressed`` is of `with_pressure`. Grain: broker, path, run; one more of each directory,
    without a run, for all its moments without pressure. Columns: those; run?, first, last: long,
    the orders of the first moment and the last."""
    in_order = Window.partitionBy("log_dir").orderBy("order")
    begins = F.expr("CAST(is_pressed AND NOT was_pressed AS INT)")
    return (
        pressed.withColumn("was_pressed", F.lag("is_pressed", 1, False).over(in_order))
        .withColumn(
            "run",
            F.sum(begins).over(in_order.rowsBetween(Window.unboundedPreceding, 0)),
        )
        .withColumn("run", F.expr("IF(is_pressed, run, NULL)"))
        .groupBy("broker", "path", "run")
        .agg(F.min("order").alias("first"), F.max("order").alias("last"))
    )


def _by_log_dir(rows: list[dict[str, Any]], timeline: Timeline) -> tuple[LogDirTimes, ...]:
    by_log_dir: dict[tuple[int, str], list[MomentRange]] = {}
    for row in sorted(rows, key=lambda row: (row["broker"], row["path"], row["first"])):
        times = by_log_dir.setdefault((row["broker"], row["path"]), [])
        if row["run"] is not None:
            times.append(MomentRange(timeline.number(row["first"]), timeline.number(row["last"])))
    return tuple(LogDirTimes(*key, tuple(times)) for key, times in by_log_dir.items())
