"""Execution: the order of intent, request and outcome, and what each answer proves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain, repeat
from threading import Event
from typing import Any, NamedTuple

import pytest

from retentiond.act.approved import Approved, UnprovenDeletion
from retentiond.act.delete import EvidenceAge, Throttling, execute
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

OTHER_IDS = ("an id that comes before", "z, which comes after")

PULLED = Pause("incident 4711")
UNAVAILABLE = KafkaUnavailable("no broker answers")
OTHER = OtherCluster("two clusters answer")


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


# What each answer proves

LOST = "REQUEST_TIMED_OUT: as told; the log start offset was 10 when read back"
REFUSED = "POLICY_VIOLATION: as told"


class Case(NamedTuple):
    """What the leader of P0 answers, one after the other, and what its outcome must be."""

    replies: list[Reply]
    outcome: Outcome
    low_watermark: int | None = None
    error: str | None = None
    requests: int = 1
    is_read_back: bool = False


ANSWERS = {
    "applies": Case([Reply.APPLIES], Outcome.DELETED, 100),
    "refuses": Case([Reply.REFUSES], Outcome.FAILED, None, REFUSED),
    "was sent nothing": Case([Reply.SILENT], Outcome.NOT_ATTEMPTED, None, "as told"),
    "is lost": Case([Reply.IS_LOST], Outcome.UNKNOWN, None, LOST, is_read_back=True),
    "applies and is lost": Case(
        [Reply.APPLIES_AND_IS_LOST], Outcome.DELETED, 100, READ_BACK, is_read_back=True
    ),
    "lags": Case(
        [Reply.LAGS],
        Outcome.UNKNOWN,
        10,
        "the broker answered with the low watermark 10; the log start offset was 10 when read back",
        is_read_back=True,
    ),
    "says nothing": Case(
        [Reply.SAYS_NOTHING],
        Outcome.UNKNOWN,
        None,
        "NO_ANSWER: nothing came back; the log start offset was 10 when read back",
        is_read_back=True,
    ),
    "has moved": Case([Reply.MOVED], Outcome.DELETED, 100, requests=2),
    "keeps moving": Case(
        [Reply.MOVED] * 9,
        Outcome.UNKNOWN,
        None,
        "NOT_LEADER_FOR_PARTITION: as told; the log start offset was 10 when read back",
        requests=3,
        is_read_back=True,
    ),
    "applies and keeps moving": Case(
        [Reply.APPLIES_AND_MOVES] + [Reply.MOVED] * 9, Outcome.DELETED, 100, READ_BACK, 3, True
    ),
    "moves and is lost": Case(
        [Reply.MOVED, Reply.APPLIES_AND_IS_LOST], Outcome.DELETED, 100, READ_BACK, 2, True
    ),
    # A refusal by the next leader, or its silence, does not make the first request harmless.
    "applies and moves, and the next refuses": Case(
        [Reply.APPLIES_AND_MOVES, Reply.REFUSES], Outcome.DELETED, 100, READ_BACK, 2, True
    ),
    "moves, and the next refuses": Case(
        [Reply.MOVED, Reply.REFUSES],
        Outcome.UNKNOWN,
        None,
        f"{REFUSED}; the log start offset was 10 when read back",
        2,
        True,
    ),
    "moves, and the next was sent nothing": Case(
        [Reply.MOVED, Reply.SILENT],
        Outcome.UNKNOWN,
        None,
        "LEADER_NOT_AVAILABLE: as told; the log start offset was 10 when read back",
        2,
        True,
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_taken_for_what_it_proves_and_leaves_the_others_alone(
    stage: Stage, name: str
) -> None:
    """An intent comes before the request and the outcome after; only who has moved is asked again,
    three times at most."""
    case = ANSWERS[name]
    stage.kafka.replies[P0] = list(case.replies)
    stage.stop = stop = CountingStop()

    outcomes = stage.execute(P0, P1)

    assert outcomes == (
        DeletionOutcome("orders", 0, case.outcome, case.low_watermark, case.error),
        DeletionOutcome("orders", 1, Outcome.DELETED, 100),
    )
    assert stage.kafka.requests == [{P0: 100, P1: 100}, {P0: 100}, {P0: 100}][: case.requests]
    assert stop.waits == [0.5, 1.0][: case.requests - 1]
    read_back = ["offsets", "describe_topics"] if case.is_read_back else []
    attempts = ["look_before_deleting", "delete_records"] * case.requests
    assert stage.kafka.calls == ["intend", *attempts, *read_back, "settle"]
    assert stage.journal.settled == [outcomes]


def test_a_low_watermark_above_the_cutoff_proves_that_the_records_are_gone_and_not_by_whom(
    stage: Stage,
) -> None:
    stage.kafka.logs[P0].log_start_offset = 120

    (outcome,) = stage.execute(P0)

    note = f"the records were gone when it was asked; {BY_WHOM}"
    assert outcome == DeletionOutcome("orders", 0, Outcome.DELETED, 120, note)
    assert not outcome.is_ours
    assert "offsets" not in stage.kafka.calls


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


def recreated_as(topic_id: str) -> Callable[[Stage], object]:
    def recreate(stage: Stage) -> None:
        for log in stage.kafka.logs.values():
            log.topic_id, log.log_start_offset = topic_id, 5000

    return recreate


def failing(method: str, error: Exception = UNAVAILABLE) -> Callable[[Stage], object]:
    return lambda stage: stage.kafka.failing.update({method: error})


AFTER_A_LOST_REQUEST: dict[str, tuple[Callable[[Stage], object], str]] = {
    "one record is there": (
        lambda stage: setattr(stage.kafka.logs[P0], "log_start_offset", 99),
        "the log start offset was 99 when read back",
    ),
    "recreated, before": (recreated_as(OTHER_IDS[0]), "the topic was recreated meanwhile"),
    "recreated, after": (recreated_as(OTHER_IDS[1]), "the topic was recreated meanwhile"),
    "its leader is away": (
        lambda stage: stage.kafka.unreadable.add(P0),
        "the log start offset could not be read back (LEADER_NOT_AVAILABLE: no leader)",
    ),
    "offsets can't be read": (
        failing("offsets"),
        "the topic could not be read back (KafkaUnavailable: no broker answers)",
    ),
    "topics can't be read": (
        failing("describe_topics"),
        "the topic could not be read back (KafkaUnavailable: no broker answers)",
    ),
    "it is asked to stop": (  # and leaves it to the next start
        lambda stage: stage.stop.set(),
        "the topic could not be read back (STOPPING: retentiond is stopping)",
    ),
}


@pytest.mark.parametrize("name", AFTER_A_LOST_REQUEST)
def test_what_is_read_back_after_a_lost_request_may_prove_nothing(stage: Stage, name: str) -> None:
    change, why = AFTER_A_LOST_REQUEST[name]
    stage.kafka.replies[P0] = [Reply.APPLIES_AND_IS_LOST]
    delete_records = stage.kafka.delete_records

    def and_then_it_changes(*args: Any, **named: Any) -> Any:
        answers = delete_records(*args, **named)
        change(stage)
        return answers

    stage.kafka.delete_records = and_then_it_changes  # type: ignore[method-assign]  # as said

    outcomes = stage.execute(P0, P1)

    lost = f"REQUEST_TIMED_OUT: as told; {why}"
    assert outcomes[0] == DeletionOutcome("orders", 0, Outcome.UNKNOWN, error=lost)
    assert outcomes[1].outcome is Outcome.DELETED
    assert stage.journal.settled == [outcomes]
    assert ("offsets" in stage.kafka.calls) is (not stage.stop.is_set())


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


# Before the request


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


LOOKS: dict[str, tuple[Callable[[Stage], object], str]] = {
    **{
        topic_id: (
            recreated_as(topic_id),
            f"the topic's id was id-of-orders, and right before the request it is {topic_id}",
        )
        for topic_id in OTHER_IDS
    },
    "no broker answers": (
        failing("look_before_deleting"),
        "the topics could not be looked at right before the request (no broker answers)",
    ),
    "another cluster answers": (failing("look_before_deleting", OTHER), str(OTHER)),
}


@pytest.mark.parametrize("name", LOOKS)
def test_what_the_last_look_objects_to_is_not_asked_for(stage: Stage, name: str) -> None:
    change, why = LOOKS[name]
    change(stage)
    told: list[DeletionOutcome] = []

    with pytest.raises(OtherCluster) if "cluster" in name else nullcontext():
        stage.execute(P0, P1, outcomes=told)

    assert told == [
        DeletionOutcome("orders", number, Outcome.NOT_ATTEMPTED, error=why) for number in (0, 1)
    ]
    assert stage.kafka.requests == []
    assert stage.journal.settled == [tuple(told)]


@pytest.mark.parametrize("name", LOOKS)
def test_what_the_look_objects_to_once_a_leader_has_moved_is_not_asked_again(
    stage: Stage, name: str
) -> None:
    class Changes(CountingStop):
        def wait(self, timeout: float | None = None) -> bool:
            LOOKS[name][0](stage)
            return super().wait(timeout)

    stage.kafka.replies[P0] = [Reply.MOVED]
    stage.stop = stop = Changes()

    (outcome,) = stage.execute(P0)

    assert outcome.outcome is Outcome.UNKNOWN
    assert (name in OTHER_IDS) is str(outcome.error).endswith("; the topic was recreated meanwhile")
    assert len(stage.kafka.requests) == 1
    assert stop.waits == [0.5]
    assert stage.journal.settled == [(outcome,)]


# When to stop


def test_a_stop_ends_the_wait_for_a_moved_leader(stage: Stage) -> None:
    stage.kafka.replies[P0] = [Reply.MOVED]
    stage.stop = CountingStop(patience=1)

    outcomes = stage.execute(P0, P1)

    assert [each.outcome for each in outcomes] == [Outcome.UNKNOWN, Outcome.DELETED]
    assert stage.kafka.calls == ["intend", "look_before_deleting", "delete_records", "settle"]
    assert stage.journal.settled == [outcomes]


def test_when_asked_to_stop_no_batch_goes_out(stage: Stage) -> None:
    stage.stop.set()

    (outcome,) = stage.execute(P0)

    assert outcome == DeletionOutcome(
        "orders", 0, Outcome.NOT_ATTEMPTED, error="retentiond is stopping"
    )
    assert stage.kafka.calls == []


def in_turn(*said: Any) -> Callable[[], Any]:
    """Says them one after the other, the last one for good."""
    each = chain(said, repeat(said[-1]))
    return lambda: next(each)


@pytest.mark.parametrize(
    ("pauses", "ages_s", "error"),
    [
        ([PULLED], [0], "paused: incident 4711"),
        ([None], [5.001], "the groups were read 5.0 s ago, longer than 5.0 s"),
        # once the intents are written
        ([None, PULLED], [0], "paused: incident 4711"),
        ([None], [0, 5.1], "the groups were read 5.1 s ago, longer than 5.0 s"),
        # before a second attempt; nor is one made when the brake is let go before a third
        ([None, None, PULLED], [0], None),
        ([None, None, PULLED, None], [0], None),
        ([None], [0, 0, 5.1], None),
    ],
)
def test_what_is_paused_or_whose_evidence_has_grown_old_is_not_requested(
    stage: Stage, pauses: list[Pause | None], ages_s: list[float], error: str | None
) -> None:
    stage.why_paused = in_turn(*pauses)
    stage.elapsed = in_turn(*(READ_AT + age_s for age_s in ages_s))
    stage.kafka.replies[P0] = [Reply.MOVED, Reply.MOVED]

    (outcome,) = stage.execute(P0)

    if error is None:
        assert outcome.outcome is Outcome.UNKNOWN
        assert len(stage.kafka.requests) == 1
    else:
        assert outcome == DeletionOutcome("orders", 0, Outcome.NOT_ATTEMPTED, error=error)
        at_once = len(pauses) == len(ages_s) == 1
        assert stage.kafka.calls == (
            [] if at_once else ["intend", "look_before_deleting", "settle"]
        )
        assert stage.journal.settled == ([] if at_once else [(outcome,)])


def read_ago(seconds: float, round_trip_s: float = 0.0) -> EvidenceAge:
    return EvidenceAge(NOW, READ_AT - seconds, round_trip_s)


def test_evidence_of_just_the_age_allowed_is_used(stage: Stage) -> None:
    (outcome,) = stage.execute(P0, evidence=read_ago(5.0))

    assert outcome.outcome is Outcome.DELETED


@pytest.mark.parametrize(
    ("round_trip_s", "said"),
    [(0.01, ""), (0.6, "; 9 round trips to the brokers, of 600 ms each, take 5.4 s of it")],
)
def test_evidence_that_is_too_old_says_what_long_round_trips_have_to_do_with_it(
    stage: Stage, round_trip_s: float, said: str
) -> None:
    (outcome,) = stage.execute(P0, evidence=read_ago(5.001, round_trip_s))

    assert outcome.error == f"the groups were read 5.0 s ago, longer than 5.0 s{said}"


@pytest.mark.parametrize(
    ("waits", "said"),
    [
        (3, ""),  # before the reading
        (
            5,
            "; a quota of the brokers let 2 requests wait, the last one for 1.0 s "
            "(throttle_time_ms): raise retentiond's request quota",
        ),
    ],
)
def test_evidence_that_is_too_old_says_what_the_brokers_quota_has_to_do_with_it(
    stage: Stage, waits: int, said: str
) -> None:
    throttled = replace(read_ago(5.001), throttling=lambda: Throttling(waits, 1.0), waits_before=3)
    (outcome,) = stage.execute(P0, evidence=throttled)

    assert outcome.error == f"the groups were read 5.0 s ago, longer than 5.0 s{said}"


@pytest.mark.parametrize(
    ("reply", "age_s"), [(Reply.APPLIES, 2.0), (Reply.REFUSES, 2.0), (Reply.SILENT, None)]
)
def test_how_old_the_evidence_was_is_told_unless_no_request_went_out(
    stage: Stage, reply: Reply, age_s: float | None
) -> None:
    stage.kafka.replies[P0] = [reply]

    stage.execute(P0, evidence=read_ago(2.0))

    assert stage.age_s == age_s


def test_no_request_may_be_handed_over_after_its_evidence_is_too_old(stage: Stage) -> None:
    stage.execute(P0)
    assert stage.kafka.deadlines == [READ_AT + 5.0]


def test_the_wall_clock_has_no_say_in_how_old_the_evidence_is(stage: Stage) -> None:
    hour_ms = 3_600_000
    for read_at_ms in (NOW - hour_ms, NOW + hour_ms):
        (outcome,) = stage.execute(P0, evidence=EvidenceAge(read_at_ms, READ_AT))

        assert outcome.outcome is Outcome.DELETED


def test_a_clock_set_back_by_a_moment_puts_no_request_before_its_evidence(stage: Stage) -> None:
    """`audit --verify` would accuse the deletion for good."""
    stage.execute(P0, evidence=EvidenceAge(NOW + 500, READ_AT))

    assert stage.journal.times_ms == [(NOW + 500, NOW + 500)]


def test_the_age_is_looked_at_after_the_topics_and_right_before_the_request(stage: Stage) -> None:
    def elapsed() -> float:
        stage.kafka.calls.append("clock")
        return READ_AT

    stage.elapsed = elapsed

    stage.execute(P0)

    before_request = stage.kafka.calls[: stage.kafka.calls.index("delete_records")]
    assert before_request[-3:] == ["look_before_deleting", "clock", "clock"]
