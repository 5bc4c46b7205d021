"""The values that cross retentiond's boundaries. No client library's object does.

The offset words, used the same everywhere (KIP-68, KIP-107):

- *log start offset*: first offset a consumer can read.
- *high watermark*: one past the last readable record.
- *last stable offset*: first offset of the oldest open transaction, else the high watermark.
- *committed offset*: the next record a group will read; everything below is consumed.
- *retention offset*: first offset whose record is younger than the consumed retention; the
  end where all are older.
- *end*: the smaller of last stable offset and high watermark.
- *cutoff*: first offset that is kept, DeleteRecords' offset.

Absent is ``None``, never -1: to Kafka, DeleteRecords at -1 means "everything up to the
high watermark".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Commit(NamedTuple):
    """One committed offset of a group; ``offset`` is None where it could not be read.

    ``leader_epoch``: in which epoch the partition's leader wrote what the group has read last;
    None where the group's client did not say.
    """

    topic: str
    partition: int
    offset: int | None
    leader_epoch: int | None = None


class Verdict(StrEnum):
    DELETE = "delete"
    NOTHING = "nothing"
    HOLD = "hold"


class Reason(StrEnum):
    """Why a verdict was given; `VERDICT_OF` says which verdict each belongs to."""

    CONSUMED = "consumed"

    EMPTY = "empty"
    TOO_YOUNG = "too_young"
    NOT_CONSUMED = "not_consumed"

    NO_GROUP = "no_group"
    TOO_FEW_GROUPS = "too_few_groups"
    REQUIRED_GROUP_MISSING = "required_group_missing"
    GROUP_WITHOUT_COMMIT = "group_without_commit"
    GROUP_VANISHED = "group_vanished"
    GROUP_UNREADABLE = "group_unreadable"
    GROUP_LIST_INCOMPLETE = "group_list_incomplete"
    COMMIT_BEYOND_END = "commit_beyond_end"
    COMMIT_REWOUND = "commit_rewound"
    OFFSET_UNREADABLE = "offset_unreadable"
    TOPIC_RECREATED = "topic_recreated"
    NOT_DELETABLE = "not_deletable"
    RETENTION_EXCEEDS_FORCED = "retention_exceeds_forced"
    POLICY_CONFLICT = "policy_conflict"
    OPEN_TRANSACTION = "open_transaction"
    EVIDENCE_CHANGED = "evidence_changed"
    LIMIT_REACHED = "limit_reached"
    PAUSED = "paused"


VERDICT_OF: dict[Reason, Verdict] = {
    reason: (
        Verdict.DELETE
        if reason is Reason.CONSUMED
        else Verdict.NOTHING
        if reason in (Reason.EMPTY, Reason.TOO_YOUNG, Reason.NOT_CONSUMED)
        else Verdict.HOLD
    )
    for reason in Reason
}


class Outcome(StrEnum):
    """What became of a planned deletion."""

    DELETED = "deleted"  # the records are gone: the broker, or the log start offset, says so
    FAILED = "failed"  # refused; nothing was moved
    NOT_ATTEMPTED = "not_attempted"  # no request went out
    UNKNOWN = "unknown"  # requested, and neither proven nor refused: it may come true later


class GroupKind(StrEnum):
    CLASSIC = "classic"
    CONSUMER = "consumer"  # KIP-848
    STREAMS = "streams"  # KIP-1071
    SHARE = "share"  # KIP-932
    EXTERNAL = "external"  # commits elsewhere than in Kafka; a policy names it
    UNKNOWN = "unknown"  # a kind that this version doesn't know, or a group only named in a policy


@dataclass(frozen=True, slots=True)
class Failure:
    """A reading or request that failed: Kafka's error name (or the client's) and a sentence."""

    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" if self.message else self.code


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One partition of an enabled topic and the decision about it (the grain of a plan).

    Figures are given wherever they are known, also on holds. ``records`` counts what will
    be deleted: cutoff less log start offset on `Verdict.DELETE`, else 0. ``groups`` counts
    the relevant groups of the topic. ``binding_kind``: the kind of the reader that binds, None
    where none does or it is not known. ``predicted_bytes`` is what a `Verdict.DELETE` frees on
    the disks of all replicas; None on other verdicts, and where it is not known.
    ``predicted_remote_bytes``: about what it frees in remote storage; None where there is none.
    ``consumed_retention_ms``: the one in force; None where the policy contradicts itself.
    ``only_groups``: a regular expression that groups have to match to count at all (the patterns of
    ``groups.only``); None: each counts. ``is_compacted``: ``records`` counts offsets, of which
    compaction may have removed some.
    """

    topic: str
    partition: int
    topic_id: str | None
    log_start_offset: int | None
    high_watermark: int | None
    min_committed_offset: int | None
    binding_group: str | None
    binding_committed_offset: int | None
    retention_offset: int | None
    cutoff: int | None
    verdict: Verdict
    reason: Reason
    groups: int
    records: int
    detail: str | None = None  # what exactly changed, failed or is missing, in words
    predicted_bytes: int | None = None
    binding_kind: GroupKind | None = None
    predicted_remote_bytes: int | None = None
    consumed_retention_ms: int | None = None
    only_groups: str | None = None
    is_compacted: bool = False

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class Plan:
    """All decisions of one cycle. ``planned_at_ms`` is the cycle's now, epoch milliseconds."""

    cycle_id: str
    cluster_id: str
    planned_at_ms: int
    dry_run: bool
    complete: bool  # the evidence about groups was complete
    problems: tuple[str, ...]  # why it was not, a sentence each
    rows: tuple[PlanRow, ...]  # sorted by topic and partition
    paused: str | None = None  # why an operator lets nothing be deleted
    guard_problems: tuple[str, ...] = ()  # why the guard's evidence was not complete, likewise


