"""What one cycle leaves behind: the immutable view that log, metrics, page and API show."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from retentiond.collect.snapshot import ABSENT, VANISHED, GroupReading, Snapshot
from retentiond.disk.report import NO_DISKS, DiskReport
from retentiond.model import DeletionOutcome, Outcome, Plan, PlanRow, TopicPartition, Verdict
from retentiond.unread.watch import NOT_LOOKED, UnreadReport

STEPS = ("gather", "decide", "guard", "delete", "record")


@dataclass(frozen=True, slots=True)
class GroupCount:
    """How many groups there are of a kind in a state: live, empty, vanished or unreadable."""

    kind: str
    state: str
    count: int


class TopicFigures(NamedTuple):
    """A topic's sums over its partitions, and over the replicas of each where it comes to bytes;
    None where one of them is not known. ``freed_bytes``: since the last cycle, see `DiskReport`.
    """

    topic: str
    size_bytes: int | None
    records: int
    predicted_bytes: int | None
    freed_bytes: int


@dataclass(frozen=True, slots=True)
class CycleReport:
    """A cycle that got as far as a plan.

    ``outcomes`` has one for each row that the guard approved; empty after `plan`.
    ``seconds`` by step of `STEPS`, those that were walked. ``disk``: what is known of the
    brokers' disks. ``unread``: what groups have not read; empty after `plan`.
    """

    plan: Plan
    outcomes: Mapping[TopicPartition, DeletionOutcome]
    groups: tuple[GroupCount, ...]
    seconds: Mapping[str, float]
    disk: DiskReport = NO_DISKS
    unread: UnreadReport = NOT_LOOKED

    def outcome(self, row: PlanRow) -> DeletionOutcome:
        """What became of a row; no request went out for one that has no outcome."""
        key = TopicPartition(row.topic, row.partition)
        return self.outcomes.get(key, DeletionOutcome(*key, Outcome.NOT_ATTEMPTED))

    def is_deleted(self, row: PlanRow) -> bool:
        return self.outcome(row).outcome is Outcome.DELETED

    @property
    def failed(self) -> tuple[DeletionOutcome, ...]:
        """Deletions that failed, or of which nobody knows."""
        unclear = (Outcome.FAILED, Outcome.UNKNOWN)
        return tuple(each for each in self.outcomes.values() if each.outcome in unclear)

    @property
    def result(self) -> str:
        """``ok`` or ``incomplete``: whether the evidence about groups was complete."""
        return "ok" if self.plan.complete else "incomplete"

    @property
    def records_deleted(self) -> int:
        return sum(row.records for row in self.plan.rows if self.is_deleted(row))

    @property
    def predicted_bytes(self) -> int | None:
        """What the plan frees on disk; None where that is not known of each of its deletions."""
        return total(map(predicted_bytes, self.plan.rows))


def count_groups(snapshot: Snapshot) -> tuple[GroupCount, ...]:
    """The cluster's groups by kind and state; names that only a policy mentions don't count."""
    counts = Counter(
        (str(group.kind), _state(group)) for group in snapshot.groups if group.state != ABSENT
    )
    return tuple(GroupCount(*key, count) for key, count in sorted(counts.items()))


def _state(group: GroupReading) -> str:
    if group.failure or group.trouble:
        return "unreadable"
    if group.state == VANISHED:
        return "vanished"
    return "live" if group.is_live else "empty"


def predicted_bytes(row: PlanRow) -> int | None:
    """What the row's deletion frees on disk; 0 where nothing is deleted, None: not known."""
    return row.predicted_bytes if row.verdict is Verdict.DELETE else 0


def total(figures: Iterable[int | None]) -> int | None:
    """None where one of them is not known."""
    known = list(figures)
    return None if None in known else sum(each for each in known if each is not None)


