"""The immutable report of one cycle, which log, metrics, page and API show."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from retentiond.disks.broker_disks import NO_DISKS, DiskReport
from retentiond.fields import PLAN, document_of
from retentiond.formatting import few
from retentiond.model import (
    DeletionOutcome,
    Outcome,
    Plan,
    PlanRow,
    Reason,
    TopicPartition,
    Verdict,
    result_of,
    turned_down_rows,
    undone,
    unproven_rows,
)
from retentiond.snapshot import ABSENT, Snapshot
from retentiond.tell.figures.answers import (
    ClusterAnswer,
    PartitionAnswer,
    TopicAnswer,
    cluster_answer,
)
from retentiond.tell.figures.coverage import NOTHING_COVERED, Coverage
from retentiond.tell.figures.group_answers import NO_LAG_READ, LagReport
from retentiond.tell.figures.pressure import say_relief
from retentiond.tell.figures.standing import NOTHING_KNOWN, Standing
from retentiond.tell.reasons import GRANT, with_address

MOST_REASONS = 5
"""How many reasons for deletions that were not done are put in words."""


class GroupState(NamedTuple):
    """``state``: live, empty, vanished or unreadable."""

    kind: str
    state: str


@dataclass(frozen=True)
class CycleReport:
    """A cycle that got as far as a plan.

    - ``outcomes``: one for each row that the guard approved; empty after `retentiond plan`.
    - ``seconds``: by step (gather, decide, guard, delete, record), for the steps that were taken.
    - ``disk``: what is known of the brokers' disks.
    - ``lag``: what groups have not read; empty after `retentiond plan`.
    - ``tool_options``: the options with which Kafka's own tools reach the cluster, for remedies.
    - ``failure``: the error that ended the cycle after it had deleted already.
    - ``group_states``: the kind and state of each group.
    - ``unseen``: a sentence for every sign of readers that commit nothing.
    - ``coverage``: how far the configuration reaches.
    - ``clock_skew_ms``: the host's clock less the cluster's; None if it is not known.
    - ``evidence_ages_s``: the age of each second reading when its last request went out.
    """

    plan: Plan
    outcomes: Mapping[TopicPartition, DeletionOutcome]
    seconds: Mapping[str, float]
    disk: DiskReport = NO_DISKS
    lag: LagReport = NO_LAG_READ
    tool_options: str = ""
    failure: Exception | None = None
    group_states: Mapping[str, GroupState] = field(default_factory=dict)
    unseen: tuple[str, ...] = ()
    unnamed_readers: tuple[str, ...] = ()  # see `Snapshot`
    standing: Standing = NOTHING_KNOWN
    coverage: Coverage = NOTHING_COVERED
    clock_skew_ms: int | None = None
    evidence_ages_s: tuple[float, ...] = ()

    def outcome(self, row: PlanRow) -> DeletionOutcome:
        """The outcome of a row; "not attempted" if it has none, because no request went out."""
        key = row.topic_partition
        return self.outcomes.get(key, DeletionOutcome(*key, Outcome.NOT_ATTEMPTED))

    @cached_property
    def answers(self) -> ClusterAnswer:
        return cluster_answer(map(self._answer, self.plan.rows), self.disk)

    @cached_property
    def topics_json(self) -> bytes:
        """What ``/api/topics`` answers: made once, because dashboards ask again and again."""
        topics = [document_of(topic) for topic in self.answers.topics]
        document = evidence_document(self) | {"topics": topics}
        return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()

    @property
    def trials(self) -> tuple[TopicAnswer, ...]:
        """The topics that their policy has on trial; none in a dry run of the whole daemon."""
        if self.plan.dry_run:
            return ()
        return tuple(topic for topic in self.answers.topics if topic.dry_run)

    @cached_property
    def planned(self) -> ClusterAnswer:
        """The figures of what this daemon is to delete: those of all topics but the trials."""
        if not self.trials:
            return self.answers
        topics = tuple(topic for topic in self.answers.topics if not topic.dry_run)
        return replace(self.answers, topics=topics)

    def _answer(self, row: PlanRow) -> PartitionAnswer:
        outcome = self.outcomes.get(row.topic_partition)
        if row.detail and GRANT in row.detail:
            row = replace(row, detail=with_address(row.detail, self.tool_options))
        if outcome and outcome.error and GRANT in outcome.error:
            outcome = replace(outcome, error=with_address(outcome.error, self.tool_options))
        return PartitionAnswer(row, self.disk, outcome)

    @property
    def problems(self) -> tuple[str, ...]:
        """Sentences that say why the evidence about groups was not complete."""
        return tuple(with_address(problem, self.tool_options) for problem in self.plan.problems)

    @property
    def failed(self) -> tuple[DeletionOutcome, ...]:
        """Deletions that failed or whose outcome is unknown."""
        unclear = (Outcome.FAILED, Outcome.UNKNOWN)
        return tuple(outcome for outcome in self.outcomes.values() if outcome.outcome in unclear)

    @property
    def result(self) -> str:
        """``ok``, ``incomplete`` or ``failed``, see `result_of`."""
        return result_of(self.plan, self.outcomes.values(), self.failure)

    @property
    def evidence_complete(self) -> bool:
        """Whether both readings saw everything, whatever became of the requests."""
        plan, outcomes = self.plan, tuple(self.outcomes.values())
        return self.failure is None and plan.complete and not unproven_rows(plan, outcomes)

    @property
    def undone(self) -> tuple[str, ...]:
        """A sentence for every reason why planned deletions were not done, the most frequent
        first."""
        reasons = Counter(undone(self.plan, self.outcomes.values()))
        planned = len(self.outcomes) + len(turned_down_rows(self.plan))
        failure = (
            self.failure and f"the cycle failed: {type(self.failure).__name__}: {self.failure}"
        )
        return (
            *([failure] if failure else []),
            *(
                f"{count} of {planned} deletions not done: {with_address(why, self.tool_options)}"
                for why, count in reasons.most_common(MOST_REASONS)
            ),
        )

    @property
    def records_deleted(self) -> int:
        return sum(
            partition.records for partition in self.answers.partitions if partition.is_deleted_by_us
        )


def group_states(snapshot: Snapshot) -> dict[str, GroupState]:
    """The cluster's groups, without names that only a policy mentions."""
    return {
        group.group_id: GroupState(str(group.kind), group.condition.value)
        for group in snapshot.groups
        if group.state != ABSENT
    }


