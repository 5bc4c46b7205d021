"""What the rule says of each partition at each entry, by what was recorded of it.

The rule is asked with a retention of 0, so its cutoff is bound by readers, open transactions and
the end alone. `retentiond.history.ask.replay` adds the age. Invariant: what the live rule holds
has no bound here, and neither has what the record doesn't tell.

The log start offset is taken to be below everything: the record has the one that the daemon of
that time has left, and where a simulated one lies follows from all that was deleted before.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame

from retentiond.decide.rule import with_bounds, with_reason, with_topic_reason
from retentiond.history.ask.question import POLICY_COLUMNS
from retentiond.model import VERDICT_OF, Reason, Verdict

HOLDS_JUDGED_AGAIN = (
    Reason.RETENTION_EXCEEDS_FORCED,
    Reason.POLICY_CONFLICT,
    Reason.OPEN_TRANSACTION,
    Reason.EVIDENCE_CHANGED,
    Reason.LIMIT_REACHED,
    Reason.PAUSED,
)
"""Holds that the policy of that time caused, or the moment: they are judged again."""

HOLDS_OF_ANY_POLICY = tuple(
    reason
    for reason, verdict in VERDICT_OF.items()
    if verdict is Verdict.HOLD and reason not in HOLDS_JUDGED_AGAIN
)
"""Holds that any policy with the same groups would have met."""

HOLDS_BY_GROUPS = (
    Reason.NO_GROUP,
    Reason.TOO_FEW_GROUPS,
    Reason.REQUIRED_GROUP_MISSING,
    Reason.GROUP_WITHOUT_COMMIT,
    Reason.GROUP_VANISHED,
    Reason.GROUP_UNREADABLE,
    Reason.COMMIT_BEYOND_END,
    Reason.COMMIT_REWOUND,
)
"""Holds of `HOLDS_OF_ANY_POLICY` that depend on which groups count."""

UNREADABLE_REASONS = (
    Reason.GROUP_UNREADABLE,
    Reason.OFFSET_UNREADABLE,
    Reason.GROUP_LIST_INCOMPLETE,
)
"""Reasons of rows that don't tell where the readers stood."""

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
"""The rule's columns that name who causes a hold. The record has the hold instead."""

JUDGED_COLUMNS = (
    "log",
    "order",
    "weight",
    "retention",
    "pressure_retention",
    "recorded_start AS log_start_offset",
    "high_watermark",
    "size_bytes",
    "log_dirs",
    f"IF(NOT holds AND reason = '{Reason.CONSUMED.value}', cutoff, NULL) AS bound",
    "IF(is_told, coalesce(lowest_commit, -1L), NULL) AS lowest",
)


def judged_by_record(recorded: DataFrame) -> DataFrame:
    """``recorded`` is of `retentiond.history.ask.replay`. Same grain.

    Columns: log, order: long; weight?, retention?, pressure_retention?: see there;
    log_start_offset?, high_watermark?, size_bytes?: long, log_dirs?: string, as recorded; bound?:
    long, the cutoff under a retention of 0, null where the rule holds or nothing is known; lowest?:
    long, the smallest commit that a reader may have had, null where the record doesn't tell.
    """
    return judged(recorded, HOLDS_OF_ANY_POLICY, CAUSES_UNNAMED)


def judged_by_commits(counted: DataFrame) -> DataFrame:
    """The same with other groups than counted then. ``counted`` has the columns of
    `retentiond.history.ask.replay` and of `retentiond.history.ask.readers.counted`."""
    return judged(
        counted,
        [each for each in HOLDS_OF_ANY_POLICY if each not in HOLDS_BY_GROUPS],
        CAUSES_COUNTED,
    )


def judged(recorded: DataFrame, facts: Iterable[Reason], found: Iterable[str]) -> DataFrame:
    """``facts``: reasons of the record that hold; ``found``: expressions of the columns of
    `groups_by_topic` and `commits_by_partition`, and of `CAUSE_COLUMNS`; and lowest_commit, null
    where somebody's is not known."""
    questioned = recorded.selectExpr(
        "log",
        "order",
        "weight",
        "retention",
        "pressure_retention",
        *POLICY_COLUMNS,
        "log_start_offset AS recorded_start",
        "IF(log_start_offset IS NULL, NULL, -1L) AS log_start_offset",
        "high_watermark",
        "last_stable_offset",
        "high_watermark AS retention_offset",
        "size_bytes",
        "log_dirs",
        "forced_retention_ms",
        "false AS failed",
        "false AS internal",
        "true AS deletes",
        "false AS compacts",
        "true AS allow_compacted",
        "false AS recreated",
        "CAST(NULL AS INT) AS changelog_group_id",
        "NOT complete AS hidden",
        f"NOT is_known OR coalesce(reason IN {_listed(facts)}, true) AS holds",
        f"complete AND coalesce(reason NOT IN {_listed(UNREADABLE_REASONS)}, false) AS is_told",
        *found,
    )
    return with_reason(with_topic_reason(with_bounds(questioned)), complete=True).selectExpr(
        *JUDGED_COLUMNS
    )


CAUSES_UNNAMED = (
    "nullif(groups, 0) AS groups",
    "min_committed_offset AS min_offset",
    "IF(min_committed_offset IS NULL, -1, groups) AS readable_commits",
    "min_committed_offset AS lowest_commit",
    *(f"CAST(NULL AS {kind}) AS {name}" for name, kind in CAUSE_COLUMNS.items()),
)

CAUSES_COUNTED = (
    "counted_groups AS groups",
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
    # Those who counted then may miss something, too: the smallest commit of these is recorded.
    "IF(coalesce(commits = readable_commits, true) AND min_committed_offset IS NOT NULL,"
    " least(min_offset, min_committed_offset), NULL) AS lowest_commit",
)
"""A commit that proves nothing is unreadable here, so that whoever made it holds."""


def _listed(reasons: Iterable[Reason]) -> str:
    return f"({', '.join(repr(each.value) for each in reasons)})"