@dataclass(frozen=True, slots=True)
class DeletionOutcome:
    """What became of one partition's deletion; ``low_watermark`` as DeleteRecords answers it.

    ``error`` says what went wrong, or what is not known: with `Outcome.DELETED`, that the records
    are gone, and may have been deleted by somebody else.
    """

    topic: str
    partition: int
    outcome: Outcome
    low_watermark: int | None = None
    error: str | None = None

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def is_ours(self) -> bool:
        """Whether the broker's answer shows that this request deleted the records."""
        return self.outcome is Outcome.DELETED and self.error is None

    @property
    def is_undone(self) -> bool:
        """Whether the records are still there, or may be."""
        return self.outcome is not Outcome.DELETED


def undone(plan: Plan, outcomes: Iterable[DeletionOutcome]) -> tuple[str, ...]:
    """Why each planned deletion that was not done was not. A dry run plans to do nothing.

    One that the guard turned down is done for: its evidence has changed, and the next cycle plans
    anew. It counts where the guard's own evidence was not complete, and where the guard has left
    nothing of the plan.
    """
    if plan.dry_run:
        return ()
    told = tuple(outcomes)
    turned_down = turned_down_rows(plan) if plan.guard_problems or not told else ()
    return (
        *(each.error or each.outcome.value for each in told if each.is_undone),
        *(f"the guard turned it down: {row.detail}" for row in turned_down),
    )


def turned_down_rows(plan: Plan) -> tuple[PlanRow, ...]:
    """What was planned to be deleted, and the guard did not let through."""
    return tuple(row for row in plan.rows if row.reason is Reason.EVIDENCE_CHANGED)


def result_of(
    plan: Plan, outcomes: Iterable[DeletionOutcome], failure: Exception | None = None
) -> str:
    """``ok``; or ``incomplete``: the evidence about groups was not complete, or something that was
    planned was not done; or ``failed``: ``failure`` ended it after it had deleted already."""
    if failure is not None:
        return "failed"
    return "incomplete" if undone(plan, outcomes) or not plan.complete else "ok"
