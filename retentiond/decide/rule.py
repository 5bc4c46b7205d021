"""The rule: what bounds a deletion, and the reason of each partition.

    cutoff = min(min committed offset, retention offset, end)

The reason is the first one that applies, in an order that puts doubt first.

Invariant (KIP-68's "-1"): a bound that is not fully known is null, and so is what follows from it.
Spark's aggregates and its `least` ignore nulls. So commits that could not be read are counted, no
minimum is taken while a commit is missing, and `least` is never used alone.

Invariant: records go only where `Reason.CONSUMED` is proven. A condition with an unknown figure is
null and doesn't apply. A partition to which no condition applies is held.

`retentiond.act.rule` restates this rule without using any of this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from retentiond.model import Reason

INT64_MAX = 2**63 - 1


def are_committed(commits: DataFrame) -> DataFrame:
    """The rows of `COMMITS` that the reading shows, without those that are only remembered."""
    return commits.where("is_committed") if "is_committed" in commits.columns else commits


def commits_by_partition(
    commits: DataFrame, group_count: int, grain: Sequence[str] = ("partition_id",)
) -> DataFrame:
    """The smallest and the largest commit on each partition. A tie goes to the first group by name.

    ``group_count``: every group_id is below it. Offset and group go through the aggregates as
    one number, because Spark would sort all commits for a pair of them. If offset and group don't
    fit into one number (no log is that long), the offset is still right, and the group is any of
    those at that offset.

    Grain: partition_id, or other columns that identify a partition; only partitions with a commit.
    Columns: the grain; commits, readable_commits: long; min_offset?: long, min_group_id?: int;
    max_offset?: long, max_group_id?: int; unreadable_group_id?: int, the first group by name whose
    commit is null.
    """
    last = group_count - 1
    base = f"least(offset, {INT64_MAX // group_count - 1}) * {group_count}L"
    return (
        are_committed(commits)
        .groupBy(*grain)
        .agg(
            F.expr("count(group_id) AS commits"),
            F.expr("count(offset) AS readable_commits"),
            F.expr("min(offset) AS min_offset"),
            F.expr("max(offset) AS max_offset"),
            # `least` ignores a null, so a commit without an offset has to be left out by name.
            F.expr(f"min(IF(offset IS NULL, NULL, {base} + group_id)) AS smallest"),
            F.expr(f"max(IF(offset IS NULL, NULL, {base} + {last} - group_id)) AS largest"),
            F.expr("min(IF(offset IS NULL, group_id, NULL)) AS unreadable_group_id"),
        )
        .selectExpr(
            *grain,
            "commits",
            "readable_commits",
            "min_offset",
            f"CAST(smallest % {group_count} AS INT) AS min_group_id",
            "max_offset",
            f"CAST({last} - largest % {group_count} AS INT) AS max_group_id",
            "unreadable_group_id",
        )
    )


def commits_on_replaced_records(commits: DataFrame) -> DataFrame:
    """Commits of groups that have read records which the log has replaced by others, or may have.

    ``commits`` has is_replaced. Grain: partition_id, only partitions with such a commit. Columns:
    partition_id; replaced_group_id: int, the first group by name; replaced_offset: long, its
    commit.
    """
    return (
        commits.where("is_replaced")
        .groupBy("partition_id")
        .agg(
            F.expr("min(group_id) AS replaced_group_id"),
            F.expr("min_by(offset, group_id) AS replaced_offset"),
        )
    )


def commits_of_failed(commits: DataFrame, failed: DataFrame) -> DataFrame:
    """The commits that could be read of groups that failed as a whole. The plan shows them; they
    bound nothing.

    Grain: partition_id, failed_group_id. Columns: the grain; failed_group_offset?: long.
    """
    return commits.join(F.broadcast(failed), on=["topic_id", "group_id"], how="inner").selectExpr(
        "partition_id", "group_id AS failed_group_id", "offset AS failed_group_offset"
    )


def with_bounds(partitions: DataFrame) -> DataFrame:
    """The partitions with end?, min_committed_offset? and cutoff?: long.

    ``partitions`` has last_stable_offset?, high_watermark?, retention_offset?, and the columns
    of `groups_by_topic` and `commits_by_partition`. The smallest commit is a bound only if every
    relevant group has a readable commit.
    """
    end = least_of_all("last_stable_offset", "high_watermark")
    min_committed_offset = "IF(readable_commits = groups, min_offset, NULL)"
    cutoff = least_of_all("min_committed_offset", "retention_offset", "end")
    return partitions.selectExpr(
        "*", f"{end} AS end", f"{min_committed_offset} AS min_committed_offset"
    ).selectExpr("*", f"{cutoff} AS cutoff")


def least_of_all(*names: str) -> str:
    """The smallest of the columns; null if one of them is null."""
    all_known = " AND ".join(f"{name} IS NOT NULL" for name in names)
    return f"IF({all_known}, least({', '.join(names)}), NULL)"


def topic_holds(topics: DataFrame) -> DataFrame:
    """The reasons that hold a topic as a whole.

    Grain: topic_id. Columns: topic_id; topic_reason?: string; min_groups: long;
    hidden: boolean; changelog_group_id?: int.
    """
    return with_topic_reason(topics).select(
        "topic_id", "topic_reason", "min_groups", "hidden", "changelog_group_id"
    )


def with_topic_reason(topics: DataFrame) -> DataFrame:
    """The topics, or rows with a topic's columns, with topic_reason?: string. The configs of a
    failed topic could not be read, so they prove nothing."""
    reasons = {
        Reason.POLICY_CONFLICT: "conflict",
        Reason.POLICY_UNREADABLE: "policy_unreadable",
        Reason.NOT_DELETABLE: (
            "internal OR changelog_group_id IS NOT NULL"
            " OR (NOT failed AND (NOT deletes OR (compacts AND NOT allow_compacted)))"
        ),
        Reason.OFFSET_UNREADABLE: "failed",
        Reason.RETENTION_EXCEEDS_FORCED: "consumed_retention_ms > forced_retention_ms",
        Reason.TOPIC_RECREATED: "recreated",
    }
    return topics.selectExpr("*", f"{_first_of(reasons)} AS topic_reason")


def with_reason(partitions: DataFrame, *, complete: bool) -> DataFrame:
    """The partitions, which have the columns of all other steps, with reason: string."""
    reasons = {
        Reason.OFFSET_UNREADABLE: (
            "failed OR log_start_offset IS NULL OR high_watermark IS NULL"
            " OR last_stable_offset IS NULL OR retention_offset IS NULL"
        ),
        Reason.EMPTY: "log_start_offset >= high_watermark",
        Reason.GROUP_LIST_INCOMPLETE: "hidden" if complete else "true",
        Reason.GROUP_UNREADABLE: "failed_group_id IS NOT NULL OR unreadable_group_id IS NOT NULL",
        Reason.GROUP_VANISHED: "vanished_group_id IS NOT NULL",
        Reason.REQUIRED_GROUP_MISSING: "missing_group_id IS NOT NULL",
        Reason.NO_GROUP: "groups IS NULL",
        Reason.TOO_FEW_GROUPS: "own_groups < min_groups",
        Reason.GROUP_WITHOUT_COMMIT: "silent_group_id IS NOT NULL",
        Reason.COMMIT_BEYOND_END: ("max_offset > high_watermark OR replaced_group_id IS NOT NULL"),
        Reason.COMMIT_REWOUND: "rewound",
        Reason.OPEN_TRANSACTION: "end <= log_start_offset",
        Reason.CONSUMED: "cutoff > log_start_offset",
        Reason.NOT_CONSUMED: "min_committed_offset <= retention_offset",
    }
    reason = f"coalesce(topic_reason, {_first_of(reasons)}, '{Reason.TOO_YOUNG.value}')"
    return partitions.withColumn("reason", F.expr(reason))


def with_binding(partitions: DataFrame) -> DataFrame:
    """The partitions with binding_group_id?: int and binding_committed_offset?: long.

    The binding group causes the hold; if no group does, it is the group with the smallest commit,
    provided that this commit is known. ``partitions`` has the columns of all other steps and the
    reason.
    """
    smallest = "IF(min_committed_offset IS NOT NULL, min_group_id, NULL)"
    unreadable = "least(failed_group_id, unreadable_group_id)"  # `least` ignores a null
    groups = {
        Reason.NOT_DELETABLE: f"coalesce(changelog_group_id, {smallest})",
        Reason.GROUP_UNREADABLE: unreadable,
        Reason.GROUP_VANISHED: "vanished_group_id",
        Reason.REQUIRED_GROUP_MISSING: "missing_group_id",
        Reason.TOO_FEW_GROUPS: "NULL",
        Reason.GROUP_WITHOUT_COMMIT: "silent_group_id",
        Reason.COMMIT_BEYOND_END: (
            "IF(max_offset > high_watermark, max_group_id, replaced_group_id)"
        ),
    }
    offsets = dict.fromkeys(groups, "NULL") | {
        Reason.NOT_DELETABLE: "IF(changelog_group_id IS NULL, min_committed_offset, NULL)",
        Reason.GROUP_UNREADABLE: f"IF({unreadable} = failed_group_id, failed_group_offset, NULL)",
        Reason.COMMIT_BEYOND_END: "IF(max_offset > high_watermark, max_offset, replaced_offset)",
    }
    return partitions.withColumns(
        {
            "binding_group_id": _by_reason(groups, smallest),
            "binding_committed_offset": _by_reason(offsets, "min_committed_offset"),
        }
    )


def _first_of(reasons: Mapping[Reason, str]) -> str:
    """The first reason whose condition is true; null if none is.

    As one expression: each call of a function on columns is a round trip to the JVM.
    """
    cases = [f"WHEN {condition} THEN '{reason.value}'" for reason, condition in reasons.items()]
    return f"CASE {' '.join(cases)} END"


def _by_reason(values: Mapping[Reason, str], otherwise: str) -> Column:
    cases = [f"WHEN '{reason.value}' THEN {value}" for reason, value in values.items()]
    return F.expr(f"CASE reason {' '.join(cases)} ELSE {otherwise} END")
