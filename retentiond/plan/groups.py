"""Who counts: the relevant groups of each topic.

Invariant: any trace of a group makes it count, and only the policy takes it out again. A group
that is unread as a whole may read anything, so it counts for every topic.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from retentiond.plan.star import Star


def without_excluded(of_groups: DataFrame, excluded: DataFrame) -> DataFrame:
    """The rows of groups that the topic's policy lets count; same grain, same columns.

    ``of_groups`` has a group_id and a topic_id.
    """
    return of_groups.join(
        F.broadcast(excluded), on=["group_id", "topic_id"], how="left_anti"
    ).select(*of_groups.columns)


def relevant_groups(star: Star[DataFrame]) -> DataFrame:
    """Every group that counts for a topic, without regard to the policy's exclusions.

    Grain: topic_id, group_id. Columns: topic_id, group_id; committed (a commit on the topic, now
    or remembered), required, failed: boolean.
    """
    ids = ["topic_id", "group_id"]
    committed = F.lit(True).alias("committed")
    failed = star.groups.where("failed").select("group_id")
    traces = (
        star.commits.select(*ids, committed).distinct(),
        star.remembered.select(*ids, committed).distinct(),
        star.required.select(*ids, F.lit(True).alias("required")),
        star.topics.join(F.broadcast(failed), how="cross").select(
            *ids, F.lit(True).alias("failed")
        ),
    )
    every_trace = star.readers.select(*ids)
    for trace in traces:
        every_trace = every_trace.unionByName(trace, allowMissingColumns=True)
    kinds = ("committed", "required", "failed")
    return (
        every_trace.groupBy(*ids)
        .agg(*(F.coalesce(F.bool_or(kind), F.lit(False)).alias(kind) for kind in kinds))
        .select(*ids, *kinds)
    )


def groups_by_topic(relevant: DataFrame) -> DataFrame:
    """How many groups count for a topic, and the first by name of those that hold all of it.

    Grain: topic_id, only topics with a relevant group. Columns: topic_id, groups: long;
    failed_group_id?, missing_group_id? (required, but never seen to commit): int.
    """
    missing = F.col("required") & ~F.col("committed")
    return (
        relevant.groupBy("topic_id")
        .agg(
            F.count("group_id").alias("groups"),
            F.min(F.when(F.col("failed"), F.col("group_id"))).alias("failed_group_id"),
            F.min(F.when(missing, F.col("group_id"))).alias("missing_group_id"),
        )
        .select("topic_id", "groups", "failed_group_id", "missing_group_id")
    )
