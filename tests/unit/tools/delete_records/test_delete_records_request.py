"""What the command makes of a request: `test_act_delete` has what its answers prove."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from retentiond.errors import OtherCluster
from retentiond.kafka.interface import OffsetBound, RequestResult
from retentiond.model import Failure, Outcome, TopicPartition
from retentiond.tools.delete_records.partitions import Item
from retentiond.tools.delete_records.request import delete
from tests.support.builders.deletable_topics import AT, Answer, Deletable, failure, topic
from tests.support.builders.topic_leaders import CountingStop

ITEM = Item("orders", 0, 42, topic_id="id")


TIMED_OUT = failure(RequestResult.UNKNOWN, "REQUEST_TIMED_OUT")

MOVED = failure(RequestResult.MOVED, "NOT_LEADER_FOR_PARTITION")


def cluster(*answers: Answer | Exception, log_start: int | Failure = 0) -> Deletable:
    scripted: list[Mapping[TopicPartition, Answer] | Exception] = [
        answer if isinstance(answer, Exception) else {AT: answer} for answer in answers
    ]
    return Deletable(
        topics={"orders": topic()},
        bounds={OffsetBound.LOG_START: {AT: log_start}},
        answers=iter(scripted),
    )


def outcome(asked: Deletable, item: Item = ITEM) -> Item:
    stop = CountingStop()
    (settled,) = delete(asked, [item], 30, stop)
    assert len(stop.waits) == len(asked.requests) - 1
    return settled


def test_the_low_watermark_is_the_brokers() -> None:
    settled = outcome(cluster(42))
    assert (settled.outcome, settled.low_watermark, settled.error) == (Outcome.DELETED, 42, None)


def test_all_partitions_are_one_request_and_the_others_keep_their_place() -> None:
    other = replace(ITEM, partition=1, target=0)
    failed = replace(ITEM, partition=2).failed("no such partition")
    left_out = replace(ITEM, partition=3).left_out("no commit")
    asked = Deletable(answers=iter([{AT: 42, other.at: 7}]))
    items = delete(asked, [failed, ITEM, left_out, other], 30)
    assert asked.requests == [{AT: 42, other.at: 0}]
    assert [each.partition for each in items] == [2, 0, 3, 1]
    assert [each.outcome for each in items] == [
        Outcome.FAILED,
        Outcome.DELETED,
        Outcome.NOT_ATTEMPTED,
        Outcome.DELETED,
    ]


@pytest.mark.parametrize(
    ("result", "code"), [(RequestResult.REFUSED, "SOME_ERROR: "), (RequestResult.NOT_SENT, "")]
)
def test_what_is_refused_or_was_never_sent_has_failed(result: RequestResult, code: str) -> None:
    gone = Failure("LEADER_NOT_AVAILABLE", "gone")
    settled = outcome(cluster(failure(result), log_start=gone))
    assert settled.outcome is Outcome.FAILED
    assert settled.error == f"{code}in the broker's words; nothing was deleted"


@pytest.mark.parametrize("log_start", [41, Failure("LEADER_NOT_AVAILABLE", "gone")])
def test_a_time_out_is_unknown_unless_the_log_start_proves_it(log_start: int | Failure) -> None:
    settled = outcome(cluster(TIMED_OUT, log_start=log_start))
    assert (settled.outcome, settled.low_watermark) == (Outcome.UNKNOWN, None)
    assert settled.has_failed
    assert settled.error is not None
    assert settled.error.startswith("REQUEST_TIMED_OUT: in the broker's words; ")
    assert settled.error.endswith("; it may be done yet, so look at the log start offset later")


def test_a_time_out_that_the_log_start_proves_is_done() -> None:
    settled = outcome(cluster(TIMED_OUT, log_start=43))
    assert (settled.outcome, settled.low_watermark) == (Outcome.DELETED, 43)


def test_a_topic_recreated_before_the_request_is_not_asked_for() -> None:
    asked = cluster(42)

    (settled,) = delete(asked, [replace(ITEM, topic_id="old")], 30)

    assert (settled.outcome, asked.requests) == (Outcome.FAILED, [])
    assert settled.error == (
        "the topic's id was old, and right before the request it is id; nothing was deleted"
    )


def test_where_two_clusters_answer_nothing_is_asked_for() -> None:
    asked = cluster(42)

    def two(_: object) -> Any:
        raise OtherCluster("two clusters answer")

    asked.look_before_deleting = two  # type: ignore[assignment, method-assign]  # as said

    (settled,) = delete(asked, [ITEM], 30)

    assert (settled.outcome, asked.requests) == (Outcome.FAILED, [])
    assert settled.error == "two clusters answer; nothing was deleted"


def test_with_nothing_to_ask_for_no_request_goes_out() -> None:
    asked = cluster()
    assert delete(asked, [ITEM.left_out("no commit")], 30)[0].outcome is Outcome.NOT_ATTEMPTED
    assert asked.requests == []


@pytest.mark.parametrize(
    ("paused_at", "answers", "requests"), [(0, (), 0), (1, (MOVED, 42), 1), (9, (MOVED, 42), 2)]
)
def test_what_is_paused_before_a_request_is_not_asked_for_and_not_again(
    paused_at: int, answers: tuple[Answer, ...], requests: int
) -> None:
    """A leader that has moved is looked up, and the new one asked."""
    asked = cluster(*answers)

    def objection() -> str | None:
        return "paused: incident" if len(asked.requests) >= paused_at else None

    (settled,) = delete(asked, [ITEM], 30, CountingStop(), objection=objection)
    assert len(asked.requests) == requests
    assert (settled.outcome is Outcome.DELETED) is (requests == 2)
    assert ("paused: incident" in str(settled.error)) is (requests == 0)
