"""The blast radius of one cycle: at most so many records, from at most so many partitions.

Invariants: the limits are never exceeded, and a cutoff is only ever lowered. Deletion always
goes on: a first deletion that is too large for a whole cycle is done in part, up to the limit,
and the next cycle does the next part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from retentiond.config import Limits
from retentiond.model import PlanRow, Reason, Verdict


def within_limits(rows: Iterable[PlanRow], limits: Limits) -> tuple[PlanRow, ...]:
    """The same rows in the same order; deletions that don't fit become holds.

    A row that doesn't fit takes nothing from the limits, so smaller ones after it may still go.
    """
    records, partitions = limits.records_per_cycle, limits.partitions_per_cycle
    limited: list[PlanRow] = []
    records_taken = partitions_taken = 0
    for planned in rows:
        row = planned
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
        limited.append(row)
    return tuple(limited)


def unless_paused(rows: Iterable[PlanRow], pause: object) -> tuple[PlanRow, ...]:
    """The same rows; while there is a ``pause``, whose text says why, deletions become holds."""
    return tuple(
        row
        if pause is None or row.verdict is not Verdict.DELETE
        else _held(row, str(pause), Reason.PAUSED)
        for row in rows
    )


def once_settled(
    rows: Iterable[PlanRow], agreed: Mapping[str, int], settle_cycles: int
) -> tuple[PlanRow, ...]:
    """The same rows; deletions on topics whose groups have not been the same for so many
    complete cycles become holds. ``agreed`` counts them by topic."""

    def checked(row: PlanRow) -> PlanRow:
        count = agreed.get(row.topic, 0)
        if row.verdict is not Verdict.DELETE or count >= settle_cycles:
            return row
        return _held(
            row,
            f"the topic's groups have been the same for {count} complete cycles, and "
            f"limits.settle_cycles asks for {settle_cycles}",
        )

    return tuple(map(checked, rows))


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
        detail=f"limits.records_per_cycle ({records}) lowers the cutoff from {row.cutoff}",
    )
