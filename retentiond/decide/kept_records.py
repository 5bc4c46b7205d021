"""Which records stay and why, and what records take on disk."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from retentiond.fields import (
    API,
    BYTES,
    FIRST_LOOK,
    PARTITION,
    RECORDS,
    TEXT,
    described,
    figure,
    said,
    total,
)
from retentiond.model import PlanRow, Reason, Verdict
from retentiond.reasons import CAUSED_BY_A_GROUP


class KeptBecause(NamedTuple):
    """Why records stay: a reason, and the group that is its cause, if there is one."""

    reason: Reason
    group: str | None = None


KEPT_BY_AGE = KeptBecause(Reason.TOO_YOUNG)
KEPT_UNTIL_WORTHWHILE = KeptBecause(Reason.NOT_WORTHWHILE)
KEPT_BY_LIMIT = KeptBecause(Reason.LIMIT_REACHED)


@described
class KeptRecords:
    """Records that stay for one cause."""

    reason: Reason = said(TEXT, "why the records stay, as a row of the plan says it")
    binding_group: str | None = said(TEXT, "the group that is the cause; null: none is")
    records: int = said(RECORDS, "how many records stay")
    size_bytes: int | None = said(
        BYTES,
        "about what they take on the disks of all replicas, their share of the bytes of each "
        "partition; null if these are not known",
        (PARTITION,),
    )

    @figure(
        BYTES,
        "about what they take on the disks of all replicas, their share of the bytes of each "
        "partition; null if these are not known",
        (API, FIRST_LOOK),
    )
    def approximate_bytes(self) -> int | None:
        return self.size_bytes

    @property
    def keeper(self) -> KeptBecause:
        return KeptBecause(self.reason, self.binding_group)


def kept_of(row: PlanRow, size_bytes: int | None) -> tuple[KeptRecords, ...]:
    """What stays of a partition, by cause. ``size_bytes``: of all its replicas, None if it is not
    known; a cause has its share of these."""
    there = (row.high_watermark or 0) - (row.log_start_offset or 0)
    return tuple(
        KeptRecords(*keeper, records, None if size_bytes is None else size_bytes * records // there)
        for keeper, records in kept_records(row).items()
    )


def cause(row: PlanRow) -> KeptBecause:
    """The row's reason, and its binding group if the group is the cause."""
    return KeptBecause(row.reason, row.binding_group if row.reason in CAUSED_BY_A_GROUP else None)


def kept_records(row: PlanRow) -> dict[KeptBecause, int]:
    """How many records stay, by cause; empty if the offsets are unreadable.

    A group keeps the records that it has yet to read and that are old enough to go. Younger
    records stay because of their age, whether or not they are read. A reason that holds the whole
    topic keeps all its records. If a limit lowers the cutoff of a deletion, the limit keeps what
    the group has read above the cutoff. A deletion that waits until it is worthwhile keeps what is
    below its cutoff.
    """
    log_start, end = row.log_start_offset, row.high_watermark
    if log_start is None or end is None:
        return {}
    start = log_start
    keeper = cause(row)
    is_lowered = row.verdict is Verdict.DELETE and row.is_limited
    waits = row.reason is Reason.NOT_WORTHWHILE
    if row.verdict is Verdict.DELETE or waits:
        keeper = KeptBecause(Reason.OPEN_TRANSACTION)
        if is_lowered or row.cutoff == row.min_committed_offset:
            keeper = KeptBecause(Reason.NOT_CONSUMED, row.binding_group)
        start = start if row.cutoff is None else row.cutoff
    is_age_a_bound = row.verdict is not Verdict.HOLD or keeper.group is not None
    retention_offset = row.retention_offset if is_age_a_bound else None
    old_end = end if retention_offset is None else min(max(start, retention_offset), end)
    kept = {KEPT_BY_AGE: end - old_end}
    if is_lowered and row.min_committed_offset is not None:
        read_end = min(row.min_committed_offset, old_end)
        kept[KEPT_BY_LIMIT], start = read_end - start, read_end
    if waits:
        kept[KEPT_UNTIL_WORTHWHILE] = start - log_start
    kept[keeper] = kept.get(keeper, 0) + old_end - start
    return {because: records for because, records in kept.items() if records > 0}


def summed_by_keeper(parts: Iterable[KeptRecords]) -> Iterator[KeptRecords]:
    """One sum for each cause."""
    by_keeper: defaultdict[KeptBecause, list[KeptRecords]] = defaultdict(list)
    for part in parts:
        by_keeper[part.keeper].append(part)
    for keeper, kept in by_keeper.items():
        size_bytes = total(part.size_bytes for part in kept)
        yield KeptRecords(*keeper, sum(part.records for part in kept), size_bytes)


def most_records_first(kept: KeptRecords) -> tuple[int, str, str]:
    return -kept.records, kept.reason, kept.binding_group or ""
