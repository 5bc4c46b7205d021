"""How far a partition is consumed: its smallest and its largest commit, and whose they are.

Invariant: an aggregate ignores nulls, so the commits that could not be read are counted apart,
and `retentiond.plan.bounds` takes no minimum where one is missing.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def commits_by_partition(commits: DataFrame) -> DataFrame:
    """What the counted commits on a partition say. A tie goes to the first group by name.

    Grain: partition_id, only partitions with a commit. Columns: partition_id; commits,
    readable_commits: long; min_offset?: long, min_group_id?: int; max_offset?: long,
    max_group_id?: int; unread_group_id?: int, the first by name whose commit is null.
    """
    readable = F.col("offset").isNotNull()
    smallest = F.struct("offset", "group_id")
    largest = F.struct("offset", (-F.col("group_id")).alias("minus_group_id"))
    return (
        commits.groupBy("partition_id")
        .agg(
            F.count("group_id").alias("commits"),
            F.count("offset").alias("readable_commits"),
            F.min(F.when(readable, smallest)).alias("smallest"),
            F.max(F.when(readable, largest)).alias("largest"),
            F.min(F.when(~readable, F.col("group_id"))).alias("unread_group_id"),
        )
        .select(
            "partition_id",
            "commits",
            "readable_commits",
            F.col("smallest.offset").alias("min_offset"),
            F.col("smallest.group_id").alias("min_group_id"),
            F.col("largest.offset").alias("max_offset"),
            (-F.col("largest.minus_group_id")).alias("max_group_id"),
            "unread_group_id",
        )
    )


def commits_of_failed(commits: DataFrame, groups: DataFrame) -> DataFrame:
    """What was read of groups that failed as a whole; it shows in the plan and bounds nothing.

    Grain: partition_id, failed_group_id. Columns: those and failed_group_offset?: long.
    """
    failed = groups.where("failed").select("group_id")
    return commits.join(F.broadcast(failed), on="group_id", how="inner").select(
        "partition_id",
        F.col("group_id").alias("failed_group_id"),
        F.col("offset").alias("failed_group_offset"),
    )
