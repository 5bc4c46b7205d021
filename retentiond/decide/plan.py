"""Decides: turns a snapshot into one row for each partition, with its verdict and reason.

Spark runs up to two queries. The first one counts all commits and judges most partitions. The
second one judges the few doubtful partitions, where a commit is missing or may have gone back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from retentiond import garbage_collection
from retentiond.config import NoPolicy
from retentiond.decide.detail import Decided, decided_rows, detail, replaced_records
from retentiond.decide.groups import (
    groups_by_topic,
    groups_without_commit,
    relevant_groups,
    rewound_partitions,
    without_excluded,
)
from retentiond.decide.rule import (
    commits_by_partition,
    commits_of_failed,
    commits_on_replaced_records,
    topic_holds,
    with_binding,
    with_bounds,
    with_reason,
)
from retentiond.decide.star_schema import StarSchema, star_schema, to_dataframes, with_join_hint
from retentiond.fields import rfc3339
from retentiond.model import VERDICT_OF, PlanRow, Reason
from retentiond.snapshot import NOWHERE, GroupTopic, Snapshot
from retentiond.spark.session import SparkSessions


def decide(spark: SparkSessions, snapshot: Snapshot) -> tuple[PlanRow, ...]:
    """One row for each partition of the snapshot, sorted by topic and partition. Raises
    `SparkUnavailable`."""
    with garbage_collection.collected_afterwards():
        decided = _decided(spark, star_schema(snapshot))
    return plan_rows(snapshot, decided)


def _decided(spark: SparkSessions, tables: StarSchema[pa.Table]) -> pa.Table:
    with spark.use() as session:
        every = to_dataframes(session, tables)
        relevant, star = relevant_groups(every), without_excluded(every)
        counted = counted_partitions(star, relevant)
        first = judged_partitions(without_doubts(counted), star).toArrow()
        doubtful = first.filter(pc.field("doubtful"))
        if not doubtful.num_rows:
            return first
        again = session.createDataFrame(doubtful.select(counted.columns))
        second = judged_partitions(doubts_about(again, star, relevant), star).toArrow()
    certain = first.filter(~pc.field("doubtful"))
    return pa.concat_tables(
        [certain.select(second.column_names), second], promote_options="default"
    )


def counted_partitions(star: StarSchema[DataFrame], relevant: DataFrame) -> DataFrame:
    """How far each partition is consumed, and by how many of its relevant groups.

    Here and below, ``star`` is the result of `without_excluded`, and ``relevant`` is the result of
    `relevant_groups`.

    Grain: partition_id. Columns: those of `StarSchema.partitions`, `groups_by_topic`,
    `commits_by_partition` and `with_bounds`; doubtful: boolean, whether a group lacks a commit or
    may have gone back.
    """
    groups = groups_by_topic(relevant)
    if star.failed is not None:
        groups = groups.join(
            with_join_hint(star.failed.select("topic_id", "more_groups"), star), "topic_id", "left"
        ).withColumn("groups", F.expr("groups + coalesce(more_groups, 0)"))
    groups = with_join_hint(groups.drop("more_groups"), star)
    commits = commits_by_partition(star.commits, star.group_count)
    lacking = "coalesce(groups, 0) > coalesce(commits, 0)"
    below = "coalesce(min_committed_offset < log_start_offset, false)"
    return with_bounds(
        star.partitions.join(groups, on="topic_id", how="left").join(
            commits, on="partition_id", how="left"
        )
    ).selectExpr("*", f"{lacking} OR {below} AS doubtful")


def without_doubts(counted: DataFrame) -> DataFrame:
    """The columns of `doubts_about` for partitions without doubts."""
    return counted.selectExpr(
        "*",
        "CAST(NULL AS INT) AS silent_group_id",
        "CAST(NULL AS INT) AS vanished_group_id",
        "CAST(NULL AS BOOLEAN) AS rewound",
    )


def doubts_about(
    doubtful: DataFrame, star: StarSchema[DataFrame], relevant: DataFrame
) -> DataFrame:
    """Which group lacks a commit, and where a group went back. ``doubtful``: the doubtful rows of
    `counted_partitions`.

    Grain: partition_id. Columns: those of ``doubtful``, of `groups_without_commit` and of
    `rewound_partitions`; null for partitions without a row in these two.
    """
    silent = groups_without_commit(doubtful, relevant, star.commits, star.vanished)
    doubts = doubtful.join(silent, on="partition_id", how="left")
    if "remembered_offset" not in star.commits.columns:
        return doubts.selectExpr("*", "CAST(NULL AS BOOLEAN) AS rewound")
    rewound = rewound_partitions(doubtful, star.commits)
    return doubts.join(rewound, on="partition_id", how="left")


def judged_partitions(doubted: DataFrame, star: StarSchema[DataFrame]) -> DataFrame:
    """The plan, with positions instead of names. ``doubted`` is the result of `doubts_about` or
    `without_doubts`.

    Grain: partition_id. Columns: those of ``doubted`` and of `commits_on_replaced_records`, and
    reason: string; binding_group_id?: int; binding_committed_offset?: long; records: long.
    """
    if "is_replaced" not in star.commits.columns:
        doubted = doubted.selectExpr(
            "*", "CAST(NULL AS INT) AS replaced_group_id", "CAST(NULL AS BIGINT) AS replaced_offset"
        )
    else:
        replaced = with_join_hint(commits_on_replaced_records(star.commits), star)
        doubted = doubted.join(replaced, on="partition_id", how="left")
    judged = with_reason(
        doubted.join(with_join_hint(topic_holds(star.topics), star), on="topic_id", how="inner"),
        complete=star.complete,
    )
    if star.failed is None:
        judged = judged.selectExpr("*", "CAST(NULL AS BIGINT) AS failed_group_offset")
    else:
        failed = commits_of_failed(star.commits, star.failed.select("topic_id", "group_id"))
        judged = judged.join(failed, on=["partition_id", "failed_group_id"], how="left")
    bound = with_binding(judged)
    records = f"IF(reason = '{Reason.CONSUMED.value}', cutoff - log_start_offset, 0L)"
    return bound.selectExpr("*", f"{records} AS records")


def plan_rows(snapshot: Snapshot, judged: pa.Table) -> tuple[PlanRow, ...]:
    rows = list(decided_rows(judged))
    replaced, vanished = replaced_records(snapshot, rows), _vanished_commits(snapshot, rows)
    since = _binding_since(snapshot, rows)
    return tuple(_row(snapshot, row, replaced, vanished, since) for row in rows)


def _vanished_commits(
    snapshot: Snapshot, decided: Iterable[Decided]
) -> dict[tuple[int, int | None], int | None]:
    """The remembered commits on partitions that are held because a group vanished, by the positions
    of partition and group."""
    held = [row.partition_id for row in decided if row.reason is Reason.GROUP_VANISHED]
    is_held = pc.is_in(snapshot.commits["partition_id"], value_set=pa.array(held, pa.int32()))
    return {
        (row["partition_id"], row["group_id"]): row["remembered_offset"]
        for row in snapshot.commits.filter(is_held).to_pylist()
    }


def _binding_since(snapshot: Snapshot, decided: Iterable[Decided]) -> dict[int, str]:
    """Since when the binding group stands at its commit or, if it has vanished, is missing: by
    partition, where an earlier cycle has seen that.

    A commit that has moved since the last cycle stands since now. Since when one stands that went
    back is not known.
    """
    time = cache(rfc3339)  # few cycles have seen a commit move
    last_seen = _last_seen_of_binding(snapshot, decided)
    since = {}
    for row in decided:
        at, group, committed = row.partition_id, row.binding_group_id, row.binding_committed_offset
        since_ms: int | None = None
        if group is not None and row.reason is Reason.GROUP_VANISHED:
            topic = snapshot.partitions[at].topic
            since_ms = snapshot.absent_since_ms.get(GroupTopic(group, topic))
        elif group is not None and committed is not None and at in last_seen:
            last, moved_at_ms = last_seen[at]
            if committed > last:
                since_ms = snapshot.taken_at_ms
            elif committed == last:
                since_ms = moved_at_ms
        if since_ms is not None:
            since[at] = time(since_ms)
    return since


def _last_seen_of_binding(
    snapshot: Snapshot, decided: Iterable[Decided]
) -> dict[int, tuple[int, int | None]]:
    """The remembered offset of the binding group, and when it was first seen there, if that is
    known; by partition."""
    group_at = np.full(len(snapshot.partitions), NOWHERE)
    for row in decided:
        if row.binding_group_id is not None:
            group_at[row.partition_id] = row.binding_group_id
    commits = snapshot.commits
    binds = group_at[commits["partition_id"].to_numpy()] == commits["group_id"].to_numpy()
    binding = commits.filter(pc.and_(pa.array(binds), commits["remembered_offset"].is_valid()))
    columns = (
        binding[name].to_pylist() for name in ("partition_id", "remembered_offset", "moved_at_ms")
    )
    return {at: (offset, moved_at_ms) for at, offset, moved_at_ms in zip(*columns, strict=True)}


def _row(
    snapshot: Snapshot,
    decided: Decided,
    replaced: Mapping[tuple[int, int | None], str],
    vanished: Mapping[tuple[int, int | None], int | None],
    since: Mapping[int, str],
) -> PlanRow:
    at = snapshot.partitions[decided.partition_id]
    topic = snapshot.topics[at.topic]
    binding = decided.binding_group_id
    committed = decided.binding_committed_offset
    if decided.reason is Reason.GROUP_VANISHED:
        committed = vanished.get((decided.partition_id, binding))
    group = None if binding is None else snapshot.groups[binding]
    return PlanRow(
        topic=topic.name,
        partition=at.partition,
        topic_id=topic.topic_id,
        log_start_offset=at.log_start_offset,
        high_watermark=at.high_watermark,
        min_committed_offset=decided.min_committed_offset,
        binding_group=None if group is None else group.group_id,
        binding_committed_offset=committed,
        binding_since=since.get(decided.partition_id),
        retention_offset=(None if isinstance(topic.policy, NoPolicy) else at.retention_offset),
        cutoff=decided.cutoff,
        verdict=VERDICT_OF[decided.reason],
        reason=decided.reason,
        groups=decided.groups or 0,
        records=decided.records,
        detail=detail(snapshot, at, decided, group, replaced),
        binding_kind=None if group is None else group.reader_kind,
        consumed_retention_ms=(
            None if isinstance(topic.policy, NoPolicy) else at.retention_ms(topic.policy)
        ),
        only_groups=None if isinstance(topic.policy, NoPolicy) else topic.policy.only_groups,
        owner=topic.policy.owner,
        fence=topic.policy.fence,
        dry_run=topic.policy.dry_run,
        is_compacted="compact" in topic.cleanup_policy,
    )
