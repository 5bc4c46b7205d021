"""Reconciliation: what a log start offset read back proves about deletions left open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

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
LATER = 9_000_000

Change = Callable[[Leaders], object]


@pytest.fixture
def audit(tmp_path: Path) -> Iterator[Audit]:
    audit = Audit.open(tmp_path)
    audit.record_cycle(CYCLE)
    yield audit
    audit.close()


@pytest.fixture
def kafka() -> Leaders:
    return Leaders([P0, P1, P2])


def intend(audit: Audit, *partitions: TopicPartition, cycle_id: str = "cycle-1") -> None:
    audit.intend(cycle_id, [approved(at) for at in partitions], requested_at_ms=2, evidence_at_ms=1)


def unknown(audit: Audit, at: TopicPartition) -> None:
    intend(audit, at)
    outcome = DeletionOutcome(at.topic, at.partition, Outcome.UNKNOWN, error="timed out")
    audit.settle("cycle-1", [outcome], 3)


READ_BACK = ALREADY_GONE.format(when="by the time it was read back")


STOPPED = "the daemon stopped before the outcome was recorded"


def log_start(offset: int) -> Change:
    return lambda kafka: setattr(kafka.logs[P0], "log_start_offset", offset)


def recreated(kafka: Leaders) -> None:
    for log in kafka.logs.values():
        log.topic_id, log.log_start_offset = "id-of-another", 5000


def gone(kafka: Leaders) -> None:
    kafka.logs.clear()


def not_described(kafka: Leaders) -> None:
    """A stale view, which is no proof that the topic is gone."""
    gone(kafka)
    kafka.topic_names = lambda: frozenset({"clicks", "orders"})  # type: ignore[method-assign]  # so


def unreadable(kafka: Leaders) -> None:
    kafka.failing["offsets"] = KafkaUnavailable("no broker answers")


class Case(NamedTuple):
    """``error``: what the audit log says in the end. ``is_news``: the outcome is another."""

    leave: Callable[[Audit, TopicPartition], None]
    change: Change
    low_watermark: int | None
    error: str
    is_news: bool = True
    stays_open: bool = False


CASES = {
    "an open intent is done, by whomever": Case(intend, log_start(100), 100, READ_BACK),
    "an open intent is not done": Case(
        intend,
        log_start(99),
        None,
        f"{STOPPED}; the log start offset was 99 when read back",
        stays_open=True,
    ),
    "an open intent can't be read back": Case(
        intend,
        unreadable,
        None,
        f"{STOPPED}; the topic could not be read back (KafkaUnavailable: no broker answers)",
        stays_open=True,
    ),
    "an open intent's topic is gone": Case(
        intend, gone, None, f"{STOPPED}; the topic no longer exists"
    ),
    "an unknown outcome stays so": Case(
        unknown, log_start(99), None, "timed out", is_news=False, stays_open=True
    ),
    "a frozen leader wakes": Case(unknown, log_start(150), 150, READ_BACK),
    "an unknown outcome's topic is recreated": Case(
        unknown,
        recreated,
        None,
        "the outcome was never proven; the topic was recreated meanwhile",
    ),
    "an unknown outcome's topic can't be described": Case(
        unknown, not_described, None, "timed out", is_news=False, stays_open=True
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_was_left_is_settled_as_far_as_the_log_start_proves_it(
    audit: Audit, kafka: Leaders, name: str
) -> None:
    case = CASES[name]
    case.leave(audit, P0)
    case.change(kafka)

    outcomes = reconcile(audit, kafka, LATER)

    record = only(audit)
    is_deleted = case.low_watermark is not None
    assert record.outcome is (Outcome.DELETED if is_deleted else Outcome.UNKNOWN)
    assert (record.low_watermark, record.error) == (case.low_watermark, case.error)
    assert record.settled_at_ms == (LATER if case.is_news else 3)
    told = DeletionOutcome("orders", 0, record.outcome, record.low_watermark, record.error)
    assert outcomes == ((told,) if case.is_news else ())
    open_still = [each.topic_partition for each in audit.unsettled("cluster-a")]
    assert open_still == ([P0] if case.stays_open else [])


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
