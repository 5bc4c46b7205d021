"""Applies the rule to each recorded partition at each entry.

The rule is applied with a retention of 0, so only readers, open transactions and the end bound its
cutoff. `retentiond.history.ask.replay` adds the age. Invariant: a partition that the live rule
holds has no bound here, nor has one whose record doesn't tell enough.

The log start offset is taken to be below everything. The recorded one is the result of the
daemon's own deletions, and a simulated one follows from all simulated deletions before.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame

from retentiond.decide.rule import with_bounds, with_reason, with_topic_reason
from retentiond.history.ask.question import POLICY_COLUMNS
from retentiond.model import VERDICT_OF, Reason, Verdict
from retentiond.reasons import CAUSED_BY_A_GROUP, REASONS, Class, reasons_of

HOLDS_OF_ANY_POLICY = tuple(
    reason
    for reason, verdict in VERDICT_OF.items()
    if verdict is Verdict.HOLD and Class.AGAIN not in REASONS[reason].classes
)
"""Holds that any policy with the same groups would have had."""

HOLDS_BY_GROUPS = {*reasons_of(Class.COUNTED), *(CAUSED_BY_A_GROUP & {*HOLDS_OF_ANY_POLICY})}
"""Holds of `HOLDS_OF_ANY_POLICY` that depend on which groups count."""

WITHOUT_POSITIONS = reasons_of(Class.POSITIONLESS)

CAUSE_COLUMNS = {
    "silent_group_id": "INT",
    "vanished_group_id": "INT",
    "missing_group_id": "INT",
    "failed_group_id": "INT",
    "unreadable_group_id": "INT",
    "replaced_group_id": "INT",
    "max_offset": "BIGINT",
    "rewound": "BOOLEAN",
}
"""The rule's columns that name the group that causes a hold. The record has only the hold."""

JUDGED_COLUMNS = (
    "log",
    "order",
    "weight",
    "retention",
    "recorded_start AS log_start_offset",
    "high_watermark",
    "size_bytes",
    "recorded_retention_offset",
    f"IF(NOT holds AND reason = '{Reason.CONSUMED.value}', cutoff, NULL) AS bound",
    "IF(is_told, coalesce(lowest_commit, -1L), NULL) AS lowest",
)


def judged_by_record(recorded: DataFrame) -> DataFrame:
    """The judgement if the same groups count as then. ``recorded`` is the result of
    `retentiond.history.ask.replay.Replay.recorded`; same grain.

    Columns: log, order: long; weight?, retention?, recorded_retention_offset?: as in ``recorded``;
    log_start_offset?, high_watermark?, size_bytes?: long, as recorded; bound?: long, the cutoff
    under a retention of 0, null if the rule holds or nothing is known; lowest?: long, the smallest
    commit that a reader may have had, null if the record doesn't tell.
    """
    return judged(
        recorded,
        HOLDS_OF_ANY_POLICY,
        (*WITHOUT_POSITIONS, Reason.GROUP_UNREADABLE),
        CAUSES_UNNAMED,
    )


def judged_by_commits(counted: DataFrame) -> DataFrame:
    """The judgement if other groups count than did then. ``counted`` has the columns of
    `retentiond.history.ask.replay.Replay.recorded` and `retentiond.history.ask.readers.counted`."""
    return judged(
        counted,
        [reason for reason in HOLDS_OF_ANY_POLICY if reason not in HOLDS_BY_GROUPS],
        WITHOUT_POSITIONS,  # the tried policy may exclude a group that could not be read
        CAUSES_COUNTED,
    )


def judged(
    recorded: DataFrame,
    holding: Iterable[Reason],
    without_positions: Iterable[Reason],
    causes: Iterable[str],
) -> DataFrame:
    """``holding``: recorded reasons that still hold. ``without_positions``: those of rows that
    don't tell where the readers stood. ``causes``: expressions for the columns of
    `groups_by_topic` and `commits_by_partition`, for `CAUSE_COLUMNS`, and for lowest_commit, which
    is null if a group's commit is not known."""
    # Groups that are hidden from one topic don't matter to another that assumes them visible.
    is_seen = (
        "complete OR (assumes_visible_groups AND"
        f" coalesce(reason NOT IN {_listed(reasons_of(Class.BEFORE_HIDDEN))}, false))"
    )
    is_told = f"coalesce(reason NOT IN {_listed(without_positions)}, false)"
    rule_input = recorded.selectExpr(
        "log",
        "order",
        "weight",
        "retention",
        *POLICY_COLUMNS,
        "log_start_offset AS recorded_start",
        "IF(log_start_offset IS NULL, NULL, -1L) AS log_start_offset",
        "high_watermark",
        "last_stable_offset",
        "high_watermark AS retention_offset",
        "size_bytes",
        "recorded_retention_offset",
        "forced_retention_ms",
        "false AS failed",
        "false AS internal",
        "true AS deletes",
        "false AS compacts",
        "false AS recreated",
        "CAST(NULL AS INT) AS changelog_group_id",
        f"NOT ({is_seen}) AS hidden",
        f"NOT is_known OR coalesce(reason IN {_listed(holding)}, true) AS holds",
        f"({is_seen}) AND {is_told} AS is_told",
        *causes,
    )
    return with_reason(with_topic_reason(with_bounds(rule_input)), complete=True).selectExpr(
        *JUDGED_COLUMNS
    )


CAUSES_UNNAMED = (
    "nullif(groups, 0) AS groups",
    "nullif(groups, 0) AS own_groups",  # if they were too few, the record has the hold
    "min_committed_offset AS min_offset",
    "IF(min_committed_offset IS NULL, -1, groups) AS readable_commits",
    "min_committed_offset AS lowest_commit",
    *(f"CAST(NULL AS {kind}) AS {name}" for name, kind in CAUSE_COLUMNS.items()),
)

CAUSES_COUNTED = (
    "counted_groups AS groups",
    "own_groups",
    "min_offset",
    "readable_commits",
    "IF(coalesce(counted_groups, 0) > coalesce(commits, 0), 0, NULL) AS silent_group_id",
    "CAST(NULL AS INT) AS vanished_group_id",
    "missing_group_id",
    "failed_group_id",
    "unreadable_group_id",
    "CAST(NULL AS INT) AS replaced_group_id",
    "max_offset",
    "CAST(NULL AS BOOLEAN) AS rewound",  # a commit below where the log would begin deletes nothing
    # Groups that counted then may miss something, too; their smallest commit is recorded.
    "IF(coalesce(commits = readable_commits, true) AND min_committed_offset IS NOT NULL,"
    " least(min_offset, min_committed_offset), NULL) AS lowest_commit",
)
"""A commit that proves nothing counts as unreadable here, so that its group holds."""


def _listed(reasons: Iterable[Reason]) -> str:
    return f"({', '.join(repr(reason.value) for reason in reasons)})"
