"""Decide: from a snapshot to one row for each partition, with its verdict and reason."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from retentiond.collect.snapshot import Snapshot
from retentiond.model import PlanRow, Reason
from retentiond.plan.bounds import with_bounds
from retentiond.plan.commits import commits_by_partition, commits_of_failed
from retentiond.plan.groups import groups_by_topic, relevant_groups, without_excluded
from retentiond.plan.rows import plan_rows
from retentiond.plan.session import SparkSessions
from retentiond.plan.silence import rewound_partitions, silent_groups
from retentiond.plan.star import Star
from retentiond.plan.tables import star
from retentiond.plan.verdict import topic_holds, with_binding, with_reason


def decide(spark: SparkSessions, snapshot: Snapshot) -> tuple[PlanRow, ...]:
    """One row for each partition of the snapshot, sorted by topic and partition.

    Raises `SparkUnavailable` when Spark can't work it out.
    """
    tables = star(snapshot)
    with spark.use() as session:
        decided = plan_frames(tables.map(session.createDataFrame)).toArrow()
    return plan_rows(snapshot, decided)


def plan_frames(star: Star[DataFrame]) -> DataFrame:
    """The plan, in positions instead of names.

    Grain: partition_id. Columns: partition_id: int; reason: string; groups: int;
    min_committed_offset?, cutoff?: long; binding_group_id?: int;
    binding_committed_offset?: long; records: long.
    """
    commits = without_excluded(star.commits, star.excluded)
    remembered = without_excluded(star.remembered, star.excluded)
    relevant = without_excluded(relevant_groups(star), star.excluded)
    bounded = with_bounds(
        star.partitions.join(
            F.broadcast(groups_by_topic(relevant)), on="topic_id", how="left"
        ).join(commits_by_partition(commits, star.group_count), on="partition_id", how="left")
    )
    judged = with_reason(
        bounded.join(topic_holds(star.topics), on="topic_id", how="inner")
        .join(silent_groups(bounded, relevant, commits, remembered), on="partition_id", how="left")
        .join(rewound_partitions(bounded, remembered), on="partition_id", how="left"),
        complete=star.complete,
    )
    failed = commits_of_failed(commits, star.groups)
    bound = with_binding(judged.join(failed, on=["partition_id", "failed_group_id"], how="left"))
    is_deleted = F.col("reason") == Reason.CONSUMED.value
    return bound.select(
        "partition_id",
        "reason",
        F.coalesce("groups", F.lit(0)).cast("int").alias("groups"),
        "min_committed_offset",
        "binding_group_id",
        "binding_committed_offset",
        "cutoff",
        F.when(is_deleted, F.col("cutoff") - F.col("log_start_offset"))
        .otherwise(0)
        .alias("records"),
    )