def document(report: CycleReport, *, with_outcomes: bool) -> dict[str, Any]:
    """The plan as ``--output json`` and ``/api/plan`` give it."""
    plan = report.plan
    return {
        "cycle_id": plan.cycle_id,
        "cluster_id": plan.cluster_id,
        "planned_at": rfc3339(plan.planned_at_ms),
        "dry_run": plan.dry_run,
        "complete": plan.complete,
        "problems": list(plan.problems),
        "paused": plan.paused,
        **_disk_document(report.disk),
        "topics": [each._asdict() for each in topic_figures(report)],
        "partitions": [
            row_document(row)
            | {"size_bytes": report.disk.size_bytes.get(TopicPartition(row.topic, row.partition))}
            | (_outcome(report.outcome(row)) if with_outcomes else {})
            for row in plan.rows
        ],
    }


def figures(report: CycleReport) -> dict[str, Any]:
    """The canonical log line's key-values."""
    rows = report.plan.rows
    verdicts = Counter(row.verdict for row in rows)
    outcomes = Counter(each.outcome for each in report.outcomes.values())
    return {
        "cycle_id": report.plan.cycle_id,
        "result": report.result,
        "dry_run": report.plan.dry_run,
        "topics": len({row.topic for row in rows}),
        "partitions": len(rows),
        "groups": sum(group.count for group in report.groups),
        **{verdict.value: verdicts[verdict] for verdict in Verdict},
        "holds": dict(Counter(row.reason for row in rows if row.verdict is Verdict.HOLD)),
        "records_planned": sum(row.records for row in rows),
        "records_deleted": report.records_deleted,
        "predicted_bytes": report.predicted_bytes,
        "freed_bytes": sum(report.disk.freed_bytes.values()),
        "deletions": {outcome.value: count for outcome, count in sorted(outcomes.items())},
        "seconds": {step: round(spent, 3) for step, spent in report.seconds.items()},
        **({"problems": list(report.plan.problems)} if report.plan.problems else {}),
        **({"paused": report.plan.paused} if report.plan.paused else {}),
        **(
            {"stuck": [f"{each.at}: {each.sentence}" for each in report.disk.stuck]}
            if report.disk.stuck
            else {}
        ),
        **({"disk_problems": list(report.disk.problems)} if report.disk.problems else {}),
        **({"unread_problem": report.unread.problem} if report.unread.problem else {}),
    }


def topic_figures(report: CycleReport) -> Iterator[TopicFigures]:
    """By topic, in the plan's order."""
    by_topic: defaultdict[str, list[PlanRow]] = defaultdict(list)
    for row in report.plan.rows:
        by_topic[row.topic].append(row)
    sizes = report.disk.size_bytes
    for topic, rows in by_topic.items():
        yield TopicFigures(
            topic,
            total(sizes.get(TopicPartition(topic, row.partition)) for row in rows),
            sum(row.records for row in rows),
            total(map(predicted_bytes, rows)),
            report.disk.freed_bytes.get(topic, 0),
        )


def _disk_document(disk: DiskReport) -> dict[str, Any]:
    """What a plan says of the disks beside its topics and partitions: what is wrong there."""
    return {
        "stuck_retention": [
            {**each.at._asdict(), "cause": each.cause.value, "detail": each.sentence}
            for each in disk.stuck
        ],
        "orphans": [each._asdict() for each in disk.orphans if each.partitions],
        "disk_problems": list(disk.problems),
    }


def rfc3339(epoch_ms: int) -> str:
    at = datetime.fromtimestamp(epoch_ms / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def row_document(row: PlanRow) -> dict[str, Any]:
    """A partition of the plan in JSON's terms, under the names that every output uses."""
    return {
        "topic": row.topic,
        "partition": row.partition,
        "topic_id": row.topic_id,
        "log_start_offset": row.log_start_offset,
        "high_watermark": row.high_watermark,
        "min_committed_offset": row.min_committed_offset,
        "binding_group": row.binding_group,
        "binding_committed_offset": row.binding_committed_offset,
        "retention_offset": row.retention_offset,
        "cutoff": row.cutoff,
        "verdict": row.verdict.value,
        "reason": row.reason.value,
        "groups": row.groups,
        "records": row.records,
        "predicted_bytes": predicted_bytes(row),
        "detail": row.detail,
    }


def _outcome(outcome: DeletionOutcome) -> dict[str, Any]:
    return {
        "outcome": outcome.outcome.value,
        "low_watermark": outcome.low_watermark,
        "error": outcome.error,
    }
