"""What the pages show of the whole: the daemon's health on every page, and on the first page all
topics of the last plan, by default those first that free most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from retentiond.disks.broker_disks import DiskReport
from retentiond.fields import PAGE, TEXT, WORD, described, figures_of, said, total
from retentiond.formatting import say_bytes, say_many
from retentiond.model import Outcome, Verdict
from retentiond.state.operator_actions import Pause
from retentiond.tell.figures.answers import (
    ClusterAnswer,
    PartitionAnswer,
    TopicAnswer,
    caveats,
    say_trials,
)
from retentiond.tell.figures.pressure import say_relief
from retentiond.tell.page.render import BarSegment, bar, records_by_kind
from retentiond.tell.report import CycleReport
from retentiond.tell.web import DaemonStatus

GOOD, INFO, WARN, BAD = "good", "info", "warn", "bad"
"""How much a finding matters."""


@described
class HealthFinding:
    """A state of the daemon. ``level``: `GOOD`, `INFO`, `WARN` or `BAD`."""

    level: str = said(WORD, "good, info, warn or bad")
    word: str = said(TEXT, "its name")
    why: str = said(TEXT, "a sentence about it")


def next_cycle_ms(status: DaemonStatus) -> int | None:
    """About when the next cycle is due, in epoch milliseconds; None if it may come at any
    moment."""
    report = status.report
    if report is None or status.problem:
        return None
    interval_ms = status.pressure_interval_ms if report.disk.relief else None
    return report.plan.planned_at_ms + (interval_ms or status.interval_ms)


def findings(status: DaemonStatus, pause: Pause | None) -> Iterator[HealthFinding]:
    """At least one finding, the gravest first. ``pause``: the present one, not the one that the
    last cycle found."""
    report = status.report
    gravest = [*_cycle_findings(status, report)]
    if pause is not None:
        details = str(pause).removeprefix("paused").lstrip(" :")
        gravest.append(HealthFinding(WARN, "Paused", f"{details}; `retentiond resume` ends it"))
    if report is not None and report.undone:
        level = BAD if status.unready() else WARN
        gravest.append(HealthFinding(level, "Deletions not done", "; ".join(report.undone)))
    if report is not None and report.disk.problems:
        gravest.append(HealthFinding(WARN, "Disks", report.disk.problems[0]))
    if report is not None and report.plan.dry_run:
        gravest.append(HealthFinding(INFO, "Dry run", "it plans and explains, and deletes nothing"))
    if report is not None and report.trials:
        gravest.append(HealthFinding(INFO, "On trial", say_trials(report.trials)))
    yield from gravest or [
        HealthFinding(GOOD, "Healthy", "the last cycle saw every group and did what it had planned")
    ]
    if report is not None:
        yield from _disk_findings(report.disk)
        for sentence in report.unnamed_readers:
            yield HealthFinding(INFO, "External readers", sentence)
        for sign in report.unseen:
            yield HealthFinding(INFO, "Unseen readers", f"there may be some: {sign}")
        for caveat in caveats(report.answers.topics):
            yield HealthFinding(INFO, *caveat)
    for sentence in status.of_configuration():
        yield HealthFinding(WARN, "Configuration", sentence)
    for file in status.unreadable:
        yield HealthFinding(
            WARN, "Policy file", f"the topics of its fence are held: {file.problem}"
        )
    if problem := status.history_problem():
        yield HealthFinding(INFO, "History", problem)


def _cycle_findings(status: DaemonStatus, report: CycleReport | None) -> Iterator[HealthFinding]:
    unready = status.unready()
    if (stuck := status.stuck()) is not None:
        yield HealthFinding(BAD, "Stuck", f"{stuck}; restart retentiond")
    if status.needs_restart:
        yield HealthFinding(BAD, "Stopped", status.needs_restart)
    elif status.problem:
        yield HealthFinding(
            BAD,
            "Failing",
            f"the last cycle brought no plan: {status.problem}; the next try comes by itself",
        )
    elif report is not None and report.failure is not None:
        yield HealthFinding(BAD, "Failing", "the last cycle failed after it had deleted already")
    elif report is None:
        yield HealthFinding(INFO, "Starting", "no cycle has ended yet")
    elif unready and report.evidence_complete:
        yield HealthFinding(BAD, "Late", unready)
    if report is None or not report.problems:
        return
    why = "; ".join(report.problems)
    if report.plan.complete:
        yield HealthFinding(WARN, "Assumed", f"{why}; the policy goes on in spite of it")
    else:
        level = BAD if unready else WARN
        yield HealthFinding(level, "Incomplete", f"{why}; what needs this evidence is held")


def _disk_findings(disk: DiskReport) -> Iterator[HealthFinding]:
    for relief in disk.under_pressure:
        level = WARN if relief.short_bytes else INFO
        yield HealthFinding(level, "Disk pressure", say_relief(relief))
    for stuck in disk.stuck:
        yield HealthFinding(WARN, f"Retention stuck on {stuck.at}", stuck.sentence)
    if folders := sum(orphan.partitions for orphan in disk.orphans):
        size = say_bytes(sum(orphan.size_bytes for orphan in disk.orphans))
        count = say_many(folders, "partition folder")
        yield HealthFinding(
            WARN, "Orphans", f"{count} ({size}) that the cluster doesn't assign to their broker"
        )
    for problem in disk.problems[1:]:  # the first is among the findings
        yield HealthFinding(INFO, "Disks", problem)


BAR = 100.0
"""The width of a topic's bar. The topic's records fill it."""


class Order(NamedTuple):
    by: str
    is_descending: bool

    @property
    def word(self) -> str:
        """As an address names it."""
        return f"-{self.by}" if self.is_descending else self.by


BY_FREES = Order("reclaimable", is_descending=True)


FIGURE_COLUMNS = {
    field.said.sort or field.name: field
    for field in figures_of(TopicAnswer)
    if PAGE in field.said.columns
}
"""The columns of figures, by the order's name in an address."""


