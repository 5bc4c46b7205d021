"""Who or what keeps the records of a partition that a plan does not delete."""

from __future__ import annotations

from typing import NamedTuple

from retentiond.model import PlanRow, Reason, Verdict


class Keeper(NamedTuple):
    """A reason, and the group that is its cause, where one is."""

    reason: Reason
    group: str | None = None


YOUTH = Keeper(Reason.TOO_YOUNG)


def kept_records(row: PlanRow) -> dict[Keeper, int]:
    """How many records stay on whose account; empty where the offsets are unread.

    A group keeps the records that are old enough to go without it; younger ones stay on account
    of their age, whoever has yet to read them. What holds the whole topic keeps all of it. Of a
    plan with limits, what only they keep counts for a transaction.
    """
    start, end = row.log_start_offset, row.high_watermark
    if start is None or end is None:
        return {}
    if row.verdict is Verdict.DELETE and row.cutoff is not None:
        start = row.cutoff
    keeper = _keeper(row)
    is_age_a_bound = row.verdict is not Verdict.HOLD or keeper.group is not None
    young_since = row.retention_offset if is_age_a_bound else None
    old_end = end if young_since is None else min(max(start, young_since), end)
    kept = {YOUTH: end - old_end}
    kept[keeper] = kept.get(keeper, 0) + old_end - start
    return {each: records for each, records in kept.items() if records > 0}


def _keeper(row: PlanRow) -> Keeper:
    """Who keeps the old records; of a deletion, those from the cutoff on."""
    if row.verdict is Verdict.DELETE:
        if row.cutoff == row.min_committed_offset:
            return Keeper(Reason.NOT_CONSUMED, row.binding_group)
        return Keeper(Reason.OPEN_TRANSACTION)
    return Keeper(row.reason, row.binding_group if row.reason in CAUSED_BY_A_GROUP else None)


CAUSED_BY_A_GROUP = frozenset(
    {
        Reason.NOT_CONSUMED,
        Reason.REQUIRED_GROUP_MISSING,
        Reason.GROUP_WITHOUT_COMMIT,
        Reason.GROUP_VANISHED,
        Reason.GROUP_UNREADABLE,
        Reason.COMMIT_BEYOND_END,
        Reason.COMMIT_REWOUND,
    }
)
