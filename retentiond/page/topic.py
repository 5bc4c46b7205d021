"""What a topic's page shows: why, who reads it, and its partitions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from retentiond.collect.remembered import LastCommits
from retentiond.disk.stuck import Stuck
from retentiond.explain.keepers import CAUSED_BY_A_GROUP
from retentiond.look.summary import Kept, TopicLook
from retentiond.model import (
    DeletionOutcome,
    GroupKind,
    PlanRow,
    Reason,
    TopicPartition,
    Verdict,
)
from retentiond.observe.report import CycleReport
from retentiond.page.overview import outcome_of
from retentiond.page.paging import Paged, paged
from retentiond.page.picture import Part, bar, fates, mark, most_records

Readers = Mapping[str, LastCommits]
"""The groups that are remembered, by their name."""

BAR = 160.0
"""Units of a partition's bar; the fullest partition of the topic fills it."""

MOST_REASONS = 12
MOST_GROUPS = 100


@dataclass(frozen=True, slots=True)
class ReasonItem:
    """Partitions with the same reason, and the same group if one is the cause; ``example`` is
    the first.
    ``deleted``: those of them whose records the cycle has deleted."""

    reason: Reason
    group: str | None
    partitions: int
    deleted: int
    example: PlanRow


@dataclass(frozen=True, slots=True)
class GroupItem:
    """A group that reads the topic. ``lag``: records that it has yet to read, on the partitions
    where it has committed; ``binds``: partitions whose smallest commit,
    or whose hold, is its. ``kept``: what stays on its account alone. ``stands_since_ms``: since
    when its commit stands where it has stood the longest with records yet to read; None: it has
    read all, or nobody has seen it. ``kind`` None: only the plan knows it."""

    group_id: str
    kind: GroupKind | None
    lag: int | None
    committed: int
    binds: int
    kept: Kept | None
    stands_since_ms: int | None
    absent_since_ms: int | None


@dataclass(frozen=True, slots=True)
class PartitionItem:
    """``parts`` and the marks are its picture, from log start offset to high watermark.
    ``since_ms``: since when the group that is the cause stands there, or has vanished."""

    row: PlanRow
    outcome: DeletionOutcome | None
    size_bytes: int | None
    parts: tuple[Part, ...]
    committed_mark: float | None
    since_ms: int | None
    stuck: tuple[Stuck, ...]


@dataclass(frozen=True, slots=True)
class PartitionsWanted:
    verdict: Verdict | None = None
    page: str | None = None


def reasons(report: CycleReport, rows: Sequence[PlanRow]) -> tuple[tuple[ReasonItem, ...], int]:
    """What most partitions have first; and of how many more there is no room."""
    alike: defaultdict[tuple[Reason, str | None], list[PlanRow]] = defaultdict(list)
    for row in rows:
        group = row.binding_group if row.reason in CAUSED_BY_A_GROUP else None
        alike[row.reason, group].append(row)
    items = [
        ReasonItem(reason, group, len(same), sum(map(report.is_deleted, same)), same[0])
        for (reason, group), same in alike.items()
    ]
    items.sort(key=lambda item: (-item.partitions, item.reason, item.group or ""))
    return tuple(items[:MOST_REASONS]), max(0, len(items) - MOST_REASONS)


def groups(look: TopicLook, readers: Readers) -> tuple[tuple[GroupItem, ...], int]:
    """Those that bind most partitions first, then those that lag most; and how many more.

    A group that the plan names and nobody remembers is there too: it has never committed.
    """
    rows = look.rows
    kept = {each.keeper.group: each for each in look.kept}
    binds = Counter(row.binding_group for row in rows if row.binding_group is not None)
    ends = {row.partition: row.high_watermark for row in rows if row.high_watermark is not None}
    items = [
        GroupItem(
            group_id,
            last.kind,
            _lag(ends, last.offsets),
            len(last.offsets),
            binds[group_id],
            kept.get(group_id),
            _stands_since(ends, last),
            last.absent_since_ms,
        )
        for group_id, last in readers.items()
    ]
    items += [
        GroupItem(group_id, None, None, 0, count, kept.get(group_id), None, None)
        for group_id, count in binds.items()
        if group_id not in readers
    ]
    items.sort(key=lambda item: (-item.binds, -(item.lag or 0), item.group_id))
    return tuple(items[:MOST_GROUPS]), max(0, len(items) - MOST_GROUPS)


def _lag(ends: Mapping[int, int], offsets: Mapping[int, int]) -> int | None:
    known = [max(0, ends[each] - offset) for each, offset in offsets.items() if each in ends]
    return sum(known) if known else None


def _stands_since(ends: Mapping[int, int], last: LastCommits) -> int | None:
    return min(
        (
            at_ms
            for partition, at_ms in last.moved_at_ms.items()
            if last.offsets.get(partition, 0) < ends.get(partition, 0)
        ),
        default=None,
    )


def partitions(
    report: CycleReport, rows: Sequence[PlanRow], wanted: PartitionsWanted, readers: Readers
) -> Paged[PartitionItem]:
    found = [row for row in rows if wanted.verdict in (None, row.verdict)]
    page = paged(found, len(rows), wanted.page)
    whole = most_records(rows)
    shown = {TopicPartition(row.topic, row.partition) for row in page.rows}
    stuck = _stuck(report, shown)
    items = [
        PartitionItem(
            row,
            outcome_of(report, row),
            report.disk.size_bytes.get(TopicPartition(row.topic, row.partition)),
            bar(fates(row), BAR, whole),
            mark(row, row.min_committed_offset, BAR, whole),
            _since(row, readers),
            tuple(stuck.get(row.partition, ())),
        )
        for row in page.rows
    ]
    return Paged(items, page.number, page.pages, page.found, page.total)


def _since(row: PlanRow, readers: Readers) -> int | None:
    last = readers.get(row.binding_group or "") if row.reason in CAUSED_BY_A_GROUP else None
    if last is None:
        return None
    gone_ms = last.absent_since_ms
    return gone_ms if gone_ms is not None else last.moved_at_ms.get(row.partition)


def _stuck(report: CycleReport, shown: Collection[TopicPartition]) -> dict[int, list[Stuck]]:
    found: defaultdict[int, list[Stuck]] = defaultdict(list)
    for each in report.disk.stuck:
        if each.at in shown:
            found[each.at.partition].append(each)
    return found