def _most_kept(topic: TopicAnswer) -> tuple[int, ...]:
    return (
        total(kept.size_bytes for kept in topic.kept) or 0,
        sum(kept.records for kept in topic.kept),
    )


FIGURES: Mapping[str, Callable[[TopicAnswer], Any]] = {
    **{name: field.of for name, field in FIGURE_COLUMNS.items()},
    "kept": _most_kept,
}

COLUMNS = ("name", "reclaimable", *FIGURES)


def order_named(word: str | None) -> Order:
    """The order ``bytes``, or ``-bytes`` with the most first. An unknown one gives the default."""
    order = Order((word or "").removeprefix("-"), (word or "").startswith("-"))
    return order if order.by in COLUMNS else BY_FREES


def next_order(column: str, now: Order) -> Order:
    """The order after a click on a column's heading: names ascending and figures descending, or the
    other way round if the table is sorted like that already."""
    return Order(column, not now.is_descending if now.by == column else column != "name")


def in_order(cluster: ClusterAnswer, order: Order) -> Sequence[TopicAnswer]:
    if order.by == "reclaimable":
        return cluster.by_frees if order.is_descending else cluster.by_frees[::-1]
    by_name = sorted(cluster.topics, key=lambda topic: topic.topic)
    if order.by == "name":
        return by_name[::-1] if order.is_descending else by_name
    figure = FIGURES[order.by]
    return sorted(by_name, key=lambda topic: figure(topic) or 0, reverse=order.is_descending)


@dataclass(frozen=True, slots=True)
class TopicFilter:
    """What a visitor filters by. ``name``: any part of the name, in upper or lower case. ``owner``:
    the whole owner; empty means any owner, or none."""

    name: str = ""
    verdict: Verdict | None = None
    page: str | None = None
    order: Order = BY_FREES
    owner: str = ""

    def matches(self, topic: TopicAnswer) -> bool:
        is_named = self.name.casefold() in topic.topic.casefold()
        is_owned = self.owner in ("", topic.owner)
        has_verdict = self.verdict is None or self.verdict in topic.verdicts
        return is_named and is_owned and has_verdict


@dataclass(frozen=True, slots=True)
class TopicItem:
    """A row of the table of topics. ``freed``: what the cycle freed, or a dry run or a trial would
    have freed.
    ``outcomes``: how many approved partitions have each outcome.
    """

    answer: TopicAnswer
    freed: FreedFigures
    outcomes: Mapping[Outcome, int]
    parts: tuple[BarSegment, ...]


class FreedFigures(NamedTuple):
    """What deletions free. ``freed_bytes``: on the disks of all replicas; None if not known."""

    records: int
    freed_bytes: int | None


def topic_items(report: CycleReport, wanted: TopicFilter) -> Paged[TopicItem]:
    cluster = report.answers
    matching = [topic for topic in in_order(cluster, wanted.order) if wanted.matches(topic)]
    page = paged(matching, len(cluster.topics), wanted.page)
    return page.map(lambda topic: topic_item(report, topic))


def topic_item(report: CycleReport, topic: TopicAnswer) -> TopicItem:
    outcomes = Counter(
        partition.outcome.outcome for partition in topic.partitions if partition.outcome
    )
    return TopicItem(
        topic, freed_by(report, topic.partitions), outcomes, bar(records_by_kind(topic), BAR)
    )


def freed_by(report: CycleReport, partitions: Iterable[PartitionAnswer]) -> FreedFigures:
    """What the cycle deleted of these partitions, or a dry run or a trial would delete, with the
    predicted bytes."""
    deleted = [
        partition
        for partition in partitions
        if report.plan.dry_run or partition.row.dry_run or partition.is_deleted_by_us
    ]
    return FreedFigures(
        sum(partition.records for partition in deleted),
        total(partition.predicted_bytes for partition in deleted),
    )


T = TypeVar("T")
U = TypeVar("U")

PAGE_ROWS = 100


@dataclass(frozen=True, slots=True)
class Paged(Generic[T]):
    """A page of a table. ``number`` counts from 1. ``found``: how many of the ``total`` rows
    match."""

    rows: Sequence[T]
    number: int
    pages: int
    found: int
    total: int

    def map(self, item: Callable[[T], U]) -> Paged[U]:
        return Paged([*map(item, self.rows)], self.number, self.pages, self.found, self.total)


def paged(found: Sequence[T], total: int, wanted: str | None) -> Paged[T]:
    """A page of the rows ``found``. ``wanted``: the page's number in the address; a number that is
    too small or too large means the first or the last page."""
    pages = max(1, -(-len(found) // PAGE_ROWS))
    digits = (wanted or "").strip()
    number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 9 else 1
    number = min(max(1, number), pages)
    start = (number - 1) * PAGE_ROWS
    return Paged(found[start : start + PAGE_ROWS], number, pages, len(found), total)
