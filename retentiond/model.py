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

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from retentiond.fields import (
    BYTES,
    FLAG,
    GROUPS,
    MILLISECONDS,
    NUMBER,
    OFFSET,
    RECORDS,
    TEXT,
    TEXTS,
    TIME,
    WORD,
    described,
    figures_of,
    said,
)

LEGAL_TOPIC = r"[a-zA-Z0-9._-]{1,249}"
"""A pattern of what Kafka takes as a topic's name, but for ``.`` and ``..``."""

LARGEST_PARTITION = 2**31 - 1


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
    NOT_WORTHWHILE = "not_worthwhile"

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
    POLICY_UNREADABLE = "policy_unreadable"
    OPEN_TRANSACTION = "open_transaction"
    EVIDENCE_CHANGED = "evidence_changed"
    LIMIT_REACHED = "limit_reached"
    PAUSED = "paused"


VERDICT_OF: dict[Reason, Verdict] = {
    reason: (
        Verdict.DELETE
        if reason is Reason.CONSUMED
        else Verdict.NOTHING
        if reason in (Reason.EMPTY, Reason.TOO_YOUNG, Reason.NOT_CONSUMED, Reason.NOT_WORTHWHILE)
        else Verdict.HOLD
    )
    for reason in Reason
}


class Outcome(StrEnum):
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


@described
class PlanRow:
    """One partition of an enabled topic and the decision about it (the grain of a plan).

    Figures are given wherever they are known, also on holds. What each field means and where it
    goes stands beside it, and nowhere else (`retentiond.fields`).
    """

    topic: str = said(TEXT, "the topic", audit="NOT NULL", in_history=True)
    partition: int = said(NUMBER, "the partition's number", audit="NOT NULL", in_history=True)
    topic_id: str | None = said(TEXT, "Kafka's id of the topic", audit="NOT NULL", in_history=True)
    log_start_offset: int | None = said(
        OFFSET,
        "log start offset: the first offset that a consumer can read",
        metric="retentiond_log_start_offset",
        audit="NOT NULL CHECK (log_start_offset >= 0)",
        in_history=True,
    )
    high_watermark: int | None = said(
        OFFSET,
        "high watermark: one past the last readable record",
        metric="retentiond_high_watermark",
        audit="",
        in_history=True,
    )
    min_committed_offset: int | None = said(
        OFFSET,
        "smallest committed offset of the groups that count",
        metric="retentiond_min_committed_offset",
        audit="",
        in_history=True,
    )
    binding_group: str | None = said(
        TEXT,
        "the group with the smallest commit or, on a hold, the group that causes it",
        audit="",
        in_history=True,
    )
    binding_committed_offset: int | None = said(OFFSET, "that group's committed offset", audit="")
    retention_offset: int | None = said(
        OFFSET,
        "first offset whose record is younger than the consumed retention; the end if all are "
        "older",
        audit="",
        in_history=True,
    )
    cutoff: int | None = said(
        OFFSET,
        "the first offset that is kept",
        metric="retentiond_cutoff_offset",
        audit="NOT NULL CHECK (cutoff > log_start_offset)",
        in_history=True,
    )
    verdict: Verdict = said(TEXT, "delete, nothing or hold", in_history=True)
    reason: Reason = said(TEXT, "why", in_history=True)
    groups: int = said(
        GROUPS, "how many groups count on the topic", audit="NOT NULL", in_history=True
    )
    records: int = said(
        RECORDS,
        "what will be deleted: cutoff less log start offset on `delete`, and where the reason "
        "is `not_worthwhile`, else 0",
        audit="NOT NULL",
    )
    predicted_bytes: int | None = said(
        BYTES,
        "what the deletion frees on the disks of all replicas; null if it is not known",
        default=None,
        audit="CHECK (predicted_bytes >= 0)",
        is_known_late=True,
    )
    consumed_retention_ms: int | None = said(
        MILLISECONDS,
        "the consumed retention in force; null if the policy contradicts itself",
        default=None,
        audit="",
        in_history=True,
    )
    under_pressure: bool = said(
        FLAG,
        "whether one of its replicas lies in a log directory under pressure; the consumed "
        "retention in force says whether its records are deleted sooner because of that",
        default=False,
        audit="NOT NULL DEFAULT false",
        in_history=True,
    )
    only_groups: str | None = said(
        TEXT,
        "a regular expression that groups have to match to count at all (the patterns of "
        "`groups.only`); null: every group counts",
        default=None,
        audit="",
    )
    owner: str | None = said(
        TEXT,
        "who is asked about the topic: the `owner` of the policy file that covers it; null: "
        "the main file does",
        default=None,
        audit="",
        in_history=True,
    )
    fence: str | None = said(
        TEXT,
        "the policy file whose fence the topic is in (not kept in the audit log); null: none",
        default=None,
    )
    dry_run: bool = said(
        FLAG,
        "whether nothing is requested: the policy has the topic on trial (`dry_run`), or the "
        "main file's `dry_run` is true",
        default=False,
        in_history=True,
    )
    binding_since: str | None = said(
        TEXT,
        "since when the binding group's commit has not moved or, if the group has vanished, "
        "since when it has been missing, as far as cycles saw that (RFC 3339); null if no "
        "cycle saw it",
        default=None,
        audit="",
    )
    detail: str | None = said(
        TEXT, "what exactly changed, failed or is missing, in words", default=None, audit=""
    )
    binding_kind: GroupKind | None = said(TEXT, "the binding group's kind", (), default=None)
    is_limited: bool = said(
        FLAG, "whether `limits.records_per_cycle` lowers the cutoff", (), default=False
    )
    is_compacted: bool = said(
        FLAG, "whether compaction may have removed some of `records`", (), default=False
    )

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


