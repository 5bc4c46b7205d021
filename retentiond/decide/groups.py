"""Who counts: the relevant groups of each topic, and those without a commit on a partition.

Invariant: any trace of a group makes it count, and only the policy takes it out again. A group
that is unreadable as a whole may read anything, so it counts for every topic.

Invariant: a group without a commit is found from the groups that must have consumed, never from
the commits that are there. The grid of groups and partitions is not spread out for it: a partition
with as many commits as its topic has relevant groups lacks none, and only the others are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from retentiond.decide.star_schema import StarSchema, with_join_hint

KINDS = ("committed", "required", "failed")
"""What a trace of a group on a topic may be; one that is none of them only makes it count."""


def relevant_groups(star: StarSchema[DataFrame]) -> DataFrame:
    """The groups that count for each topic: every one with a trace on it, less those that the
    policy excludes.

    Grain: topic_id, group_id. Columns: topic_id, group_id; committed (a commit on the topic, now
    or remembered), required, failed: boolean.
    """
    everywhere = (
        None if star.failed is None else star.topics.join(F.broadcast(star.failed), how="cross")
    )
    traces = (
        (star.commits, "committed"),
        (star.remembered, "committed"),
        (star.required, "required"),
        (everywhere, "failed"),
        (star.readers, None),
    )
    every_trace = reduce(
        DataFrame.union,
        (_trace(of_groups, made) for of_groups, made in traces if of_groups is not None),
    )
    found = every_trace.groupBy("topic_id", "group_id").agg(
        *(F.expr(f"bool_or({kind}) AS {kind}") for kind in KINDS)
    )
    return found if star.excluded is None else _without(found, with_join_hint(star.excluded, star))


def without_excluded(star: StarSchema[DataFrame]) -> StarSchema[DataFrame]:
    """The star without the commits, of now and before, of groups that the policy excludes."""
    if star.excluded is None:
        return star
    excluded = with_join_hint(star.excluded, star)
    return replace(
        star,
        commits=_without(star.commits, excluded),
        epochs=None if star.epochs is None else _without(star.epochs, excluded),
        remembered=None if star.remembered is None else _without(star.remembered, excluded),
        stale=None if star.stale is None else _without(star.stale, excluded),
    )


def _without(of_groups: DataFrame, excluded: DataFrame) -> DataFrame:
    return of_groups.join(excluded, on=["topic_id", "group_id"], how="left_anti")


def _trace(of_groups: DataFrame, made: str | None) -> DataFrame:
    """topic_id and group_id, not unique, and which of `KINDS` the trace is of."""
    marks = (f"{str(kind == made).lower()} AS {kind}" for kind in KINDS)
    return of_groups.selectExpr("topic_id", "group_id", *marks)


def groups_by_topic(relevant: DataFrame, grain: Sequence[str] = ("topic_id",)) -> DataFrame:
    """How many groups count for a topic, and the first by name of those that hold all of it.

    Grain: topic_id, or what else tells topics apart; only those with a relevant group. Columns: the
    grain; groups: long; failed_group_id?, missing_group_id? (required, but never seen to
    commit): int.
    """
    return relevant.groupBy(*grain).agg(
        F.expr("count(group_id) AS groups"),
        F.expr("min(IF(failed, group_id, NULL)) AS failed_group_id"),
        F.expr("min(IF(required AND NOT committed, group_id, NULL)) AS missing_group_id"),
    )


def groups_without_commit(
    partitions: DataFrame,
    relevant: DataFrame,
    commits: DataFrame,
    remembered: DataFrame | None,
    vanished: DataFrame | None,
) -> DataFrame:
    """The first groups by name that count for a partition and have no commit on it.

    ``partitions`` has partition_id, topic_id, groups?, commits?; the others are without excluded
    groups, but for ``vanished``. Grain: partition_id, only partitions that lack a commit. Columns:
    partition_id; silent_group_id: int; vanished_group_id?: int, the first that once had a commit
    here, or is not there any more.
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
    if vanished is None:
        silent = silent.selectExpr("*", "false AS vanished")
    else:
        marked = F.broadcast(vanished.selectExpr("group_id", "true AS vanished"))
        silent = silent.join(marked, on="group_id", how="left")
    return silent.groupBy("partition_id").agg(
        F.expr("min(group_id) AS silent_group_id"),
        F.expr("min(IF(known OR vanished, group_id, NULL)) AS vanished_group_id"),
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
