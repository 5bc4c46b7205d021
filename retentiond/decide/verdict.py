"""The reason of each partition: the first that applies, in an order that puts doubt first.

Invariant: records go only where `Reason.CONSUMED` is proven. A condition that is null, because a
figure in it is, does not apply, and what no condition claims is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from retentiond.model import Reason


def topic_holds(topics: DataFrame) -> DataFrame:
    """What holds a topic as a whole.

    Grain: topic_id. Columns: topic_id; topic_reason?: string; min_groups: int;
    hidden: boolean; changelog_group_id?: int.
    """
    return with_topic_reason(topics).select(
        "topic_id", "topic_reason", "min_groups", "hidden", "changelog_group_id"
    )


def with_topic_reason(topics: DataFrame) -> DataFrame:
    """The topics, or rows with a topic's columns, with topic_reason?: string. A failed topic's
    configs are unread and prove nothing."""
    reasons = {
        Reason.POLICY_CONFLICT: "conflict",
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
        Reason.GROUP_UNREADABLE: "failed_group_id IS NOT NULL OR unread_group_id IS NOT NULL",
        Reason.GROUP_VANISHED: "vanished_group_id IS NOT NULL",
        Reason.REQUIRED_GROUP_MISSING: "missing_group_id IS NOT NULL",
        Reason.NO_GROUP: "groups IS NULL",
        Reason.TOO_FEW_GROUPS: "groups < min_groups",
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

    That is the group which causes the hold, else the one with the smallest commit, where the
    smallest is known. ``partitions`` has the columns of all other steps and the reason.
    """
    smallest = "IF(min_committed_offset IS NOT NULL, min_group_id, NULL)"
    unread = "least(failed_group_id, unread_group_id)"  # the one there is, if one is null
    groups = {
        Reason.NOT_DELETABLE: f"coalesce(changelog_group_id, {smallest})",
        Reason.GROUP_UNREADABLE: unread,
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
        Reason.GROUP_UNREADABLE: f"IF({unread} = failed_group_id, failed_group_offset, NULL)",
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
