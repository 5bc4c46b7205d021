"""What the first page shows: every topic of the last plan, by what it frees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from retentiond.look.summary import ClusterLook, Disk, TopicLook, look_at
from retentiond.model import DeletionOutcome, Outcome, PlanRow, TopicPartition, Verdict
from retentiond.observe.report import CycleReport, predicted_bytes, total
from retentiond.page.paging import Paged, paged
from retentiond.page.picture import GO, Part, bar, fate_of
from retentiond.state.freed import Freed

NOTHING_SEEN = look_at(())

BAR = 100.0
"""A topic's bar is that many units wide: its records are all of it."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a visitor asks for; names are matched anywhere in them, case does not count."""

    name: str = ""
    verdict: Verdict | None = None
    page: str | None = None

    def matches(self, topic: TopicLook) -> bool:
        return self.name.casefold() in topic.topic.casefold() and (
            self.verdict is None or any(row.verdict is self.verdict for row in topic.rows)
        )


@dataclass(frozen=True, slots=True)
class TopicItem:
    """A line of the table. ``freed``: by the cycle, or what a dry run would have freed.
    ``verdicts``: its partitions by verdict. ``outcomes``: those approved by what became of them.
    """

    look: TopicLook
    freed: Freed
    verdicts: Mapping[Verdict, int]
    outcomes: Mapping[Outcome, int]
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Overview:
    """``cluster`` and ``freed``: of all topics, whatever is asked for."""

    cluster: ClusterLook
    freed: Freed
    verdicts: Mapping[Verdict, int]
    topics: Paged[TopicItem]


def look_of(report: CycleReport) -> ClusterLook:
    """The plan by topic, those that free most first."""
    freed = {
        TopicPartition(row.topic, row.partition): row.predicted_bytes
        for row in report.plan.rows
        if row.predicted_bytes is not None
    }
    return look_at(report.plan.rows, Disk(report.disk.size_bytes, freed))


def overview(report: CycleReport, cluster: ClusterLook, wanted: Wanted) -> Overview:
    found = paged(
        [topic for topic in cluster.topics if wanted.matches(topic)],
        len(cluster.topics),
        wanted.page,
    )
    items = Paged(
        [topic_item(report, topic) for topic in found.rows],
        found.number,
        found.pages,
        found.found,
        found.total,
    )
    return Overview(
        cluster,
        freed_by(report, report.plan.rows),
        Counter(row.verdict for row in report.plan.rows),
        items,
    )


def topic_item(report: CycleReport, topic: TopicLook) -> TopicItem:
    counts: Counter[str] = Counter({GO: topic.freed_records})
    for keeper, records, _ in topic.kept:
        counts[fate_of(keeper)] += records
    outcomes = Counter(
        outcome.outcome for row in topic.rows if (outcome := outcome_of(report, row)) is not None
    )
    verdicts = Counter(row.verdict for row in topic.rows)
    freed = freed_by(report, topic.rows)
    return TopicItem(topic, freed, verdicts, outcomes, bar(counts, BAR))


def freed_by(report: CycleReport, rows: Iterable[PlanRow]) -> Freed:
    """What was deleted of these, with the bytes that were foretold; on a dry run: would be."""
    gone = [row for row in rows if report.plan.dry_run or report.is_deleted(row)]
    return Freed(sum(row.records for row in gone), total(map(predicted_bytes, gone)))


def outcome_of(report: CycleReport, row: PlanRow) -> DeletionOutcome | None:
    """What became of a row that the guard approved; None for any other."""
    return report.outcomes.get(TopicPartition(row.topic, row.partition))
