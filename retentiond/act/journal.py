"""What deleting needs of the audit log: the intent before, the outcome after.

Invariant: whatever was requested from a broker can be found here afterwards, also when the
process was killed in between. `retentiond.state.audit.Audit` implements it on disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from retentiond.act.approved import Approved
from retentiond.model import DeletionOutcome, Outcome, TopicPartition


@dataclass(frozen=True, slots=True)
class Unsettled:
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

    def unsettled(self, cluster_id: str) -> Sequence[Unsettled]:
        """Open intents and unknown outcomes on that cluster, oldest first."""
