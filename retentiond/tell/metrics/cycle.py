"""The metrics that tell of the last cycle. Each report replaces all of their series, so a topic
that is gone leaves no stale one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice, product
from typing import Any

from retentiond.disks.log_dirs import LogDirCapacity, Orphans
from retentiond.disks.pressure import LogDirRelief
from retentiond.disks.stuck import StuckCause
from retentiond.fields import Shown, figures_of
from retentiond.formatting import label
from retentiond.memory.readers import GroupOnTopic
from retentiond.model import Outcome, PlanRow, Reason
from retentiond.tell.figures.answers import TopicAnswer
from retentiond.tell.figures.pressure import MOST_KEEPERS
from retentiond.tell.metrics.definition import COUNTER, Definition, Labels, Samples
from retentiond.tell.report import CycleReport


@dataclass(frozen=True, slots=True)
class Totals:
    """By topic, since the daemon started."""

    records: Counter[str] = field(default_factory=Counter)
    bytes_freed: Counter[str] = field(default_factory=Counter)
    deletions: Counter[tuple[str, str]] = field(default_factory=Counter)  # and outcome

    def add(self, report: CycleReport) -> None:
        for partition in report.answers.partitions:
            topic = partition.row.topic
            if partition.is_deleted_by_us:
                self.records[topic] += partition.records
            if partition.outcome is not None:
                self.deletions[topic, partition.outcome.outcome] += 1
        self.bytes_freed.update(report.disk.freed_bytes)
        topics = {answer.topic for answer in report.answers.topics}
        for counts in (self.records, self.bytes_freed):
            for topic in counts.keys() - topics:
                del counts[topic]
        for key in [deletion for deletion in self.deletions if deletion[0] not in topics]:
            del self.deletions[key]


@dataclass(frozen=True, slots=True)
class CycleFigures:
    """A report, and what holds beyond it. ``held_by_topic`` and ``held_by_group``: for how many
    seconds, by reason."""

    report: CycleReport
    totals: Totals
    held_by_topic: Mapping[tuple[str, Reason], float]
    held_by_group: Mapping[tuple[str, Reason], float]

    @property
    def topics(self) -> list[str]:
        return [topic.topic for topic in self.report.answers.topics]


Figures = Callable[[CycleFigures], Samples]

LOG_DIR = ("broker", "log_dir")


def _of(
    row: type[Any], names: Labels, rows: Callable[[CycleFigures], Iterable[Any]]
) -> Iterator[Definition[CycleFigures]]:
    """The metrics of the row's own figures. ``names``: the fields that tell its rows apart."""
    shown = figures_of(row)
    keys = [next(figure.of for figure in shown if figure.name == name) for name in names]

    def samples(figure: Shown) -> Figures:
        return lambda cycle: (
            (tuple([label(str(key(told))) for key in keys]), figure.of(told))
            for told in rows(cycle)
        )

    for figure in shown:
        if figure.said.metric is not None and figure.row is row:
            yield Definition(figure.said.metric, _help(figure), names, samples(figure))


def _help(figure: Shown) -> str:
    """What a row says of a figure. A metric has no series where the figure is null."""
    meaning = figure.said.meaning.replace("null if", "absent if")
    absent = "; absent if it is not known" if figure.is_nullable and "absent" not in meaning else ""
    return f"{meaning[0].upper()}{meaning[1:]}{absent}."


def _totals(counts: Callable[[Totals], Counter[str]]) -> Figures:
    """Every topic has one from its first cycle on, with 0, so that `rate` sees its first step."""
    return lambda cycle: (((topic,), counts(cycle.totals)[topic]) for topic in cycle.topics)


def _groups_on_topics(figures: Mapping[GroupOnTopic, float]) -> Samples:
    return (((at.topic, label(at.group_id)), value) for at, value in sorted(figures.items()))


def _names(figures: Mapping[str, float], *, per: float = 1) -> Samples:
    return (((label(name),), value / per) for name, value in sorted(figures.items()))


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


def _counted(keys: Iterable[tuple[str, ...]]) -> Samples:
    return sorted(Counter(keys).items())