ROW_FIELDS = figures_of(PlanRow)


@described
class Plan:
    """All decisions of one cycle."""

    cycle_id: str = said(TEXT, "the cycle's id")
    cluster_id: str = said(TEXT, "the cluster's id")
    planned_at_ms: int = said(TIME, "when the cycle read the cluster, which is its now")
    dry_run: bool = said(FLAG, "whether nothing is requested, by the main file's `dry_run`")
    complete: bool = said(FLAG, "whether the evidence about groups was complete")
    problems: tuple[str, ...] = said(TEXTS, "why it was not, a sentence each")
    rows: tuple[PlanRow, ...]  # sorted by topic and partition
    paused: str | None = said(TEXT, "why an operator lets nothing be deleted", default=None)
    guard_problems: tuple[str, ...] = ()  # why the guard's evidence was not complete, likewise

    @property
    def verdicts(self) -> Counter[Verdict]:
        """How many partitions have each."""
        return Counter(row.verdict for row in self.rows)


def in_turn(rows: Sequence[PlanRow], waiting: Sequence[TopicPartition]) -> list[int]:
    """The rows' positions: the ``waiting`` ones first, in their order; then the others in
    theirs."""
    turns = {partition: turn for turn, partition in enumerate(waiting)}
    return sorted(range(len(rows)), key=lambda at: turns.get(rows[at].topic_partition, len(turns)))


@described
class DeletionOutcome:
    """What became of one partition's deletion. An ``error`` with `Outcome.DELETED` says that the
    records are gone, and may have been deleted by somebody else."""

    topic: str
    partition: int
    outcome: Outcome = said(WORD, f"what became of the deletion: {', '.join(Outcome)}")
    low_watermark: int | None = said(
        OFFSET, "the log start offset after it, as DeleteRecords answers", default=None
    )
    error: str | None = said(TEXT, "what went wrong, or what is not known", default=None)

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def is_ours(self) -> bool:
        """Whether the broker's answer shows that this request deleted the records."""
        return self.outcome is Outcome.DELETED and self.error is None


def undone(plan: Plan, outcomes: Iterable[DeletionOutcome]) -> tuple[str, ...]:
    """Why planned deletions were not done, a sentence for each; none in a dry run or a trial.

    A row that the guard turned down does not count, because its evidence has changed, and the next
    cycle plans again. It counts if the guard's own evidence was not complete, or if the guard has
    left nothing of the plan.
    """
    if plan.dry_run:
        return ()
    told = tuple(outcomes)
    return (
        *(
            outcome.error or outcome.outcome.value
            for outcome in told
            if outcome.outcome is not Outcome.DELETED
        ),
        *(f"the guard turned it down: {row.detail}" for row in unproven_rows(plan, told)),
    )


def unproven_rows(plan: Plan, outcomes: Sequence[DeletionOutcome]) -> tuple[PlanRow, ...]:
    """For want of a second reading."""
    if plan.dry_run or (outcomes and not plan.guard_problems):
        return ()
    return turned_down_rows(plan)


def turned_down_rows(plan: Plan) -> tuple[PlanRow, ...]:
    return tuple(
        row for row in plan.rows if row.reason is Reason.EVIDENCE_CHANGED and not row.dry_run
    )


def result_of(
    plan: Plan, outcomes: Iterable[DeletionOutcome], failure: Exception | None = None
) -> str:
    """``ok``; or ``incomplete``: the evidence about groups was not complete, or something that was
    planned was not done; or ``failed``: ``failure`` ended it after it had deleted already."""
    if failure is not None:
        return "failed"
    return "incomplete" if undone(plan, outcomes) or not plan.complete else "ok"
