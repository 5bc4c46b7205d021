"""Who counts: the relevant groups of each topic.

Invariant: any trace of a group makes it count, and only the policy takes it out again. A group
that is unread as a whole may read anything, so it counts for every topic.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from retentiond.plan.star import Star

KINDS = ("committed", "required", "failed")
"""What a trace of a group on a topic may be; one that is none of them only makes it count."""


def without_excluded(of_groups: DataFrame, excluded: DataFrame | None) -> DataFrame:
    """The rows of groups that the topic's policy lets count; same grain, same columns.

    ``of_groups`` has a group_id and a topic_id; ``excluded`` is ready to be joined.
    """
    if excluded is None:
        return of_groups
    return of_groups.join(excluded, on=["group_id", "topic_id"], how="left_anti")


def relevant_groups(star: Star[DataFrame]) -> DataFrame:
    """Every group that counts for a topic, without regard to the policy's exclusions.

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
    return every_trace.groupBy("topic_id", "group_id").agg(
        *(F.expr(f"bool_or({kind}) AS {kind}") for kind in KINDS)
    )


def _trace(of_groups: DataFrame, made: str | None) -> DataFrame:
    """topic_id and group_id, not unique, and which of `KINDS` the trace is of."""
    marks = (f"{str(kind == made).lower()} AS {kind}" for kind in KINDS)
    return of_groups.selectExpr("topic_id", "group_id", *marks)


def groups_by_topic(relevant: DataFrame) -> DataFrame:
    """How many groups count for a topic, and the first by name of those that hold all of it.

    Grain: topic_id, only topics with a relevant group. Columns: topic_id, groups: long;
    failed_group_id?, missing_group_id? (required, but never seen to commit): int.
    """
    return relevant.groupBy("topic_id").agg(
        F.expr("count(group_id) AS groups"),
        F.expr("min(IF(failed, group_id, NULL)) AS failed_group_id"),
        F.expr("min(IF(required AND NOT committed, group_id, NULL)) AS missing_group_id"),
    )
