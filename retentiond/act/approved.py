"""`Approved`, the only value that `retentiond.act.delete` executes, and the journal of deletions.

Invariant: an `Approved` never reaches a record that a relevant group has yet to read, is never of a
topic on trial, and never has a cutoff with a special meaning in Kafka (-1 is "everything up to the
high watermark"). The constructor refuses such values. `retentiond.act.guard`, the only module that
makes them, sees to it that the evidence is *true and complete*.

Invariant: the journal has every deletion that was requested from a broker, even if the process was
killed in between. `retentiond.state.audit.Audit` implements it on disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from retentiond.model import DeletionOutcome, GroupKind, Outcome, PlanRow, TopicPartition


class GroupEvidence(NamedTuple):
    group_id: str
    kind: GroupKind
    committed_offset: int


@dataclass(frozen=True, slots=True)
class CommitEvidence:
    """The commits of all relevant groups on a partition. ``groups``: sorted by name. All partitions
    of a topic share them, so that thousands of partitions with hundreds of groups each take little
    time and memory."""

    groups: tuple[tuple[str, GroupKind], ...]
    committed_offsets: tuple[int, ...]

    def __iter__(self) -> Iterator[GroupEvidence]:
        for (group_id, kind), offset in zip(self.groups, self.committed_offsets, strict=True):
            yield GroupEvidence(group_id, kind, offset)


@dataclass(frozen=True, slots=True)
class Approved:
    """Proven by two readings. ``log_start_offset`` and ``evidence`` are from the second one.
    ``row`` is the plan's row with the figures that this reading changed. Raises ValueError if the
    values contradict each other."""

    topic: str
    partition: int
    topic_id: str
    cutoff: int
    log_start_offset: int
    evidence: CommitEvidence
    row: PlanRow

    def __post_init__(self) -> None:
        if not 0 <= self.log_start_offset < self.cutoff:
            raise ValueError(
                f"{self.topic}-{self.partition}: the cutoff {self.cutoff} is not above the "
                f"log start offset {self.log_start_offset}"
            )
        if self.row.dry_run:
            raise ValueError(f"{self.topic}-{self.partition}: the topic is on trial")
        if not self.evidence.groups:
            raise ValueError(f"{self.topic}-{self.partition}: no group has committed")
        if len(self.evidence.groups) != len(self.evidence.committed_offsets):
            raise ValueError(
                f"{self.topic}-{self.partition}: the evidence has "
                f"{len(self.evidence.groups)} groups and "
                f"{len(self.evidence.committed_offsets)} commits"
            )
        lowest = min(self.evidence.committed_offsets)
        if lowest < self.cutoff:
            raise ValueError(
                f"{self.topic}-{self.partition}: the cutoff {self.cutoff} is above the "
                f"committed offset {lowest}"
            )

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class UnprovenDeletion:
    """A recorded deletion whose log start offset may still prove that it was applied. ``outcome``:
    None for an open intent (the process ended before the outcome was recorded), else
    `Outcome.UNKNOWN`."""

    cycle_id: str
    topic: str
    partition: int
    topic_id: str
    cutoff: int
    outcome: Outcome | None

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class Journal(Protocol):
    """The record of all deletions. Methods raise `retentiond.errors.StateError` if they fail."""

    def intend(
        self,
        cycle_id: str,
        batch: Sequence[Approved],
        requested_at_ms: int,
        *,
        evidence_at_ms: int,
    ) -> None:
        """Writes the batch with its evidence, all or nothing, and returns once it is on disk.
        ``evidence_at_ms``: when the second reading began."""

    def settle(
        self,
        cycle_id: str,
        outcomes: Sequence[DeletionOutcome],
        settled_at_ms: int,
        *,
        give_up: bool = False,
    ) -> None:
        """Of intents that have no outcome yet, or an unknown one. An unknown outcome stays
        `unsettled`, unless ``give_up`` says that nothing can ever prove it."""

    def unsettled(self, cluster_id: str) -> Sequence[UnprovenDeletion]:
        """Open intents and unknown outcomes on that cluster, oldest first."""
