"""What the pages of one topic and of one group show.

The page of a topic shows why its records go or stay, which groups read it, and its partitions. The
page of a group shows which partitions it binds, how many records it keeps, and since when.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from retentiond.decide.kept_records import cause
from retentiond.formatting import parse_time
from retentiond.memory.readers import RememberedReader
from retentiond.model import PlanRow, Verdict
from retentiond.tell.figures.answers import PartitionAnswer, SimilarPartitions, TopicAnswer
from retentiond.tell.figures.group_answers import GroupAnswer
from retentiond.tell.figures.group_rows import groups_on
from retentiond.tell.page.overview import Paged, paged
from retentiond.tell.page.render import BarSegment, address, bar, mark, records_by_kind
from retentiond.tell.report import CycleReport

RememberedReaders = Mapping[str, RememberedReader]
"""The remembered groups of a topic, by name."""

BAR = 160.0
"""The width of a partition's bar. The partition with most records fills it."""

MOST_REASONS = 12
MOST_GROUPS = 100


@dataclass(frozen=True, slots=True)
class PartitionItem:
    """A row of the table of partitions. ``parts`` and ``committed_mark`` are its picture, from log
    start offset to high watermark. ``since_ms``: since when the group that causes the hold has not
    moved, or has been missing."""

    answer: PartitionAnswer
    parts: tuple[BarSegment, ...]
    committed_mark: float | None
    since_ms: int | None


@dataclass(frozen=True, slots=True)
class PartitionFilter:
    verdict: Verdict | None = None
    page: str | None = None


def reasons(topic: TopicAnswer) -> tuple[tuple[SimilarPartitions, ...], int]:
    """The partitions by reason and by the group that is the cause, the largest sets first; and how
    many more sets there are."""
    alike = topic.alike(cause)
    return alike[:MOST_REASONS], max(0, len(alike) - MOST_REASONS)


def groups(topic: TopicAnswer, readers: RememberedReaders) -> tuple[tuple[GroupAnswer, ...], int]:
    """The topic's groups, and how many more there are."""
    answers = groups_on(topic, readers)
    return answers[:MOST_GROUPS], max(0, len(answers) - MOST_GROUPS)


def partitions(topic: TopicAnswer, wanted: PartitionFilter) -> Paged[PartitionItem]:
    shown = [
        partition
        for partition in topic.partitions
        if wanted.verdict in (None, partition.row.verdict)
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

    return paged(shown, len(topic.partitions), wanted.page).map(item)


def _cause_since(row: PlanRow) -> int | None:
    is_group = cause(row).group is not None
    return parse_time(row.binding_since) if is_group and row.binding_since else None


def find_group(report: CycleReport, name: str) -> str | None:
    """The group with this name in its address, among the groups that the cycle saw or that bind a
    partition."""
    binding = (row.binding_group for row in report.plan.rows)
    known = dict.fromkeys((*report.group_states, *binding))
    return next((group for group in known if group is not None and address(group) == name), None)
