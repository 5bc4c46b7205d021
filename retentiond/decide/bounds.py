"""What bounds a deletion: the commits on a partition, the retention and the end.

    cutoff = min(min committed offset, retention offset, end)

Invariant (KIP-68's "-1"): a bound that is not fully known is null, and so is what follows from it.
Spark's aggregates and its `least` ignore nulls: so commits that could not be read are counted, no
minimum is taken where one is missing, and `least` is not used alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

INT64_MAX = 2**63 - 1


def commits_by_partition(
    commits: DataFrame, group_count: int, grain: Sequence[str] = ("partition_id",)
) -> DataFrame:
    """What the counted commits on a partition say. A tie goes to the first group by name.

    ``group_count``: every group_id is below it. Offset and group go through the aggregates as
    one number, because Spark would sort all commits for a pair of them. Where offset and group
    don't fit into it (no log is that long), the offset stays right, and any of the groups at it
    is named.

    Grain: partition_id, or what else tells partitions apart; only those with a commit. Columns:
    the grain; commits, readable_commits: long; min_offset?: long, min_group_id?: int;
    max_offset?: long, max_group_id?: int; unread_group_id?: int, the first by name whose commit
    is null.
    """
    last = group_count - 1
    base = f"least(offset, {INT64_MAX // group_count - 1}) * {group_count}L"
    return (
        commits.groupBy(*grain)
        .agg(
            F.expr("count(group_id) AS commits"),
            F.expr("count(offset) AS readable_commits"),
            F.expr("min(offset) AS min_offset"),
            F.expr("max(offset) AS max_offset"),
            # `least` ignores a null, so a commit without an offset has to be left out by name.
            F.expr(f"min(IF(offset IS NULL, NULL, {base} + group_id)) AS smallest"),
            F.expr(f"max(IF(offset IS NULL, NULL, {base} + {last} - group_id)) AS largest"),
            F.expr("min(IF(offset IS NULL, group_id, NULL)) AS unread_group_id"),
        )
        .selectExpr(
            *grain,
            "commits",
            "readable_commits",
            "min_offset",
            f"CAST(smallest % {group_count} AS INT) AS min_group_id",
            "max_offset",
            f"CAST({last} - largest % {group_count} AS INT) AS max_group_id",
            "unread_group_id",
        )
    )


def commits_on_replaced_records(epochs: DataFrame | None, stale: DataFrame | None) -> DataFrame:
    """Who has read records in whose place the log has others (see `EPOCH_SCHEMA`), or may have.

    ``epochs`` and ``stale`` are as in `StarSchema`, without excluded groups; one of
    them at least. Grain: partition_id, only partitions where
    somebody has. Columns: partition_id; replaced_group_id: int, the first by name;
    replaced_offset: long, its commit.
    """
    is_there = "IF(known_epoch = leader_epoch OR shares, end_offset >= offset, end_offset = offset)"
    columns = ("partition_id", "group_id", "offset")
    found = [] if stale is None else [stale.select(*columns)]
    if epochs is not None:
        found.append(epochs.where(f"NOT coalesce({is_there}, false)").select(*columns))
    return (
        reduce(DataFrame.unionAll, found)
        .groupBy("partition_id")
        .agg(
            F.expr("min(group_id) AS replaced_group_id"),
            F.expr("min_by(offset, group_id) AS replaced_offset"),
        )
    )


def commits_of_failed(commits: DataFrame, failed: DataFrame) -> DataFrame:
    """What was read of groups that failed as a whole; it shows in the plan and bounds nothing.

    Grain: partition_id, failed_group_id. Columns: those and failed_group_offset?: long.
    """
    return commits.join(F.broadcast(failed), on="group_id", how="inner").selectExpr(
        "partition_id", "group_id AS failed_group_id", "offset AS failed_group_offset"
    )


def with_bounds(partitions: DataFrame) -> DataFrame:
    """The partitions with end?, min_committed_offset? and cutoff?: long.

    ``partitions`` has last_stable_offset?, high_watermark?, retention_offset?, and the columns
    of `groups_by_topic` and `commits_by_partition`. The smallest commit is the bound only where
    each relevant group has a readable one.
    """
    end = least_of_all("last_stable_offset", "high_watermark")
    min_committed_offset = "IF(readable_commits = groups, min_offset, NULL)"
    cutoff = least_of_all("min_committed_offset", "retention_offset", "end")
    return partitions.selectExpr(
        "*", f"{end} AS end", f"{min_committed_offset} AS min_committed_offset"
    ).selectExpr("*", f"{cutoff} AS cutoff")


def least_of_all(*names: str) -> str:
    """The smallest value; null if one of them is."""
    every_one = " AND ".join(f"{name} IS NOT NULL" for name in names)
    return f"IF({every_one}, least({', '.join(names)}), NULL)"
