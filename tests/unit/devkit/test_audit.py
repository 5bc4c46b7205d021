"""The audit log is held against the brokers, and against itself."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from devkit.audit import Deletion, contradictions, read, unsettled
from retentiond.model import Outcome
from retentiond.state.audit import Audit
from tests.unit.state.test_state_audit import CYCLE, approved, outcome

AT = ("orders", 0)

FIRST = Deletion("cluster", "id", AT, 0, 5, 100, 110, Outcome.DELETED, low_watermark=5)
SECOND = Deletion("cluster", "id", AT, 5, 8, 200, 210, Outcome.DELETED, low_watermark=8)


UNKNOWN_FIRST, UNKNOWN_SECOND = (
    replace(each, outcome=Outcome.UNKNOWN, low_watermark=None) for each in (FIRST, SECOND)
)


@pytest.mark.parametrize(
    ("deletions", "log_start", "told"),
    [
        ([FIRST, SECOND], 8, None),
        ([FIRST], 8, "the log starts at 8, and nothing is told beyond 5"),
        ([FIRST, SECOND], 5, "it was deleted up to 8, and the log starts at 5"),
        ([replace(FIRST, low_watermark=7)], 5, "it was deleted up to 7, and the log starts at 5"),
        ([SECOND], 8, "a deletion begins at 5, and nothing is told from 0"),
        # An unknown outcome may have come true, or not, or be repeated.
        ([UNKNOWN_FIRST], 5, None),
        ([FIRST, UNKNOWN_SECOND], 5, None),
        ([UNKNOWN_FIRST, replace(FIRST, cutoff=8, low_watermark=8)], 8, None),
        (
            [replace(FIRST, evidence={"fraud": 4, "ledger": 5})],
            5,
            "cutoff 5 is beyond the commits that it rests on: {'fraud': 4}",
        ),
        (
            [replace(FIRST, outcome=Outcome.FAILED, low_watermark=None)],
            5,
            "the log starts at 5, and nothing is told beyond 0",
        ),
    ],
)
def test_what_contradicts_the_log_start_is_told(
    deletions: list[Deletion], log_start: int, told: str | None
) -> None:
    found = contradictions(deletions, {AT: log_start, ("orders", 1): 0})
    assert found == ([] if told is None else [f"orders-0: {told}"])


@pytest.mark.parametrize("left", [None, Outcome.UNKNOWN])
def test_an_intent_that_came_true_and_was_never_settled_is_told(left: Outcome | None) -> None:
    applied = replace(UNKNOWN_FIRST, outcome=left)
    assert contradictions([applied], {AT: 5}) == []
    assert unsettled([applied], {AT: 5}) == [
        "orders-0: the deletion up to 5 was applied, and is not settled"
    ]
    assert unsettled([FIRST, UNKNOWN_SECOND], {AT: 5}) == []


def test_a_deletion_comes_with_the_cluster_and_the_topic_that_it_is_said_to_be_of(
    tmp_path: Path,
) -> None:
    with closing(Audit.open(tmp_path)) as audit:
        audit.record_cycle(CYCLE)
        audit.intend("cycle-1", [approved(0)], 2_000, evidence_at_ms=1_900)
        audit.settle("cycle-1", [outcome(0, low_watermark=110)], 2_500)

    assert read(tmp_path, {1: (7.0, 8.0)}) == [
        Deletion(
            CYCLE.cluster_id,
            str(approved(0).row.topic_id),
            ("orders", 0),
            log_start=10,
            cutoff=100,
            unseen_ms=7.0,  # by the bench's clock: the audit log's may be wrong
            seen_ms=8.0,
            outcome=Outcome.DELETED,
            low_watermark=110,
            evidence={by.group_id: by.committed_offset for by in approved(0).evidence},
        )
    ]