def evidence_document(report: CycleReport) -> dict[str, Any]:
    """When and from which evidence a plan was made, and whether it is carried out."""
    return document_of(replace(report.plan, problems=report.problems))


def document(report: CycleReport, *, with_outcomes: bool) -> dict[str, Any]:
    """The plan as ``--output json`` and ``/api/plan`` give it. ``with_outcomes``: with what became
    of it and of the cycle."""
    result = {"result": report.result, "undone": list(report.undone)} if with_outcomes else {}
    return {
        **evidence_document(report),
        **result,
        **document_of(report.disk),
        "topics": [document_of(topic, PLAN) for topic in report.answers.topics],
        "partitions": [
            partition_document(partition)
            | (outcome_document(partition.outcome) if with_outcomes else {})
            for partition in report.answers.partitions
        ],
    }


def figures(report: CycleReport) -> dict[str, Any]:
    """The key-values of the cycle's log line. Each list in it is a few and how many more."""
    rows, verdicts, disk = report.plan.rows, report.plan.verdicts, report.disk
    outcomes = Counter(outcome.outcome for outcome in report.outcomes.values())
    worth_telling = {
        "trial_topics": len(report.trials),
        "problems": few(report.problems),
        "unreadable": few(_say_unreadable(report)),
        "unnamed_readers": few(report.unnamed_readers),
        "undone": few(report.undone),
        "paused": report.plan.paused,
        "stuck": few([f"{stuck.at}: {stuck.sentence}" for stuck in disk.stuck]),
        "under_pressure": few([*map(say_relief, disk.under_pressure)]),
        "disk_problems": few(disk.problems),
        "lag_problem": report.lag.problem,
    }
    return {
        "cycle_id": report.plan.cycle_id,
        "result": report.result,
        "dry_run": report.plan.dry_run,
        "topics": len(report.answers.topics),
        "partitions": len(rows),
        "groups": len(report.group_states),
        **{verdict.value: verdicts[verdict] for verdict in Verdict},
        "holds": dict(Counter(row.reason for row in rows if row.verdict is Verdict.HOLD)),
        "records_planned": report.planned.records,
        "records_deleted": report.records_deleted,
        "predicted_bytes": report.planned.predicted_bytes,
        "freed_bytes": sum(disk.freed_bytes.values()),
        "deletions": {outcome.value: count for outcome, count in sorted(outcomes.items())},
        "seconds": {step: round(spent, 3) for step, spent in report.seconds.items()},
        **{name: told for name, told in worth_telling.items() if told},
    }


def _say_unreadable(report: CycleReport) -> list[str]:
    """A sentence for each group, topic and kind of offset that could not be read: which one, and
    why."""
    rows = [answer.row for answer in report.answers.partitions]
    of_groups = [row.detail or "" for row in rows if row.reason is Reason.GROUP_UNREADABLE]
    of_topics = [
        f"{row.topic}: {row.detail}" for row in rows if row.reason is Reason.OFFSET_UNREADABLE
    ]
    return [*dict.fromkeys((*of_groups, *of_topics))]


def partition_document(answer: PartitionAnswer) -> dict[str, Any]:
    """A partition of the plan, with its size."""
    return row_document(answer.row) | {"size_bytes": answer.size_bytes}


def row_document(row: PlanRow) -> dict[str, Any]:
    """A partition of the plan in JSON's terms, under the names that every output uses."""
    goes = row.verdict is Verdict.DELETE or row.reason is Reason.NOT_WORTHWHILE
    return document_of(row) if goes else document_of(row) | {"predicted_bytes": 0}


def outcome_document(outcome: DeletionOutcome | None) -> dict[str, Any]:
    """A deletion's outcome; None if no request went out."""
    return document_of(outcome or DeletionOutcome("", 0, Outcome.NOT_ATTEMPTED))
