"""What may be deleted, the only value that `retentiond.act.delete` executes, and its journal.

Invariant: an `Approved` never reaches a record that a relevant group has yet to read, and is
never an offset that Kafka would take for something else (-1 is "everything up to the high
watermark"). The constructor refuses such values; that the evidence is *true and complete* is
`retentiond.act.guard`'s work, the only module that makes them.

Invariant: whatever was requested from a broker can be found here afterwards, also when the
process was killed in between. `retentiond.state.audit.Audit` implements it on disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple, Protocol

from retentiond.model import DeletionOutcome, GroupKind, Outcome, PlanRow, TopicPartition


class GroupEvidence(NamedTuple):
    """A relevant group's committed offset on the partition, read right before the deletion."""

    group_id: str
    kind: GroupKind
    committed_offset: int


_COMMITTED_OFFSET = attrgetter("committed_offset")


@dataclass(frozen=True, slots=True)
class Approved:
    """One partition's deletion up to ``offset``, the cutoff, borne out by two readings.

    ``log_start_offset`` and ``evidence`` (one for each relevant group, sorted by name) are of
    the second reading; ``row`` is the plan's with the figures that this reading changed. Raises
    ValueError where the values contradict each other.
    """

    topic: str
    partition: int
    topic_id: str
    offset: int
    log_start_offset: int
    evidence: tuple[GroupEvidence, ...]
    row: PlanRow

    def __post_init__(self) -> None:
        if not 0 <= self.log_start_offset < self.offset:
            raise ValueError(
                f"{self.topic}-{self.partition}: the cutoff {self.offset} is not above the "
                f"log start offset {self.log_start_offset}"
            )
        if not self.evidence:
            raise ValueError(f"{self.topic}-{self.partition}: no group has committed")
        lowest = min(map(_COMMITTED_OFFSET, self.evidence))
        if lowest < self.offset:
            raise ValueError(
                f"{self.topic}-{self.partition}: the cutoff {self.offset} is above the "
                f"committed offset {lowest}"
            )

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class UnprovenDeletion:
    """A recorded deletion whose log start offset may still prove that it was applied.

    ``outcome`` is None for an open intent (the process ended before it was settled), else
    `Outcome.UNKNOWN`.
    """

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
    """All methods raise `retentiond.errors.StateError` when they can't do what they say."""

    def intend(
        self,
        cycle_id: str,
        batch: Sequence[Approved],
        requested_at_ms: int,
        *,
        evidence_at_ms: int,
    ) -> None:
        """Returns once all of the batch, with its evidence, is safely on disk; or none of it is.

        ``evidence_at_ms`` is when the second reading began, which gave the evidence.
        """

    def settle(
        self,
        cycle_id: str,
        outcomes: Sequence[DeletionOutcome],
        settled_at_ms: int,
        *,
        give_up: bool = False,
    ) -> None:
        """Records outcomes of intents that have none yet, or an unknown one.

        An unknown outcome stays `unsettled`, unless ``give_up`` says that nothing can prove it
        any more.
        """

    def unsettled(self, cluster_id: str) -> Sequence[UnprovenDeletion]:
        """Open intents and unknown outcomes on that cluster, oldest first."""
