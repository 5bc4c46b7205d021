"""The demo's comparison of the audit log with the broker."""

from typing import Any

import pytest

from devkit.demo.audit import contradictions

TOPIC = "demo.payments"


def deletion(before: int, cutoff: int, outcome: str = "deleted", **changes: Any) -> dict[str, Any]:
    return {
        "topic": TOPIC,
        "partition": 0,
        "log_start_offset": before,
        "cutoff": cutoff,
        "outcome": outcome,
        "evidence": {"fraud": cutoff + 7, "ledger": cutoff},
        **changes,
    }


def found(deletions: list[dict[str, Any]], log_start: int) -> list[str]:
    return contradictions(deletions, {(TOPIC, 0): log_start})


@pytest.mark.parametrize(
    ("deletions", "log_start"),
    [
        ([], 0),
        ([deletion(0, 10), deletion(10, 25)], 25),
        ([deletion(0, 10), deletion(10, 25, "failed")], 10),
        ([deletion(0, 10), deletion(10, 25, "not_attempted")], 10),
        ([deletion(0, 10), deletion(10, 25, "unknown")], 10),
        ([deletion(0, 10), deletion(10, 25, "unknown")], 25),
        ([deletion(0, 10), deletion(0, 12)], 12),
    ],
    ids=[
        "nothing deleted",
        "deleted",
        "failed",
        "not attempted",
        "unknown, did not come true",
        "unknown, came true",
        "repeated after it was unknown, and both came true",
    ],
)
def test_a_log_start_that_the_audit_log_accounts_for_is_no_contradiction(
    deletions: list[dict[str, Any]], log_start: int
) -> None:
    assert found(deletions, log_start) == []


@pytest.mark.parametrize(
    ("deletions", "log_start"),
    [
        ([], 10),
        ([deletion(0, 10)], 0),
        ([deletion(0, 10)], 11),
        ([deletion(0, 10), deletion(10, 25, "failed")], 25),
        ([deletion(0, 10, "unknown")], 11),
    ],
    ids=["not told", "not done", "more done", "failed, and done", "more than was asked for"],
)
def test_a_log_start_that_the_audit_log_does_not_account_for_is_one(
    deletions: list[dict[str, Any]], log_start: int
) -> None:
    (sentence,) = found(deletions, log_start)
    assert sentence.startswith(f"{TOPIC}-0: the log starts at {log_start}, ")


def test_a_deletion_missing_between_two_others_is_a_contradiction() -> None:
    assert found([deletion(0, 10), deletion(15, 25)], 25) == [
        f"{TOPIC}-0: a deletion begins at 15, and nothing is told from 10 on"
    ]


def test_a_cutoff_beyond_a_commit_that_it_rests_on_is_a_contradiction() -> None:
    assert found([deletion(0, 10, evidence={"fraud": 9, "ledger": 10})], 10) == [
        f"{TOPIC}-0: cutoff 10 is beyond the commits that it rests on: {{'fraud': 9}}"
    ]


def test_a_deletion_from_a_partition_that_the_demo_does_not_have_is_a_contradiction() -> None:
    assert found([deletion(0, 10, partition=4)], 0) == [
        f"{TOPIC}-4 was deleted from, and is no partition of the demo"
    ]
