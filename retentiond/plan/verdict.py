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
    """What holds a topic as a whole. A failed topic's configs are unread and prove nothing.

    Grain: topic_id. Columns: topic_id; topic_reason?: string; min_groups: int;
    hidden: boolean.
    """
    forced_first = F.col("consumed_retention_ms") > F.col("forced_retention_ms")
    not_allowed = ~F.col("deletes") | (F.col("compacts") & ~F.col("allow_compacted"))
    reasons = {
        Reason.POLICY_CONFLICT: F.col("conflict"),
        Reason.NOT_DELETABLE: F.col("internal") | (~F.col("failed") & not_allowed),
        Reason.OFFSET_UNREADABLE: F.col("failed"),
        Reason.RETENTION_EXCEEDS_FORCED: forced_first,
        Reason.TOPIC_RECREATED: F.col("recreated"),
    }
    return topics.select(
        "topic_id", _first_of(reasons).alias("topic_reason"), "min_groups", "hidden"
    )


def with_reason(partitions: DataFrame, *, complete: bool) -> DataFrame:
    """The partitions, which have the columns of all other steps, with reason: string."""
    log_start_offset = F.col("log_start_offset")
    an_offset_is_unread = (
        F.col("failed")
        | log_start_offset.isNull()
        | F.col("high_watermark").isNull()
        | F.col("last_stable_offset").isNull()
        | F.col("retention_offset").isNull()
    )
    a_group_is_unread = F.col("failed_group_id").isNotNull() | F.col("unread_group_id").isNotNull()
    reasons = {
        Reason.OFFSET_UNREADABLE: an_offset_is_unread,
        Reason.EMPTY: log_start_offset >= F.col("high_watermark"),
        Reason.GROUP_LIST_INCOMPLETE: F.col("hidden") if complete else F.lit(True),
        Reason.GROUP_UNREADABLE: a_group_is_unread,
        Reason.GROUP_VANISHED: F.col("vanished_group_id").isNotNull(),
        Reason.REQUIRED_GROUP_MISSING: F.col("missing_group_id").isNotNull(),
        Reason.NO_GROUP: F.col("groups").isNull(),
        Reason.TOO_FEW_GROUPS: F.col("groups") < F.col("min_groups"),
        Reason.GROUP_WITHOUT_COMMIT: F.col("silent_group_id").isNotNull(),
        Reason.COMMIT_BEYOND_END: F.col("max_offset") > F.col("high_watermark"),
        Reason.COMMIT_REWOUND: F.col("rewound"),
        Reason.OPEN_TRANSACTION: F.col("end") <= log_start_offset,
        Reason.CONSUMED: F.col("cutoff") > log_start_offset,
        Reason.NOT_CONSUMED: F.col("min_committed_offset") <= F.col("retention_offset"),
    }
    reason = F.coalesce("topic_reason", _first_of(reasons), F.lit(Reason.TOO_YOUNG.value))
    return partitions.withColumn("reason", reason)


def with_binding(partitions: DataFrame) -> DataFrame:
    """The partitions with binding_group_id?: int and binding_committed_offset?: long.

    That is the group which causes the hold, else the one with the smallest commit, where the
    smallest is known. ``partitions`` has the columns of all other steps and the reason.
    """
    unread = F.least("failed_group_id", "unread_group_id")  # the one there is, if one is null
    failed_group_offset = F.when(unread == F.col("failed_group_id"), F.col("failed_group_offset"))
    nobody, no_offset = F.lit(None).cast("int"), F.lit(None).cast("long")
    min_group_id = F.when(F.col("min_committed_offset").isNotNull(), F.col("min_group_id"))
    causes = {
        Reason.GROUP_UNREADABLE: (unread, failed_group_offset),
        Reason.GROUP_VANISHED: (F.col("vanished_group_id"), no_offset),
        Reason.REQUIRED_GROUP_MISSING: (F.col("missing_group_id"), no_offset),
        Reason.TOO_FEW_GROUPS: (nobody, no_offset),
        Reason.GROUP_WITHOUT_COMMIT: (F.col("silent_group_id"), no_offset),
        Reason.COMMIT_BEYOND_END: (F.col("max_group_id"), F.col("max_offset")),
    }
    group_id, offset = min_group_id, F.col("min_committed_offset")
    for reason, (cause, committed) in causes.items():
        applies = F.col("reason") == reason.value
        group_id = F.when(applies, cause).otherwise(group_id)
        offset = F.when(applies, committed).otherwise(offset)
    return partitions.withColumns(
        {"binding_group_id": group_id, "binding_committed_offset": offset}
    )


def _first_of(reasons: Mapping[Reason, Column]) -> Column:
    """The first reason whose condition is true; null if none is."""
    return F.coalesce(
        *(F.when(applies, F.lit(reason.value)) for reason, applies in reasons.items())
    )
