"""Reconciliation: what a log start offset read back proves about deletions left open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from retentiond.act.delete import reconcile
from retentiond.act.request import ALREADY_GONE
from retentiond.errors import KafkaUnavailable
from retentiond.model import DeletionOutcome, Outcome, TopicPartition
from retentiond.state.audit import Audit
from retentiond.state.audit_records import read_deletions
from tests.support.builders.topic_leaders import Leaders, approved
from tests.unit.state.test_state_audit import CYCLE, only

P0, P1, P2 = (TopicPartition("orders", number) for number in range(3))
CLICKS = TopicPartition("clicks", 0)
LATER = 9_000_000


@pytest.fixture
def audit(tmp_path: Path) -> Iterator[Audit]:
    audit = Audit.open(tmp_path)
    audit.record_cycle(CYCLE)
    yield audit
    audit.close()


@pytest.fixture
def kafka() -> Leaders:
    return Leaders([P0, P1, P2, CLICKS])


def intend(audit: Audit, *partitions: TopicPartition, cycle_id: str = "cycle-1") -> None:
    audit.intend(cycle_id, [approved(at) for at in partitions], requested_at_ms=2, evidence_at_ms=1)


def unknown(audit: Audit, at: TopicPartition) -> None:
    intend(audit, at)
    outcome = DeletionOutcome(at.topic, at.partition, Outcome.UNKNOWN, error="timed out")
    audit.settle("cycle-1", [outcome], 3)


READ_BACK = ALREADY_GONE.format(when="by the time it was read back")


def test_an_open_intent_whose_log_start_has_moved_is_deleted_by_whomever(
    audit: Audit, kafka: Leaders
) -> None:
    intend(audit, P0)
    kafka.logs[P0].log_start_offset = 100

    outcomes = reconcile(audit, kafka, LATER)

    assert outcomes == (DeletionOutcome("orders", 0, Outcome.DELETED, 100, READ_BACK),)
    record = only(audit)
    assert (record.outcome, record.low_watermark) == (Outcome.DELETED, 100)
    assert record.settled_at_ms == LATER
    assert not audit.unsettled("cluster-a")


def test_an_open_intent_whose_log_start_has_not_moved_is_unknown_and_asked_for_again(
    audit: Audit, kafka: Leaders
) -> None:
    intend(audit, P0)
    kafka.logs[P0].log_start_offset = 99

    reconcile(audit, kafka, LATER)

    record = only(audit)
    assert record.outcome is Outcome.UNKNOWN
    assert record.error == (
        "the daemon stopped before the outcome was recorded; "
        "the log start offset was 99 when read back"
    )
    assert [each.topic_partition for each in audit.unsettled("cluster-a")] == [P0]


def test_an_unknown_outcome_becomes_deleted_when_the_frozen_leader_wakes(
    audit: Audit, kafka: Leaders
) -> None:
    unknown(audit, P0)

    assert reconcile(audit, kafka, LATER) == ()
    assert only(audit).error == "timed out"  # nothing new is known

    kafka.logs[P0].log_start_offset = 150
    assert reconcile(audit, kafka, LATER) == (
        DeletionOutcome("orders", 0, Outcome.DELETED, 150, READ_BACK),
    )
    assert only(audit).outcome is Outcome.DELETED


def test_of_a_recreated_topic_the_outcome_stays_unknown_and_is_no_longer_asked_for(
    audit: Audit, kafka: Leaders
) -> None:
    unknown(audit, P0)
    for log in kafka.logs.values():
        log.topic_id, log.log_start_offset = "id-of-another", 5000

    (outcome,) = reconcile(audit, kafka, LATER)

    assert outcome.outcome is Outcome.UNKNOWN
    assert only(audit).outcome is Outcome.UNKNOWN
    assert only(audit).error == ("the outcome was never proven; the topic was recreated meanwhile")
    assert not audit.unsettled("cluster-a")


def test_of_a_topic_that_is_gone_an_open_intent_becomes_unknown_for_good(
    audit: Audit, kafka: Leaders
) -> None:
    intend(audit, CLICKS)
    del kafka.logs[CLICKS]

    reconcile(audit, kafka, LATER)

    assert only(audit).outcome is Outcome.UNKNOWN
    assert only(audit).error == (
        "the daemon stopped before the outcome was recorded; the topic no longer exists"
    )
    assert not audit.unsettled("cluster-a")


def test_a_topic_that_cannot_be_described_is_not_taken_for_gone(
    audit: Audit, kafka: Leaders
) -> None:
    unknown(audit, CLICKS)
    del kafka.logs[CLICKS]
    kafka.topic_names = lambda: frozenset({"clicks", "orders"})  # type: ignore[method-assign]  # a stale view

    assert reconcile(audit, kafka, LATER) == ()
    assert audit.unsettled("cluster-a")


def test_what_cannot_be_read_back_stays_open_to_proof(audit: Audit, kafka: Leaders) -> None:
    intend(audit, P0)
    kafka.failing["offsets"] = KafkaUnavailable("no broker answers")

    reconcile(audit, kafka, LATER)

    assert only(audit).outcome is Outcome.UNKNOWN
    assert audit.unsettled("cluster-a")


def test_only_the_partitions_in_question_are_asked_for(audit: Audit, kafka: Leaders) -> None:
    asked: list[TopicPartition] = []
    offsets = kafka.offsets
    kafka.offsets = lambda partitions, bound: (  # type: ignore[method-assign]  # a spy
        asked.extend(partitions) or offsets(partitions, bound)  # type: ignore[func-returns-value]  # extend
    )
    intend(audit, P0, P1)
    audit.settle("cycle-1", [DeletionOutcome("orders", 1, Outcome.DELETED, 100)], 3)

    reconcile(audit, kafka, LATER)

    assert asked == [P0]


def test_when_nothing_is_open_the_partitions_are_not_asked(audit: Audit, kafka: Leaders) -> None:
    assert reconcile(audit, kafka, LATER) == ()
    assert kafka.calls == ["cluster_id"]


def test_what_another_cluster_left_open_is_left_alone(audit: Audit, kafka: Leaders) -> None:
    audit.record_cycle(replace(CYCLE, cycle_id="cycle-0", cluster_id="cluster-b"))
    intend(audit, P0, cycle_id="cycle-0")

    assert reconcile(audit, kafka, LATER) == ()
    assert only(audit).outcome is None


def test_several_cycles_that_left_the_same_partition_open_are_all_settled(
    audit: Audit, kafka: Leaders
) -> None:
    audit.record_cycle(replace(CYCLE, cycle_id="cycle-2"))
    unknown(audit, P0)
    audit.intend("cycle-2", [approved(P0, cutoff=120)], requested_at_ms=4, evidence_at_ms=3)
    kafka.logs[P0].log_start_offset = 110

    reconcile(audit, kafka, LATER)

    assert [(each.cycle_id, each.outcome) for each in read_deletions(audit.state_dir)] == [
        ("cycle-1", Outcome.DELETED),
        ("cycle-2", Outcome.UNKNOWN),
    ]
