"""What the pages of one topic and of one group show.

The page of a topic shows why its records go or stay, which groups read it, and its partitions. The
page of a group shows which partitions it binds, how many records it keeps, and since when.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from retentiond.decide.kept_records import cause
from retentiond.formatting import parse_time
from retentiond.model import PlanRow, Verdict
from retentiond.state.groups_lookup import topics_read_by
from retentiond.tell.figures.answers import PartitionAnswer, TopicAnswer
from retentiond.tell.figures.group_rows import GroupRow, group_of
from retentiond.tell.page.overview import Paged, paged
from retentiond.tell.page.render import BarSegment, address, bar, mark, records_by_kind
from retentiond.tell.report import CycleReport

BAR = 160.0
"""The width of a partition's bar. The partition with most records fills it."""


@dataclass(frozen=True, slots=True)
class PartitionItem:
    """A row of the table of partitions. ``parts`` and ``committed_mark`` are its picture, from log
    start offset to high watermark. ``since_ms``: since when the group that causes the hold has not
    moved, or has been missing."""

    answer: PartitionAnswer
    parts: tuple[BarSegment, ...]
    committed_mark: float | None
    since_ms: int | None


def partitions(
    topic: TopicAnswer, verdict: Verdict | None, page: str | None
) -> Paged[PartitionItem]:
    """``verdict``: None means any. ``page``: its number in the address."""
    shown = [
        partition for partition in topic.partitions if verdict in (None, partition.row.verdict)
    ]
    whole = max(partition.log_records or 0 for partition in topic.partitions)

    def item(answer: PartitionAnswer) -> PartitionItem:
        row = answer.row
        return PartitionItem(
            answer,
            bar(records_by_kind(answer), BAR, whole),
            mark(row, row.min_committed_offset, BAR, whole),
            _cause_since(row),
        )

    return paged(shown, len(topic.partitions), page).map(item)


def _cause_since(row: PlanRow) -> int | None:
    is_group = cause(row).group is not None
    return parse_time(row.binding_since) if is_group and row.binding_since else None


def group_named(report: CycleReport, name: str, state_dir: Path) -> GroupRow | None:
    """The group with this name in its address, among those that the cycle saw, that bind a
    partition or that are remembered. None if there is none."""
    binding = (row.binding_group for row in report.plan.rows)
    known = (group for group in (*report.group_states, *binding) if group is not None)
    found = next((group for group in known if address(group) == name), None)
    group_id = name if found is None else found
    reads = topics_read_by(state_dir, group_id)
    return None if found is None and not reads else group_of(report, group_id, reads)
