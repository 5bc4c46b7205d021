"""Which groups count: the relevant groups of each topic, and those without a commit on a partition.

Invariant: any trace of a group makes it count, and only the policy can exclude it. A group that is
unreadable as a whole may read anything, so it counts for every topic.

Invariant: a missing commit is found from the groups that must have consumed, never from the commits
that exist. No table of all groups times all partitions is made: a partition with as many commits as
its topic has relevant groups lacks none, and only the other partitions are examined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from retentiond.decide.rule import are_committed
from retentiond.decide.star_schema import StarSchema, with_join_hint

KINDS = ("committed", "required", "failed", "foreign")
"""Kinds of traces that a group leaves on a topic. A trace of no kind only makes the group count.
``foreign``: of an external reader that another policy names."""


def relevant_groups(star: StarSchema[DataFrame]) -> DataFrame:
    """The groups that count for each topic: every group with a trace on it, except those that the
    policy excludes.

    Grain: topic_id, group_id. Columns: topic_id, group_id; committed (a commit on the topic, now
    or remembered), required, failed, foreign: boolean. Of the groups that failed and have no other
    trace, it has the first by name.
    """
    tables = (
        (star.commits, "committed"),
        (star.required, "required"),
        (star.failed, "failed"),
        (star.foreign, "foreign"),
        (star.readers, None),
    )
    traces = reduce(
        DataFrame.union,
        (_traces(table, kind) for table, kind in tables if table is not None),
    )
    groups = traces.groupBy("topic_id", "group_id").agg(
        *(F.expr(f"bool_or({kind}) AS {kind}") for kind in KINDS)
    )
    if star.excluded is None:
        return groups
    return _without(groups, with_join_hint(star.excluded, star))


def without_excluded(star: StarSchema[DataFrame]) -> StarSchema[DataFrame]:
    if star.excluded is None:
        return star
    return replace(star, commits=_without(star.commits, with_join_hint(star.excluded, star)))


def _without(groups: DataFrame, excluded: DataFrame) -> DataFrame:
    return groups.join(excluded, on=["topic_id", "group_id"], how="left_anti")


def _traces(table: DataFrame, kind_of_table: str | None) -> DataFrame:
    """A trace for each row of the table. Columns: topic_id, group_id (not unique) and a boolean for
    each of `KINDS`."""
    flags = (f"{str(kind == kind_of_table).lower()} AS {kind}" for kind in KINDS)
    return table.selectExpr("topic_id", "group_id", *flags)


def groups_by_topic(relevant: DataFrame, grain: Sequence[str] = ("topic_id",)) -> DataFrame:
    """How many groups count for a topic, and the first group by name that holds the whole topic.

    Grain: topic_id, or other columns that identify a topic; only topics with a relevant group.
    Columns: the grain; groups: long; own_groups: long, those that stand for the names and the
    number of the topic's own policy; failed_group_id?, missing_group_id? (required, but never seen
    to commit): int.
    """
    return relevant.groupBy(*grain).agg(
        F.expr("count(group_id) AS groups"),
        F.expr("count_if(NOT foreign) AS own_groups"),
        F.expr("min(IF(failed, group_id, NULL)) AS failed_group_id"),
        F.expr("min(IF(required AND NOT committed, group_id, NULL)) AS missing_group_id"),
    )


def groups_without_commit(
    partitions: DataFrame,
    relevant: DataFrame,
    commits: DataFrame,
    vanished: DataFrame | None,
) -> DataFrame:
    """The first groups by name that count for a partition and have no commit on it.

    ``partitions`` has partition_id, topic_id, groups?, commits?. ``relevant`` and ``commits`` are
    without excluded groups. Grain: partition_id, only partitions that lack a commit. Columns:
    partition_id; silent_group_id: int; vanished_group_id?: int, the first group that once had a
    commit on the partition, or is no longer listed.
    """
    pair = ["partition_id", "group_id"]
    lacking = partitions.where("coalesce(groups, 0) > coalesce(commits, 0)").select(
        "partition_id", "topic_id"
    )
    lacking_ids = F.broadcast(lacking.select("partition_id"))
    here = commits.join(lacking_ids, on="partition_id", how="left_semi")
    present = are_committed(here).select(*pair)
    silent = (
        relevant.select("topic_id", "group_id")
        .join(F.broadcast(lacking), on="topic_id", how="inner")
        .join(present, on=pair, how="left_anti")
    )
    if "remembered_offset" not in here.columns:
        silent = silent.selectExpr("*", "false AS known")
    else:
        known = here.where("remembered_offset IS NOT NULL").selectExpr(*pair, "true AS known")
        silent = silent.join(known, on=pair, how="left")
    if vanished is None:
        silent = silent.selectExpr("*", "false AS vanished")
    else:
        marked = F.broadcast(vanished.selectExpr("group_id", "true AS vanished"))
        silent = silent.join(marked, on="group_id", how="left")
    return silent.groupBy("partition_id").agg(
        F.expr("min(group_id) AS silent_group_id"),
        F.expr("min(IF(known OR vanished, group_id, NULL)) AS vanished_group_id"),
    )


def rewound_partitions(partitions: DataFrame, commits: DataFrame) -> DataFrame:
    """Partitions whose binding group has committed below the log start offset and below its own
    remembered commit.

    ``partitions`` has the columns of `with_bounds`; ``commits`` has remembered_offset. Grain:
    partition_id. Columns: partition_id; rewound: boolean, always true.
    """
    below = partitions.where("min_committed_offset < log_start_offset").selectExpr(
        "partition_id", "min_group_id AS group_id", "min_committed_offset"
    )
    return (
        commits.join(F.broadcast(below), on=["partition_id", "group_id"], how="inner")
        .where("remembered_offset > min_committed_offset")
        .selectExpr("partition_id", "true AS rewound")
    )
