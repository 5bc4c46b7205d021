"""How far a partition is consumed: its smallest and its largest commit, and whose they are.

Invariant: an aggregate ignores nulls, so the commits that could not be read are counted apart,
and `retentiond.plan.bounds` takes no minimum where one is missing.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

INT64_MAX = 2**63 - 1


def commits_by_partition(commits: DataFrame, group_count: int) -> DataFrame:
    """What the counted commits on a partition say. A tie goes to the first group by name.

    ``group_count``: every group_id is below it. Offset and group go through the aggregates as
    one number, because Spark would sort all commits for a pair of them. Where offset and group
    don't fit into it (no log is that long), the offset stays right, and any of the groups at it
    is named.

    Grain: partition_id, only partitions with a commit. Columns: partition_id; commits,
    readable_commits: long; min_offset?: long, min_group_id?: int; max_offset?: long,
    max_group_id?: int; unread_group_id?: int, the first by name whose commit is null.
    """
    last = group_count - 1
    base = f"least(offset, {INT64_MAX // group_count - 1}) * {group_count}L"
    return (
        commits.groupBy("partition_id")
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
            "partition_id",
            "commits",
            "readable_commits",
            "min_offset",
            f"CAST(smallest % {group_count} AS INT) AS min_group_id",
            "max_offset",
            f"CAST({last} - largest % {group_count} AS INT) AS max_group_id",
            "unread_group_id",
        )
    )


def commits_of_failed(commits: DataFrame, failed: DataFrame) -> DataFrame:
    """What was read of groups that failed as a whole; it shows in the plan and bounds nothing.

    Grain: partition_id, failed_group_id. Columns: those and failed_group_offset?: long.
    """
    return commits.join(F.broadcast(failed), on="group_id", how="inner").selectExpr(
        "partition_id", "group_id AS failed_group_id", "offset AS failed_group_offset"
    )
