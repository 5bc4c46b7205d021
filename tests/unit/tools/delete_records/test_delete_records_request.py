"""What an answer of DeleteRecords proves, and what is asked again."""

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

EVERYTHING = replace(ITEM, target=OffsetBound.HIGH_WATERMARK)

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


def test_a_refusal_is_a_failure() -> None:
    settled = outcome(cluster(failure(RequestResult.REFUSED, "OFFSET_OUT_OF_RANGE")))
    assert settled.outcome is Outcome.FAILED
    assert settled.error == "OFFSET_OUT_OF_RANGE: in the broker's words; nothing was deleted"


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


def test_a_log_start_of_a_recreated_topic_proves_nothing() -> None:
    asked = cluster(TIMED_OUT, log_start=43)
    recreated = {"orders": topic(topic_id="another")}
    delete_up_to = asked.delete_up_to

    def and_then_it_is_recreated(*args: Any, **named: Any) -> Any:
        asked.topics = recreated
        return delete_up_to(*args, **named)

    asked.delete_up_to = and_then_it_is_recreated  # type: ignore[method-assign]  # as said

    assert outcome(asked).outcome is Outcome.UNKNOWN


def test_a_topic_recreated_before_the_request_is_not_asked_for() -> None:
    asked = cluster(42)

    (settled,) = delete(asked, [replace(ITEM, topic_id="old")], 30)

    assert (settled.outcome, asked.requests) == (Outcome.FAILED, [])
    assert settled.error == (
        "the topic's id was old, and right before the request it is id; nothing was deleted"
    )


def test_a_topic_recreated_while_its_leader_moved_is_not_asked_again() -> None:
    asked = cluster(MOVED, 42)

    class Recreated(CountingStop):
        def wait(self, timeout: float | None = None) -> bool:
            asked.topics = {"orders": topic(topic_id="another")}
            return super().wait(timeout)

    (settled,) = delete(asked, [ITEM], 30, Recreated())

    assert (settled.outcome, len(asked.requests)) == (Outcome.UNKNOWN, 1)


def test_where_two_clusters_answer_nothing_is_asked_for() -> None:
    asked = cluster(42)

    def two(_: object) -> Any:
        raise OtherCluster("two clusters answer")

    asked.look_before_deleting = two  # type: ignore[assignment, method-assign]  # as said

    (settled,) = delete(asked, [ITEM], 30)

    assert (settled.outcome, asked.requests) == (Outcome.FAILED, [])
    assert settled.error == "two clusters answer; nothing was deleted"


def test_a_low_watermark_below_the_offset_is_no_proof() -> None:
    settled = outcome(cluster(41))
    assert (settled.outcome, settled.low_watermark) == (Outcome.UNKNOWN, 41)


def test_records_that_were_gone_beyond_the_offset_may_be_anybodys_work() -> None:
    settled = outcome(cluster(43))
    assert (settled.outcome, settled.low_watermark) == (Outcome.DELETED, 43)
    assert settled.error is not None
    assert settled.error.endswith("whether this request deleted them is not known")


def test_no_log_start_proves_that_everything_went() -> None:
    assert outcome(cluster(TIMED_OUT, log_start=43), EVERYTHING).outcome is Outcome.UNKNOWN


def test_an_exception_leaves_the_outcome_unknown() -> None:
    settled = outcome(cluster(RuntimeError("the client broke")))
    assert settled.outcome is Outcome.UNKNOWN
    assert settled.error is not None
    assert settled.error.startswith("RuntimeError: the client broke")


def test_a_partition_without_an_answer_is_unknown() -> None:
    asked = replace(cluster(), answers=iter([{}]))
    assert outcome(asked).outcome is Outcome.UNKNOWN


def test_a_moved_leader_is_looked_up_and_the_new_one_asked() -> None:
    asked = cluster(MOVED, 42)
    assert outcome(asked).outcome is Outcome.DELETED
    assert asked.requests == [{AT: 42}, {AT: 42}]
    assert asked.looks == 2


def test_a_refusal_after_a_first_request_says_nothing_about_that_one() -> None:
    refused = failure(RequestResult.REFUSED, "OFFSET_OUT_OF_RANGE")
    assert outcome(cluster(MOVED, refused)).outcome is Outcome.UNKNOWN


NOT_SENT = failure(RequestResult.NOT_SENT, "LEADER_NOT_AVAILABLE")


def test_what_was_never_sent_has_failed_and_may_not_be_done_yet() -> None:
    settled = outcome(cluster(NOT_SENT, log_start=Failure("LEADER_NOT_AVAILABLE", "gone")))
    assert (settled.outcome, settled.error) == (
        Outcome.FAILED,
        "in the broker's words; nothing was deleted",
    )


def test_one_that_could_not_be_sent_again_says_nothing_about_the_first_request() -> None:
    assert outcome(cluster(MOVED, NOT_SENT)).outcome is Outcome.UNKNOWN


def test_a_leader_that_goes_on_moving_is_asked_three_times() -> None:
    assert outcome(cluster(MOVED, MOVED, MOVED)).outcome is Outcome.UNKNOWN


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
    asked = cluster(*answers)

    def objection() -> str | None:
        return "paused: incident" if len(asked.requests) >= paused_at else None

    (settled,) = delete(asked, [ITEM], 30, CountingStop(), objection=objection)
    assert len(asked.requests) == requests
    assert (settled.outcome is Outcome.DELETED) is (requests == 2)
    assert ("paused: incident" in str(settled.error)) is (requests == 0)
