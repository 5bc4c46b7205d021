"""What retentiond says it has deleted: its audit log, as the checker needs it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from devkit.ledger.scenario import Partition
from retentiond.model import Outcome
from retentiond.state.records import read_deletions


@dataclass(frozen=True, slots=True)
class Deletion:
    """One request to delete what lies below ``cutoff``, and what became of it.

    The groups were read a second time after ``evidence_at_ms`` and before ``requested_at_ms``;
    ``evidence`` is what that reading gave. ``outcome`` None is an open intent.
    """

    partition: Partition
    log_start: int
    cutoff: int
    evidence_at_ms: float
    requested_at_ms: float
    evidence: Mapping[str, int]
    outcome: Outcome | None = Outcome.DELETED
    low_watermark: int | None = None

    @property
    def requested(self) -> bool:
        """The request went out, for all one knows."""
        return self.outcome is not Outcome.NOT_ATTEMPTED

    @property
    def may_be_applied(self) -> bool:
        return self.outcome not in (Outcome.NOT_ATTEMPTED, Outcome.FAILED)

    def __str__(self) -> str:
        return f"the deletion of {self.partition[0]}-{self.partition[1]} up to {self.cutoff}"


def read(state_dir: Path) -> list[Deletion]:
    """Oldest first. Raises StateError."""
    return [
        Deletion(
            partition=(each.row.topic, each.row.partition),
            log_start=each.row.log_start_offset or 0,
            cutoff=each.row.cutoff or 0,
            evidence_at_ms=each.evidence_at_ms,
            requested_at_ms=each.requested_at_ms + 1,  # the audit log drops what is below 1 ms
            evidence={group.group_id: group.committed_offset for group in each.evidence},
            outcome=each.outcome,
            low_watermark=each.low_watermark,
        )
        for each in read_deletions(state_dir)
    ]
