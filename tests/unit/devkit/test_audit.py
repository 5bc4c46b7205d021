"""The audit log is held against the brokers, and against itself."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

from devkit.audit import Deletion, contradictions, read, unsettled
from retentiond.model import Outcome
from retentiond.state.audit import Audit
from tests.unit.state.test_state_audit import CYCLE, approved, outcome

AT = ("orders", 0)

FIRST = Deletion("cluster", "id", AT, 0, 5, 100, 110, Outcome.DELETED, low_watermark=5)
SECOND = Deletion("cluster", "id", AT, 5, 8, 200, 210, Outcome.DELETED, low_watermark=8)


def test_deletions_that_follow_each_other_up_to_the_log_start_agree() -> None:
    assert contradictions([FIRST, SECOND], {AT: 8, ("orders", 1): 0}) == []


def test_a_log_start_that_no_deletion_explains_is_told() -> None:
    assert contradictions([FIRST], {AT: 8}) == [
        "orders-0: the log starts at 8, and nothing is told beyond 5"
    ]


def test_a_log_start_that_went_back_is_told() -> None:
    assert contradictions([FIRST, SECOND], {AT: 5}) == [
        "orders-0: it was deleted up to 8, and the log starts at 5"
    ]


def test_a_low_watermark_above_the_log_start_is_told() -> None:
    assert contradictions([replace(FIRST, low_watermark=7)], {AT: 5}) == [
        "orders-0: it was deleted up to 7, and the log starts at 5"
    ]


def test_a_deletion_that_begins_where_none_had_come_is_told() -> None:
    assert contradictions([SECOND], {AT: 8}) == [
        "orders-0: a deletion begins at 5, and nothing is told from 0"
    ]


def test_an_intent_that_came_true_and_was_never_settled_is_told() -> None:
    for left in (None, Outcome.UNKNOWN):
        applied = replace(FIRST, outcome=left, low_watermark=None)
        assert contradictions([applied], {AT: 5}) == []
        assert unsettled([applied], {AT: 5}) == [
            "orders-0: the deletion up to 5 was applied, and is not settled"
        ]


def test_an_unknown_outcome_that_did_not_come_true_is_no_contradiction() -> None:
    unknown = replace(SECOND, outcome=Outcome.UNKNOWN, low_watermark=None)
    assert contradictions([FIRST, unknown], {AT: 5}) == []
    assert unsettled([FIRST, unknown], {AT: 5}) == []


def test_a_deletion_that_repeats_one_whose_outcome_is_unknown_is_no_contradiction() -> None:
    unknown = replace(FIRST, outcome=Outcome.UNKNOWN, low_watermark=None)
    again = replace(FIRST, cutoff=8, low_watermark=8)
    assert contradictions([unknown, again], {AT: 8}) == []


def test_a_cutoff_beyond_a_commit_that_it_rests_on_is_told() -> None:
    on_less = replace(FIRST, evidence={"fraud": 4, "ledger": 5})
    assert contradictions([on_less], {AT: 5}) == [
        "orders-0: cutoff 5 is beyond the commits that it rests on: {'fraud': 4}"
    ]


def test_a_refused_deletion_explains_no_log_start() -> None:
    refused = replace(FIRST, outcome=Outcome.FAILED, low_watermark=None)
    assert contradictions([refused], {AT: 5}) == [
        "orders-0: the log starts at 5, and nothing is told beyond 0"
    ]


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
