"""Which of the plan's deletions a cycle may carry out now: only on settled topics, not during a
pause, and within the limits.

Invariants: the limits are never exceeded, and a cutoff is only ever lowered. Deletion always
makes progress: if the first deletion is too large for a whole cycle, the cycle does a part of it,
up to the limit, and the next cycle does the next part. Partitions that a cycle leaves out come
first in the next one, so none waits for ever, however busy the others are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from retentiond.config import Limits
from retentiond.formatting import say_many
from retentiond.model import PlanRow, Reason, TopicPartition, Verdict, in_turn


def once_settled(
    rows: Iterable[PlanRow], agreed: Mapping[str, int], settle_cycles: int
) -> tuple[PlanRow, ...]:
    """Holds deletions on topics whose groups have not been the same for ``settle_cycles`` complete
    cycles. ``agreed`` has the number of such cycles by topic.

    The reason is `Reason.LIMIT_REACHED`, as docs/semantics.md says: ``settle_cycles`` is one of the
    ``limits``. So these partitions come first in the next cycle, like all that a limit leaves out.
    """
    return tuple(
        row
        if row.verdict is not Verdict.DELETE or agreed.get(row.topic, 0) >= settle_cycles
        else _held(
            row,
            "the topic's groups have been the same for "
            f"{say_many(agreed.get(row.topic, 0), 'complete cycle')}, and limits.settle_cycles "
            f"asks for {settle_cycles}",
        )
        for row in rows
    )


def unless_paused(rows: Iterable[PlanRow], pause: object) -> tuple[PlanRow, ...]:
    """The text of the ``pause`` says why."""
    return tuple(
        row
        if pause is None or row.verdict is not Verdict.DELETE
        else _held(row, str(pause), Reason.PAUSED)
        for row in rows
    )


def within_limits(
    rows: Sequence[PlanRow], limits: Limits, waiting: Sequence[TopicPartition] = ()
) -> tuple[PlanRow, ...]:
    """Holds deletions that exceed the limits. The ``waiting`` partitions come first (under disk
    pressure, those that free most follow them: `Relieved.most_first`). A deletion
    that doesn't fit takes nothing from the limits, so smaller ones after it may still fit. A trial
    deletes nothing: the limits don't apply to it, and it leaves them to the others."""
    records, partitions = limits.records_per_cycle, limits.partitions_per_cycle
    limited = list(rows)
    records_taken = 0
    partitions_taken = 0
    for position in in_turn(rows, waiting):
        row = rows[position]
        if row.dry_run:
            continue
        if row.verdict is Verdict.DELETE:
            if partitions is not None and partitions_taken >= partitions:
                row = _held(row, f"limits.partitions_per_cycle ({partitions}) is reached")
            elif records is not None and records_taken + row.records > records:
                row = (
                    _lowered(row, records)
                    if partitions_taken == 0
                    else _held(
                        row,
                        f"limits.records_per_cycle ({records}) leaves {records - records_taken}, "
                        f"and here are {row.records} to delete",
                    )
                )
        if row.verdict is Verdict.DELETE:
            records_taken += row.records
            partitions_taken += 1
        limited[position] = row
    return tuple(limited)


def _held(row: PlanRow, why: str, reason: Reason = Reason.LIMIT_REACHED) -> PlanRow:
    return replace(row, verdict=Verdict.HOLD, reason=reason, records=0, detail=why)


def _lowered(row: PlanRow, records: int) -> PlanRow:
    """The first part of a deletion that is too large for one cycle."""
    if row.log_start_offset is None or row.cutoff is None or records < 1:
        return _held(row, f"limits.records_per_cycle ({records}) allows none")
    return replace(
        row,
        cutoff=row.log_start_offset + records,
        records=records,
        is_limited=True,
        detail=f"limits.records_per_cycle ({records}) lowers the cutoff from {row.cutoff}",
    )
