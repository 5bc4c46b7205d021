"""Execution: the order of intent, request and outcome, and what each answer proves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from threading import Event
from typing import Any

import pytest

from retentiond.act.approved import Approved, UnprovenDeletion
from retentiond.act.delete import EvidenceAge, execute
from retentiond.act.request import Requester, WantedDeletion, read_log_starts
from retentiond.errors import KafkaUnavailable, OtherCluster, StateError
from retentiond.kafka.interface import DeleteFailure, OffsetBound, RequestResult, Target
from retentiond.model import DeletionOutcome, Failure, Outcome, TopicPartition
from retentiond.state.operator_actions import Pause
from tests.support.builders.topic_leaders import (
    CountingStop,
    Leaders,
    Reply,
    approved,
    by_partition,
)

P0, P1, P2, P3 = (TopicPartition("orders", number) for number in range(4))
NOW = 5_000_000
READ_AT = 700.0
"""Seconds since the host was started, when the evidence was read."""

FRESH = EvidenceAge(NOW, READ_AT)

BY_WHOM = "whether this request deleted them is not known"
READ_BACK = f"the records were gone by the time it was read back; {BY_WHOM}"

OTHER_IDS = pytest.mark.parametrize("other_id", ["an id that comes before", "z, which comes after"])


class Notebook:
    """A `Journal` that notes its calls among those of the cluster."""

    def __init__(self, calls: list[str]) -> None:
        self.calls = calls
        self.intended: list[tuple[TopicPartition, ...]] = []
        self.times_ms: list[tuple[int, int]] = []  # of the evidence and of the request
        self.settled: list[tuple[DeletionOutcome, ...]] = []
        self.full = False

    def intend(
        self,
        cycle_id: str,
        batch: Sequence[Approved],
        requested_at_ms: int,
        *,
        evidence_at_ms: int,
    ) -> None:
        if self.full:
            raise StateError("the disk is full")
        self.calls.append("intend")
        self.intended.append(tuple(each.topic_partition for each in batch))
        self.times_ms.append((evidence_at_ms, requested_at_ms))

    def settle(
        self,
        cycle_id: str,
        outcomes: Sequence[DeletionOutcome],
        settled_at_ms: int,
        *,
        give_up: bool = False,
    ) -> None:
        self.calls.append("settle")
        self.settled.append(tuple(outcomes))

    def unsettled(self, cluster_id: str) -> Sequence[UnprovenDeletion]:
        raise NotImplementedError


class Stage:
    """A cluster, a notebook and a clock that stands still unless told otherwise."""

    def __init__(self) -> None:
        self.kafka = Leaders([P0, P1, P2, P3])
        self.journal = Notebook(self.kafka.calls)
        self.now: Callable[[], int] = lambda: NOW
        self.elapsed: Callable[[], float] = lambda: READ_AT
        self.stop: Event = CountingStop()
        self.why_paused: Callable[[], Pause | None] = lambda: None
        self.age_s: float | None = None  # of the evidence, as the last execution told it

    def execute(
        self,
        *partitions: TopicPartition,
        evidence: EvidenceAge = FRESH,
        outcomes: list[DeletionOutcome] | None = None,
    ) -> tuple[DeletionOutcome, ...]:
        outcomes = [] if outcomes is None else outcomes
        self.age_s = execute(
            [approved(at) for at in partitions],
            self.kafka,
            self.journal,
            cycle_id="cycle-1",
            evidence=evidence,
            now=self.now,
            elapsed=self.elapsed,
            stop=self.stop,
            why_paused=self.why_paused,
            outcomes=outcomes,
        )
        return tuple(outcomes)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_the_intent_comes_before_the_request_and_the_outcome_after(stage: Stage) -> None:
    outcomes = stage.execute(P0, P1)

    assert stage.kafka.calls == ["intend", "look_before_deleting", "delete_records", "settle"]
    assert stage.kafka.requests == [{P0: 100, P1: 100}]
    assert outcomes == (
        DeletionOutcome("orders", 0, Outcome.DELETED, low_watermark=100),
        DeletionOutcome("orders", 1, Outcome.DELETED, low_watermark=100),
    )
    assert stage.journal.settled == [outcomes]


def test_a_low_watermark_above_the_cutoff_proves_that_the_records_are_gone_and_not_by_whom(
    stage: Stage,
) -> None:
    stage.kafka.logs[P0].log_start_offset = 120

    (outcome,) = stage.execute(P0)

    note = f"the records were gone when it was asked; {BY_WHOM}"
    assert outcome == DeletionOutcome("orders", 0, Outcome.DELETED, 120, note)
    assert not outcome.is_ours
    assert stage.kafka.calls == [
        "intend",
        "look_before_deleting",
        "delete_records",
        "settle",
    ]  # nothing is read back


def test_an_intent_says_when_its_evidence_was_read_and_when_it_is_requested(stage: Stage) -> None:
    clock = iter(range(NOW, NOW + 100))
    stage.now = lambda: next(clock)

    stage.execute(P0, P1, evidence=EvidenceAge(NOW - 7, READ_AT))

    assert stage.journal.times_ms == [(NOW - 7, NOW)]


def test_when_the_intent_cannot_be_written_no_request_goes_out(stage: Stage) -> None:
    stage.journal.full = True

    with pytest.raises(StateError):
        stage.execute(P0)

    assert stage.kafka.requests == []


def test_a_refusal_is_a_failure_and_leaves_the_others_alone(stage: Stage) -> None:
    stage.kafka.replies[P0] = [Reply.REFUSES]

    outcomes = stage.execute(P0, P1)

    assert outcomes[0] == DeletionOutcome(
        "orders", 0, Outcome.FAILED, error="POLICY_VIOLATION: as told"
    )
    assert outcomes[1].outcome is Outcome.DELETED
    assert len(stage.kafka.requests) == 1


def test_what_a_silent_leader_was_not_sent_is_not_attempted_and_nothing_is_read_back(
    stage: Stage,
) -> None:
    stage.kafka.replies[P0] = [Reply.SILENT]

    outcomes = stage.execute(P0, P1)

    assert outcomes[0] == DeletionOutcome("orders", 0, Outcome.NOT_ATTEMPTED, error="as told")
    assert outcomes[1].outcome is Outcome.DELETED
    assert "offsets" not in stage.kafka.calls


@pytest.mark.parametrize(
    ("reply", "age_s"), [(Reply.APPLIES, 2.0), (Reply.REFUSES, 2.0), (Reply.SILENT, None)]
)
def test_how_old_the_evidence_was_is_told_unless_no_request_went_out(
    stage: Stage, reply: Reply, age_s: float | None
) -> None:
    stage.kafka.replies[P0] = [reply]

    stage.execute(P0, evidence=read_ago(2.0))

    assert stage.age_s == age_s


# --- leaders that moved


def test_when_a_leader_has_moved_only_its_partition_is_asked_again(stage: Stage) -> None:
    stage.kafka.replies[P1] = [Reply.MOVED]

    outcomes = stage.execute(P0, P1)

    assert [each.outcome for each in outcomes] == [Outcome.DELETED] * 2
    assert stage.kafka.requests == [{P0: 100, P1: 100}, {P1: 100}]
    assert stage.kafka.calls == [
        "intend",
        "look_before_deleting",
        "delete_records",
        "look_before_deleting",
        "delete_records",
        "settle",
    ]


def test_a_leader_that_keeps_moving_is_asked_three_times_and_then_read_back(
    stage: Stage,
) -> None:
    stage.kafka.replies[P0] = [Reply.MOVED] * 9
    stage.stop = stop = CountingStop()

    (outcome,) = stage.execute(P0)

    assert outcome.outcome is Outcome.UNKNOWN
    assert outcome.error == (
        "NOT_LEADER_FOR_PARTITION: as told; the log start offset was 10 when read back"
    )
    assert len(stage.kafka.requests) == 3
    assert stop.waits == [0.5, 1.0]


def test_a_leader_that_moved_its_log_start_and_then_lost_the_lead_is_read_back_as_deleted(
    stage: Stage,
) -> None:
    stage.kafka.replies[P0] = [Reply.APPLIES_AND_MOVES] + [Reply.MOVED] * 9

    (outcome,) = stage.execute(P0)

    assert outcome == DeletionOutcome("orders", 0, Outcome.DELETED, 100, READ_BACK)
    assert len(stage.kafka.requests) == 3


def test_a_refusal_by_the_next_leader_or_its_silence_does_not_make_the_first_request_harmless(
    stage: Stage,
) -> None:
    stage.kafka.replies[P0] = [Reply.APPLIES_AND_MOVES, Reply.REFUSES]
    stage.kafka.replies[P1] = [Reply.MOVED, Reply.REFUSES]
    stage.kafka.replies[P2] = [Reply.MOVED, Reply.SILENT]

    first, *others = stage.execute(P0, P1, P2)

    assert first == DeletionOutcome("orders", 0, Outcome.DELETED, 100, READ_BACK)
    assert [each.outcome for each in others] == [Outcome.UNKNOWN] * 2
    assert others[0].error == (
        "POLICY_VIOLATION: as told; the log start offset was 10 when read back"
    )
    assert len(stage.kafka.requests) == 2


def test_a_stop_ends_the_wait_for_a_moved_leader(stage: Stage) -> None:
    stage.kafka.replies[P0] = [Reply.MOVED]
    stage.stop = CountingStop(patience=1)

    outcomes = stage.execute(P0, P1)

    assert [each.outcome for each in outcomes] == [Outcome.UNKNOWN, Outcome.DELETED]
    assert stage.kafka.calls == ["intend", "look_before_deleting", "delete_records", "settle"]
    assert stage.journal.settled == [outcomes]


@OTHER_IDS
def test_a_topic_recreated_while_its_leader_moved_is_not_asked_again(
    stage: Stage, other_id: str
) -> None:
    class Recreated(CountingStop):
        def wait(self, timeout: float | None = None) -> bool:
            for log in stage.kafka.logs.values():
                log.topic_id = other_id
            return super().wait(timeout)

    stage.kafka.replies[P0] = [Reply.MOVED]
    stage.stop = Recreated()

    (outcome,) = stage.execute(P0)

    assert outcome.outcome is Outcome.UNKNOWN
    assert (outcome.error or "").endswith("; the topic was recreated meanwhile")
    assert len(stage.kafka.requests) == 1
    assert stage.kafka.logs[P0].log_start_offset == 10


@OTHER_IDS
def test_a_topic_recreated_since_the_second_reading_is_not_asked_for(
    stage: Stage, other_id: str
) -> None:
    for log in stage.kafka.logs.values():
        log.topic_id = other_id

    (outcome,) = stage.execute(P0)

    assert outcome == DeletionOutcome(
        "orders",
        0,
        Outcome.NOT_ATTEMPTED,
        error=f"the topic's id was id-of-orders, and right before the request it is {other_id}",
    )
    assert stage.kafka.requests == []
    assert stage.journal.settled == [(outcome,)]


def test_when_the_topics_cannot_be_looked_at_nothing_is_asked_for(stage: Stage) -> None:
    stage.kafka.failing["look_before_deleting"] = KafkaUnavailable("no broker answers")

    (outcome,) = stage.execute(P0)

    assert outcome.outcome is Outcome.NOT_ATTEMPTED
    assert outcome.error == (
        "the topics could not be looked at right before the request (no broker answers)"
    )
    assert stage.kafka.requests == []


def test_no_request_may_be_handed_over_after_its_evidence_is_too_old(stage: Stage) -> None:
    stage.execute(P0)
    assert stage.kafka.deadlines == [READ_AT + 5.0]


def test_when_another_cluster_answers_the_batch_is_settled_and_the_cycle_fails(
    stage: Stage,
) -> None:
    stage.kafka.failing["look_before_deleting"] = OtherCluster("two clusters answer")

    told: list[DeletionOutcome] = []

    with pytest.raises(OtherCluster):
        stage.execute(P0, P1, outcomes=told)

    assert stage.kafka.requests == []
    assert stage.journal.settled == [tuple(told)]
    first, second = told
    assert [first.outcome, second.outcome] == [Outcome.NOT_ATTEMPTED] * 2
    assert first.error == "two clusters answer"


@pytest.mark.parametrize(
    "error", [KafkaUnavailable("no broker answers"), OtherCluster("two clusters answer")]
)
def test_when_a_topic_cannot_be_looked_at_again_a_moved_partition_is_not_asked_again(
    stage: Stage, error: Exception
) -> None:
    class Gone(CountingStop):
        def wait(self, timeout: float | None = None) -> bool:
            stage.kafka.failing["look_before_deleting"] = error
            return super().wait(timeout)

    stage.kafka.replies[P0] = [Reply.MOVED]
    stage.stop = stop = Gone()

    (outcome,) = stage.execute(P0)

    assert outcome.outcome is Outcome.UNKNOWN
    assert len(stage.kafka.requests) == 1
    assert stop.waits == [0.5]
    assert stage.journal.settled == [(outcome,)]


def test_a_request_lost_after_its_leader_moved_is_read_back(stage: Stage) -> None:
    stage.kafka.replies[P0] = [Reply.MOVED, Reply.APPLIES_AND_IS_LOST]

    (outcome,) = stage.execute(P0)

    assert outcome == DeletionOutcome("orders", 0, Outcome.DELETED, 100, READ_BACK)


# --- answers that prove nothing


@pytest.mark.parametrize(
    ("topic_id", "target"), [(None, 100), ("id-of-orders", OffsetBound.HIGH_WATERMARK)]
)
def test_without_an_id_or_an_offset_no_log_start_proves_that_a_lost_request_was_applied(
    stage: Stage, topic_id: str | None, target: Target
) -> None:
    stage.kafka.logs[P0].log_start_offset = 100
    lost = DeleteFailure(RequestResult.UNKNOWN, Failure("REQUEST_TIMED_OUT", "as told"))
    requester: Requester[Target] = Requester(
        look=stage.kafka.look_before_deleting,
        send=lambda targets: dict.fromkeys(targets, lost),
        read_back=partial(read_log_starts, stage.kafka),
        stop=stage.stop,
    )

    (outcome,) = requester.request([WantedDeletion(P0, topic_id, target)])

    assert outcome.outcome is Outcome.UNKNOWN
    assert outcome.error == "REQUEST_TIMED_OUT: as told; no log start offset can prove it"


@pytest.mark.parametrize(
    ("reply", "low_watermark", "said"),
    [
        (Reply.IS_LOST, None, ""),
        (Reply.LAGS, 10, "the broker answered with the low watermark 10"),
        (Reply.SAYS_NOTHING, None, ""),
    ],
)
def test_an_answer_that_proves_nothing_is_unknown_and_never_failed(
    stage: Stage, reply: Reply, low_watermark: int | None, said: str
) -> None:
    stage.kafka.replies[P0] = [reply]

    outcomes = by_partition(stage.execute(P0, P1))

    assert outcomes[P0].outcome is Outcome.UNKNOWN
    assert outcomes[P0].low_watermark == low_watermark
    error = outcomes[P0].error or ""
    assert error.endswith(f"{said}; the log start offset was 10 when read back")
    assert outcomes[P1].outcome is Outcome.DELETED
    assert len(stage.kafka.requests) == 1  # never asked twice


def test_a_timed_out_request_that_was_applied_is_read_back_as_deleted(stage: Stage) -> None:
    stage.kafka.replies[P0] = [Reply.APPLIES_AND_IS_LOST]

    (outcome,) = stage.execute(P0)

    assert outcome == DeletionOutcome("orders", 0, Outcome.DELETED, 100, READ_BACK)
    assert stage.kafka.calls == [
        "intend",
        "look_before_deleting",
        "delete_records",
        "offsets",
        "describe_topics",
        "settle",
    ]


def test_a_log_start_right_below_the_cutoff_proves_nothing(stage: Stage) -> None:
    stage.kafka.replies[P0] = [Reply.IS_LOST]
    stage.kafka.logs[P0].log_start_offset = 99

    (outcome,) = stage.execute(P0)

    assert outcome.outcome is Outcome.UNKNOWN


@OTHER_IDS
def test_the_log_start_of_a_recreated_topic_proves_nothing(stage: Stage, other_id: str) -> None:
    stage.kafka.replies[P0] = [Reply.IS_LOST]
    delete_records = stage.kafka.delete_records

    def and_then_it_is_recreated(*args: Any, **named: Any) -> Any:
        answers = delete_records(*args, **named)
        for log in stage.kafka.logs.values():
            log.log_start_offset, log.topic_id = 5000, other_id
        return answers

    stage.kafka.delete_records = and_then_it_is_recreated  # type: ignore[method-assign]  # as said

    (outcome,) = stage.execute(P0)

    assert outcome.outcome is Outcome.UNKNOWN
    assert outcome.error == "REQUEST_TIMED_OUT: as told; the topic was recreated meanwhile"


def test_when_the_log_start_cannot_be_read_back_the_outcome_is_unknown(stage: Stage) -> None:
    stage.kafka.replies[P0] = [Reply.APPLIES_AND_IS_LOST]
    stage.kafka.unreadable.add(P0)

    (outcome,) = stage.execute(P0)

    assert outcome.outcome is Outcome.UNKNOWN
    assert outcome.error == (
        "REQUEST_TIMED_OUT: as told; the log start offset could not be read back "
        "(LEADER_NOT_AVAILABLE: no leader)"
    )


@pytest.mark.parametrize("method", ["offsets", "describe_topics"])
def test_a_read_back_that_raises_proves_nothing(stage: Stage, method: str) -> None:
    stage.kafka.replies[P0] = [Reply.APPLIES_AND_IS_LOST]
    stage.kafka.failing[method] = KafkaUnavailable("no broker answers")

    outcomes = stage.execute(P0, P1)

    assert [each.outcome for each in outcomes] == [Outcome.UNKNOWN, Outcome.DELETED]
    assert stage.journal.settled == [outcomes]


@pytest.mark.parametrize("error", [KafkaUnavailable("gone"), RuntimeError("a bug")])
def test_a_request_that_raises_is_read_back_for_every_partition(
    stage: Stage, error: Exception
) -> None:
    stage.kafka.failing["delete_records"] = error
    stage.kafka.logs[P0].log_start_offset = 100  # the leader had already heard it

    outcomes = by_partition(stage.execute(P0, P1))

    assert outcomes[P0] == DeletionOutcome("orders", 0, Outcome.DELETED, 100, READ_BACK)
    assert outcomes[P1].outcome is Outcome.UNKNOWN
    assert (outcomes[P1].error or "").startswith(f"{type(error).__name__}: {error}; ")


# --- when to stop


def test_when_asked_to_stop_no_batch_goes_out(stage: Stage) -> None:
    stage.stop.set()

    (outcome,) = stage.execute(P0)

    assert outcome == DeletionOutcome(
        "orders", 0, Outcome.NOT_ATTEMPTED, error="retentiond is stopping"
    )
    assert stage.kafka.calls == []


def test_when_asked_to_stop_meanwhile_a_lost_request_is_left_to_the_next_start(
    stage: Stage,
) -> None:
    stage.kafka.replies[P0] = [Reply.APPLIES_AND_IS_LOST]
    answer = stage.kafka.answer

    def answer_and_stop(at: TopicPartition, cutoff: int, reply: Reply) -> object:
        stage.stop.set()
        return answer(at, cutoff, reply)

    stage.kafka.answer = answer_and_stop  # type: ignore[method-assign,assignment]  # a spy

    outcomes = stage.execute(P0, P1)

    assert [each.outcome for each in outcomes] == [Outcome.UNKNOWN, Outcome.DELETED]
    assert outcomes[0].error == (
        "REQUEST_TIMED_OUT: as told; "
        "the topic could not be read back (STOPPING: retentiond is stopping)"
    )
    assert stage.kafka.calls == ["intend", "look_before_deleting", "delete_records", "settle"]


def read_ago(seconds: float, round_trip_s: float = 0.0) -> EvidenceAge:
    return EvidenceAge(NOW, READ_AT - seconds, round_trip_s)


def test_evidence_of_just_the_age_allowed_is_used(stage: Stage) -> None:
    (outcome,) = stage.execute(P0, evidence=read_ago(5.0))

    assert outcome.outcome is Outcome.DELETED


@pytest.mark.parametrize(
    ("round_trip_s", "said"),
    [(0.01, ""), (0.6, "; 7 round trips to the brokers, of 600 ms each, take 4.2 s of it")],
)
def test_evidence_that_is_too_old_is_not_used(stage: Stage, round_trip_s: float, said: str) -> None:
    (outcome,) = stage.execute(P0, evidence=read_ago(5.001, round_trip_s))

    assert outcome == DeletionOutcome(
        "orders",
        0,
        Outcome.NOT_ATTEMPTED,
        error=f"the groups were read 5.0 s ago, longer than 5.0 s{said}",
    )
    assert stage.kafka.calls == []


def test_the_wall_clock_has_no_say_in_how_old_the_evidence_is(stage: Stage) -> None:
    hour_ms = 3_600_000
    for read_at_ms in (NOW - hour_ms, NOW + hour_ms):
        (outcome,) = stage.execute(P0, evidence=EvidenceAge(read_at_ms, READ_AT))

        assert outcome.outcome is Outcome.DELETED


def test_a_clock_set_back_by_a_moment_puts_no_request_before_its_evidence(stage: Stage) -> None:
    """`audit --verify` would accuse the deletion for good."""
    stage.execute(P0, evidence=EvidenceAge(NOW + 500, READ_AT))

    assert stage.journal.times_ms == [(NOW + 500, NOW + 500)]


def ticking(*ages_s: float) -> Callable[[], float]:
    """The evidence's age at each look at the clock, the last one for good."""

    def ticks() -> Iterator[float]:
        yield from ages_s
        while True:
            yield ages_s[-1]

    clock = ticks()
    return lambda: READ_AT + next(clock)


def test_evidence_that_grew_old_while_the_intent_was_written_is_not_used(stage: Stage) -> None:
    stage.elapsed = ticking(0, 5.1)  # before the intents, before the request

    (outcome,) = stage.execute(P0)

    assert outcome.outcome is Outcome.NOT_ATTEMPTED
    assert stage.kafka.requests == []
    assert stage.journal.settled == [(outcome,)]


def test_the_age_is_looked_at_after_the_topics_and_right_before_the_request(stage: Stage) -> None:
    def elapsed() -> float:
        stage.kafka.calls.append("clock")
        return READ_AT

    stage.elapsed = elapsed

    stage.execute(P0)

    before_request = stage.kafka.calls[: stage.kafka.calls.index("delete_records")]
    assert before_request[-3:] == ["look_before_deleting", "clock", "clock"]


def test_evidence_that_grew_old_before_a_second_attempt_is_not_used(stage: Stage) -> None:
    stage.kafka.replies[P0] = [Reply.MOVED]
    stage.elapsed = ticking(0, 0, 5.1)

    (outcome,) = stage.execute(P0)

    assert outcome.outcome is Outcome.UNKNOWN
    assert len(stage.kafka.requests) == 1
