"""Who is silent: relevant groups without a commit on a partition.

Invariant: silence is found from the groups that must have consumed, never from the commits that
are there. The grid of groups and partitions is not spread out for it: a partition with as many
commits as its topic has relevant groups lacks none, and only the others are looked at.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def silent_groups(
    partitions: DataFrame, relevant: DataFrame, commits: DataFrame, remembered: DataFrame | None
) -> DataFrame:
    """The first groups by name that count for a partition and have no commit on it.

    ``partitions`` has partition_id, topic_id, groups?, commits?; the others are without excluded
    groups. Grain: partition_id, only partitions that lack a commit. Columns: partition_id;
    silent_group_id: int; vanished_group_id?: int, the first that once had a commit here.
    """
    pair = ["partition_id", "group_id"]
    lacking = partitions.where("coalesce(groups, 0) > coalesce(commits, 0)").select(
        "partition_id", "topic_id"
    )
    here = F.broadcast(lacking.select("partition_id"))
    present = commits.join(here, on="partition_id", how="left_semi").select(*pair)
    silent = (
        relevant.select("topic_id", "group_id")
        .join(F.broadcast(lacking), on="topic_id", how="inner")
        .join(present, on=pair, how="left_anti")
    )
    if remembered is None:
        silent = silent.selectExpr("*", "false AS known")
    else:
        known = remembered.join(here, on="partition_id", how="left_semi")
        silent = silent.join(known.selectExpr(*pair, "true AS known"), on=pair, how="left")
    return silent.groupBy("partition_id").agg(
        F.expr("min(group_id) AS silent_group_id"),
        F.expr("min(IF(known, group_id, NULL)) AS vanished_group_id"),
    )


def rewound_partitions(partitions: DataFrame, remembered: DataFrame) -> DataFrame:
    """Partitions whose binding group stands below the log start and below where it once stood.

    ``partitions`` has the columns of `with_bounds`. Grain: partition_id. Columns: partition_id;
    rewound: boolean, always true.
    """
    below = partitions.where("min_committed_offset < log_start_offset").selectExpr(
        "partition_id", "min_group_id AS group_id", "min_committed_offset"
    )
    return (
        remembered.join(F.broadcast(below), on=["partition_id", "group_id"], how="inner")
        .where("offset > min_committed_offset")
        .selectExpr("partition_id", "true AS rewound")
    )
