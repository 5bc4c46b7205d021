"""What the bench takes from the audit log."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from devkit.ledger.deletions import Deletion, read
from retentiond.model import Outcome
from retentiond.state.audit import Audit
from tests.unit.state.test_state_audit import CYCLE, EVIDENCE, approved, outcome


def test_a_deletion_comes_with_the_moments_that_its_evidence_was_read_and_requested_in(
    tmp_path: Path,
) -> None:
    with closing(Audit.open(tmp_path)) as audit:
        audit.record_cycle(CYCLE)
        audit.intend("cycle-1", [approved(0)], 2_000, evidence_at_ms=1_900)
        audit.settle("cycle-1", [outcome(0, low_watermark=110)], 2_500)

    assert read(tmp_path) == [
        Deletion(
            ("orders", 0),
            log_start=10,
            cutoff=100,
            evidence_at_ms=1_900,
            requested_at_ms=2_001,  # a fraction of a millisecond is not recorded
            evidence={group.group_id: group.committed_offset for group in EVIDENCE},
            outcome=Outcome.DELETED,
            low_watermark=110,
        )
    ]