def _under_pressure(cycle: CycleFigures) -> Samples:
    disk = cycle.report.disk
    if disk.relief is None:
        return ()
    pressed = {relief.log_dir.key for relief in disk.relief}
    return (
        ((str(log_dir.broker), log_dir.log_dir), log_dir.key in pressed) for log_dir in disk.space
    )


def _kept_on_log_dirs(cycle: CycleFigures) -> Samples:
    return (
        ((str(relief.log_dir.broker), relief.log_dir.log_dir, label(group)), kept)
        for relief in cycle.report.disk.under_pressure
        for group, kept in islice(relief.kept_bytes.items(), MOST_KEEPERS)
    )


def _unmanaged_bytes(cycle: CycleFigures) -> Samples:
    sizes = cycle.report.disk.topic_bytes
    known = cycle.report.coverage.unmanaged
    return [((), None if sizes is None else sum(sizes.get(topic, 0) for topic in known))]


CYCLE_METRICS: tuple[Definition[CycleFigures], ...] = (
    Definition(
        "retentiond_records_deleted_total",
        "Records deleted since the daemon started.",
        ("topic",),
        _totals(lambda totals: totals.records),
        type=COUNTER,
    ),
    Definition(
        "retentiond_deletions_total",
        f"Approved deletions, one for each partition, by outcome: {', '.join(Outcome)}.",
        ("topic", "outcome"),
        lambda cycle: (
            (labels, cycle.totals.deletions[labels]) for labels in product(cycle.topics, Outcome)
        ),
        type=COUNTER,
    ),
    Definition(
        "retentiond_partitions",
        "Partitions of enabled topics, by the last cycle's verdict and reason.",
        ("topic", "verdict", "reason"),
        lambda cycle: _counted(
            (row.topic, row.verdict, row.reason) for row in cycle.report.plan.rows
        ),
    ),
    Definition(
        "retentiond_topic_owner_info",
        "1 for each enabled topic that a team's policy file covers, with that file's owner.",
        ("topic", "owner"),
        lambda cycle: (
            ((topic.topic, label(topic.owner)), 1)
            for topic in cycle.report.answers.topics
            if topic.owner is not None
        ),
    ),
    Definition(
        "retentiond_topic_dry_run",
        "1 for an enabled topic that its policy has on trial (`dry_run`): its records count as "
        "reclaimable, and none is deleted. Absent for other topics, and in a dry run of the whole "
        "daemon.",
        ("topic",),
        lambda cycle: (((topic.topic,), 1) for topic in cycle.report.trials),
    ),
    *_of(PlanRow, ("topic", "partition"), lambda cycle: cycle.report.plan.rows),
    *_of(TopicAnswer, ("topic",), lambda cycle: cycle.report.answers.topics),
    Definition(
        "retentiond_binding_group_lag_records",
        "Records that only this group keeps, summed over the partitions that it binds: from its"
        " committed offset (without one, from the log start offset) up to the next bound, which is"
        " another group, the consumed retention or the end.",
        ("topic", "group"),
        lambda cycle: _groups_on_topics(cycle.report.lag.kept),
    ),
    Definition(
        "retentiond_forced_retention_margin_seconds",
        "Time until Kafka's own retention by age reaches records that the group has not read, on "
        "the partition where that is soonest; negative: loss. Absent if the group has no lag or "
        "has never committed, or if retention.ms is unlimited.",
        ("topic", "group"),
        lambda cycle: _groups_on_topics(cycle.report.lag.margins),
    ),
    Definition(
        "retentiond_forced_retention_seconds",
        "The topic's forced retention by age (retention.ms); absent if it is unlimited or unknown.",
        ("topic",),
        lambda cycle: _names(cycle.report.standing.forced_retention_ms, per=1000),
    ),
    Definition(
        "retentiond_group_last_commit_timestamp_seconds",
        "When one of the group's commits on an enabled topic was last seen to move, in epoch "
        "seconds; if none has moved yet, when the group was first seen.",
        ("group",),
        lambda cycle: _names(cycle.report.standing.last_commit_ms, per=1000),
    ),
    Definition(
        "retentiond_group_live",
        "1 if a group with commits on enabled topics has members, 0 if it has none now; absent "
        "for an external reader, and if that can't be read.",
        ("group",),
        lambda cycle: _names(cycle.report.standing.is_live),
    ),
    Definition(
        "retentiond_group_vanished_seconds",
        "For how long a remembered group has been missing, as far as that was observed; absent for "
        "groups that exist.",
        ("group",),
        lambda cycle: _names(cycle.report.standing.vanished_ms, per=1000),
    ),
    Definition(
        "retentiond_topic_held_seconds",
        "The longest time for which one and the same partition of the topic has been held for "
        "this reason without a break; never for limit_reached. Failed cycles and restarts are no "
        "break; the time of a restart does not count.",
        ("topic", "reason"),
        lambda cycle: sorted(cycle.held_by_topic.items()),
    ),
    Definition(
        "retentiond_group_held_seconds",
        "By group, for the reasons that a group causes: the longest time for which one of the "
        "partitions that the group holds now has been held for this reason without a break.",
        ("group", "reason"),
        lambda cycle: (
            ((label(group), reason), seconds)
            for (group, reason), seconds in sorted(cycle.held_by_group.items())
        ),
    ),
    Definition(
        "retentiond_bytes_freed_total",
        "Bytes that deletions have freed on the disks of all replicas since the daemon started, "
        "by the sizes that brokers report.",
        ("topic",),
        _totals(lambda totals: totals.bytes_freed),
        type=COUNTER,
    ),
    Definition(
        "retentiond_stuck_retention_partitions",
        f"Partitions whose retention is stuck on a broker, by cause: {', '.join(StuckCause)}.",
        ("topic", "cause"),
        lambda cycle: _counted((stuck.topic, stuck.cause) for stuck in cycle.report.disk.stuck),
    ),
    *_of(Orphans, LOG_DIR, lambda cycle: cycle.report.disk.orphans),
    *_of(LogDirCapacity, LOG_DIR, lambda cycle: cycle.report.disk.space),
    Definition(
        "retentiond_log_dir_under_pressure",
        "1 while the log directory is under pressure, else 0; absent without disk_pressure, and if "
        "its space is not known.",
        ("broker", "log_dir"),
        _under_pressure,
    ),
    *_of(LogDirRelief, LOG_DIR, lambda cycle: cycle.report.disk.under_pressure),
    Definition(
        "retentiond_log_dir_kept_bytes",
        "Log directory under pressure: bytes there that a group keeps, because it has yet to read "
        "them; for the ten groups with the most.",
        ("broker", "log_dir", "group"),
        _kept_on_log_dirs,
    ),
    Definition(
        "retentiond_policy_entries_without_topic",
        "Enabled entries of the policy that match no topic of the cluster, by owner (empty: the "
        "main file's).",
        ("owner",),
        lambda cycle: _names(cycle.report.coverage.entries_without_topic),
    ),
    Definition(
        "retentiond_unmanaged_topics",
        "Topics of the cluster that no entry of the policy covers, internal topics apart.",
        (),
        lambda cycle: [((), len(cycle.report.coverage.unmanaged))],
    ),
    Definition(
        "retentiond_unmanaged_bytes",
        "Bytes that those topics take on the disks of all replicas; absent if they are not known.",
        (),
        _unmanaged_bytes,
    ),
    Definition(
        "retentiond_weakened_topics",
        "Enabled topics with a setting that weakens the protection of their records, by owner "
        "(empty: none) and setting: only, exclude, groups_visible (assumed) or allow_compacted.",
        ("owner", "by"),
        lambda cycle: (
            ((label(owner), by), count)
            for (owner, by), count in sorted(cycle.report.coverage.weakened.items())
        ),
    ),
    Definition(
        "retentiond_clock_skew_seconds",
        "The host's clock less the cluster's, when the last plan was made; positive: the host is "
        "ahead. Absent if the cluster does not tell its time.",
        (),
        lambda cycle: [((), _seconds(cycle.report.clock_skew_ms))],
    ),
    Definition(
        "retentiond_groups",
        "Groups of the cluster, by kind and state (live, empty, vanished, unreadable).",
        ("kind", "state"),
        lambda cycle: _counted(cycle.report.group_states.values()),
    ),
)
"""In the order of the documentation."""
