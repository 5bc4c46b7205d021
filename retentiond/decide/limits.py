"""Which of the plan's deletions a cycle may carry out now: only on settled topics, not before they
free something, not during a pause, and within the limits.

Invariants: the limits are never exceeded, and a cutoff is only ever lowered. Deletion always
makes progress: if the first deletion is too large for a whole cycle, the cycle does a part of it,
up to the limit, and the next cycle does the next part. Partitions that a cycle leaves out come
first in the next one, so none waits for ever, however busy the others are. Nor does what frees too
little: its time goes on whatever holds it meanwhile, and ends with a deletion only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from retentiond.config import Limits, Worthwhile
from retentiond.fields import rfc3339
from retentiond.formatting import say_about, say_bytes, say_many
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


class Wait(NamedTuple):
    """For how long a partition could have gone, and was not deleted. ``since_ms``: epoch
    milliseconds, only to be told. ``waited_ms``: how much time has certainly passed since then."""

    topic: str
    partition: int
    topic_id: str | None
    since_ms: int
    waited_ms: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def waits(
    rows: Iterable[PlanRow], before: Iterable[Wait], passed_ms: int, now_ms: int
) -> tuple[Wait, ...]:
    """The waits of the partitions that could go in this cycle, or only a hold keeps from that.

    ``before``: those of the last cycle, ``passed_ms`` ago. The wait begins anew where nothing could
    go in between, and on another topic of the same name.
    """
    waits_before = {wait.topic_partition: wait for wait in before}
    waits_now = []
    for row in rows:
        wait = waits_before.get(row.topic_partition)
        if wait and row.topic_id is not None and wait.topic_id != row.topic_id:
            wait = None
        if wait and row.verdict is not Verdict.NOTHING:
            waits_now.append(wait._replace(waited_ms=wait.waited_ms + passed_ms))
        elif row.verdict is Verdict.DELETE:
            waits_now.append(Wait(row.topic, row.partition, row.topic_id, now_ms, 0))
    return tuple(waits_now)


def if_worthwhile(
    rows: Sequence[PlanRow],
    worthwhile: Worthwhile,
    frees: Mapping[TopicPartition, int],
    waiting: Iterable[Wait],
) -> tuple[PlanRow, ...]:
    """Lets deletions wait that would free too little, unless they have waited for long enough or a
    disk is under pressure. ``frees``: bytes, where they are known; unknown bytes don't wait."""
    since = {wait.topic_partition: wait for wait in waiting}

    def unless_too_little(row: PlanRow) -> PlanRow:
        freed, wait = frees.get(row.topic_partition), since.get(row.topic_partition)
        if (
            row.verdict is not Verdict.DELETE
            or row.under_pressure
            or freed is None
            or freed >= worthwhile.minimum_bytes
            or wait is None
            or wait.waited_ms >= worthwhile.after_ms
        ):
            return row
        return replace(
            row,
            verdict=Verdict.NOTHING,
            reason=Reason.NOT_WORTHWHILE,
            predicted_bytes=freed,
            detail=(
                f"{say_many(row.records, 'record')} could go since {rfc3339(wait.since_ms)}, and "
                f"would free {say_bytes(freed)}, less than limits.worthwhile.bytes "
                f"({say_bytes(worthwhile.minimum_bytes)}): the deletion waits until it frees as "
                f"much, for another {say_about(worthwhile.after_ms - wait.waited_ms)} at most"
            ),
        )

    return tuple(map(unless_too_little, rows))


def in_order(
    rows: Iterable[PlanRow],
    limits: Limits,
    frees: Mapping[TopicPartition, int],
    failed: Collection[TopicPartition],
) -> tuple[TopicPartition, ...]:
    """The order in which a limit takes the deletions that no earlier cycle left out, now or once
    their topic is settled: those that free most first, and last those whose last request
    ``failed``."""
    if not limits.has_any:
        return ()

    def order(row: PlanRow) -> tuple[bool, int]:
        return row.topic_partition in failed, -frees.get(row.topic_partition, 0)

    deletions = (
        row for row in rows if row.verdict is Verdict.DELETE or row.reason is Reason.LIMIT_REACHED
    )
    return tuple(row.topic_partition for row in sorted(deletions, key=order))


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
