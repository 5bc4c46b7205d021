"""How much of each log directory's disk would have been usable under a policy that is tried.

    simulated usable = recorded usable + what the policy would have freed there

A policy frees what a partition had on disk less what it would have had. All replicas count alike,
so each log directory has an equal share of it. It is negative where the policy keeps more.

Where a moment doesn't tell a partition's bytes or log directories, the last moment that did stands
in for it. Before the first one the disk is taken as it was.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from retentiond.history.ask.replay import Replay
from retentiond.history.ask.simulate import SIMULATED_BYTES
from retentiond.history.schema import RowKind

IS_PLAUSIBLE = "total_bytes > 0 AND usable_bytes BETWEEN 0 AND total_bytes"
"""Figures that contradict each other count as unknown, as they do for the daemon."""

SAME_DISK = 0.001
"""The usable bytes of two directories on one disk differ by less than this part of the disk in
every entry. The daemon tells them by readings that follow one another closely, and is stricter."""


def recorded_space(replay: Replay) -> DataFrame:
    """Grain: log_dir, order; the moments of the period that tell it. Columns: log_dir: string, as a
    partition's row writes it; broker: int; path: string; order: long; total_bytes, usable_bytes:
    long."""
    moments = replay.moments().where("weight IS NOT NULL").select("entry", "order")
    return (
        replay.rows(RowKind.LOG_DIR, ["broker", "log_dir", "total_bytes", "usable_bytes"])
        .where(IS_PLAUSIBLE)
        .join(F.broadcast(moments), "entry", "inner")
        .selectExpr(
            "concat(broker, ':', log_dir) AS log_dir",
            "broker",
            "log_dir AS path",
            "order",
            "total_bytes",
            "usable_bytes",
        )
    )


def with_freed(starts: DataFrame) -> DataFrame:
    """``starts`` is of `Replay.starts`. Grain and columns: those; log_dirs?: string, at that moment
    or the last one that tells; freed_bytes?: double, likewise, what the policy would have freed."""
    until_now = (
        Window.partitionBy("log", "topic")
        .orderBy("order")
        .rowsBetween(Window.unboundedPreceding, 0)
    )
    known = starts.withColumn("freed_bytes", F.expr(f"size_bytes - {SIMULATED_BYTES}"))
    return known.withColumns(
        {
            name: F.last(name, ignorenulls=True).over(until_now)
            for name in ("log_dirs", "freed_bytes")
        }
    )


def freed_by_log_dir(freed: DataFrame) -> DataFrame:
    """``freed`` has the columns order, log_dirs and freed_bytes of `with_freed`.

    Grain: log_dir, order. Columns: log_dir: string; order: long; freed_bytes: double, of the
    partitions of which it is known.
    """
    return (
        freed.where("log_dirs IS NOT NULL AND freed_bytes IS NOT NULL")
        .groupBy("order", "log_dirs")
        .agg(F.sum("freed_bytes").alias("freed_bytes"))
        .selectExpr("order", "freed_bytes", "from_json(log_dirs, 'ARRAY<STRING>') AS log_dirs")
        .selectExpr(
            "order", "freed_bytes / size(log_dirs) AS freed_bytes", "explode(log_dirs) AS log_dir"
        )
        .groupBy("log_dir", "order")
        .agg(F.sum("freed_bytes").alias("freed_bytes"))
    )


def simulated_space(space: DataFrame, freed: DataFrame) -> DataFrame:
    """``space`` is of `recorded_space`, ``freed`` of `freed_by_log_dir`. What is freed in one log
    directory is usable in all that lie on its disk.

    Grain and columns: those of ``space``; freed_bytes?: double, null where no partition of the disk
    is known; simulated_bytes: double, what would have been usable.
    """
    on_disk = (
        freed.withColumnRenamed("log_dir", "neighbour")
        .join(F.broadcast(neighbours(space)), "neighbour", "inner")
        .groupBy("log_dir", "order")
        .agg(F.sum("freed_bytes").alias("freed_bytes"))
    )
    return space.join(on_disk, ["log_dir", "order"], "left").selectExpr(
        "log_dir",
        "broker",
        "path",
        "order",
        "total_bytes",
        "usable_bytes",
        "freed_bytes",
        "usable_bytes + coalesce(freed_bytes, 0D) AS simulated_bytes",
    )


def neighbours(space: DataFrame) -> DataFrame:
    """The log directories of one broker that lie on one disk: wherever both are told, its size is
    the same, and so are its usable bytes but for `SAME_DISK`.

    Grain: log_dir, neighbour: string; a directory is its own neighbour.
    """
    other = space.selectExpr(
        "broker",
        "order",
        "log_dir AS neighbour",
        "total_bytes AS other_total",
        "usable_bytes AS other_usable",
    )
    is_one_disk = (
        "total_bytes = other_total"
        f" AND abs(usable_bytes - other_usable) <= {SAME_DISK}D * total_bytes"
    )
    return (
        space.join(other, ["broker", "order"], "inner")
        .groupBy("log_dir", "neighbour")
        .agg(F.expr(f"bool_and({is_one_disk}) AS is_one_disk"))
        .where("is_one_disk")
        .select("log_dir", "neighbour")
    )
