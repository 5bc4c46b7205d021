"""Decide: from a snapshot to one row for each partition, with its verdict and reason.

Spark is asked twice. The first answer counts all commits; the second looks at the few
partitions that it leaves in doubt, where there are any, and judges.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from retentiond import garbage
from retentiond.collect.snapshot import Snapshot
from retentiond.model import PlanRow, Reason
from retentiond.plan.bounds import with_bounds
from retentiond.plan.commits import commits_by_partition, commits_of_failed
from retentiond.plan.frames import frames, small
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
    with garbage.dropped():
        decided = _decided(spark, star(snapshot))
    return plan_rows(snapshot, decided)


def _decided(spark: SparkSessions, tables: Star[pa.Table]) -> pa.Table:
    with spark.use() as session:
        facts = that_count(frames(session, tables))
        counted = counted_partitions(facts)
        first = judged_partitions(without_doubts(counted), facts).toArrow()
        doubtful = first.filter(pc.field("doubtful"))
        if not doubtful.num_rows:
            return first
        doubted = doubts_about(session.createDataFrame(doubtful.select(counted.columns)), facts)
        second = judged_partitions(doubted, facts).toArrow()
    certain = first.filter(~pc.field("doubtful"))
    return pa.concat_tables(
        [certain.select(second.column_names), second], promote_options="default"
    )


@dataclass(frozen=True, slots=True)
class Facts:
    """The star's tables without the groups that the policy excludes, and who is relevant then.

    ``commits`` and ``remembered`` are as in `Star`, ``relevant`` is of `relevant_groups`.
    """

    star: Star[DataFrame]
    commits: DataFrame
    remembered: DataFrame | None
    relevant: DataFrame


def that_count(star: Star[DataFrame]) -> Facts:
    """What is left to decide from, once the policy's exclusions are heard."""
    excluded = None if star.excluded is None else small(star.excluded, star)
    return Facts(
        star,
        commits=without_excluded(star.commits, excluded),
        remembered=(
            None if star.remembered is None else without_excluded(star.remembered, excluded)
        ),
        relevant=without_excluded(relevant_groups(star), excluded),
    )


def counted_partitions(facts: Facts) -> DataFrame:
    """How far each partition is consumed, and by how many of those that count.

    Grain: partition_id. Columns: those of `Star.partitions`, `groups_by_topic`,
    `commits_by_partition` and `with_bounds`; doubtful: boolean, whether somebody lacks a commit
    or may have gone back.
    """
    star = facts.star
    groups = small(groups_by_topic(facts.relevant), star)
    commits = commits_by_partition(facts.commits, star.group_count)
    lacking = "coalesce(groups, 0) > coalesce(commits, 0)"
    below = "coalesce(min_committed_offset < log_start_offset, false)"
    return with_bounds(
        star.partitions.join(groups, on="topic_id", how="left").join(
            commits, on="partition_id", how="left"
        )
    ).selectExpr("*", f"{lacking} OR {below} AS doubtful")


def without_doubts(counted: DataFrame) -> DataFrame:
    """As `doubts_about`, where there are none. ``counted`` is of `counted_partitions`."""
    return counted.selectExpr(
        "*",
        "CAST(NULL AS INT) AS silent_group_id",
        "CAST(NULL AS INT) AS vanished_group_id",
        "CAST(NULL AS BOOLEAN) AS rewound",
    )


def doubts_about(doubtful: DataFrame, facts: Facts) -> DataFrame:
    """Who lacks a commit, and where somebody went back. ``doubtful`` is of `counted_partitions`.

    Grain: partition_id. Columns: those of ``doubtful``, of `silent_groups` and of
    `rewound_partitions`, null where they have no row.
    """
    silent = silent_groups(doubtful, facts.relevant, facts.commits, facts.remembered)
    doubts = doubtful.join(silent, on="partition_id", how="left")
    if facts.remembered is None:
        return doubts.selectExpr("*", "CAST(NULL AS BOOLEAN) AS rewound")
    rewound = rewound_partitions(doubtful, facts.remembered)
    return doubts.join(rewound, on="partition_id", how="left")


def judged_partitions(doubted: DataFrame, facts: Facts) -> DataFrame:
    """The plan, in positions instead of names. ``doubted`` is of `doubts_about`.

    Grain: partition_id. Columns: those of ``doubted``, and reason: string;
    binding_group_id?: int; binding_committed_offset?: long; records: long.
    """
    star = facts.star
    judged = with_reason(
        doubted.join(small(topic_holds(star.topics), star), on="topic_id", how="inner"),
        complete=star.complete,
    )
    if star.failed is None:
        judged = judged.selectExpr("*", "CAST(NULL AS BIGINT) AS failed_group_offset")
    else:
        failed = commits_of_failed(facts.commits, star.failed)
        judged = judged.join(failed, on=["partition_id", "failed_group_id"], how="left")
    bound = with_binding(judged)
    records = f"IF(reason = '{Reason.CONSUMED.value}', cutoff - log_start_offset, 0L)"
    return bound.selectExpr("*", f"{records} AS records")
