"""Log start offsets, ends and look-ups by time, as the port shows them."""

from __future__ import annotations

import pytest

from retentiond.kafka.interface import AGE_UNKNOWN, EpochEnd, LogRange, OffsetBound, PartitionEpoch
from retentiond.model import Failure, TopicPartition
from tests.contract.driver import Driver

HOUR_MS = 3_600_000


def offset(driver: Driver, topic: str, bound: OffsetBound, partition: int = 0) -> int | Failure:
    at = TopicPartition(topic, partition)
    answers = driver.kafka.offsets([at], bound)
    assert set(answers) == {at}
    return answers[at]


def bounds(driver: Driver, topic: str) -> tuple[int | Failure, ...]:
    """(log start offset, last stable offset, high watermark) of partition 0."""
    order = (OffsetBound.LOG_START, OffsetBound.LAST_STABLE, OffsetBound.HIGH_WATERMARK)
    return tuple(offset(driver, topic, bound) for bound in order)


def first_at(driver: Driver, topic: str, timestamp_ms: int) -> int | Failure | None:
    at = TopicPartition(topic, 0)
    answers = driver.kafka.offsets_at({at: timestamp_ms})
    assert set(answers) == {at}
    return answers[at]


def test_an_empty_partition_starts_and_ends_at_zero(any_driver: Driver, topic_name: str) -> None:
    any_driver.create_topic(topic_name)
    assert bounds(any_driver, topic_name) == (0, 0, 0)


def test_young_records_are_not_said_to_be_none_when_others_in_front_of_them_were_deleted(
    any_driver: Driver, topic_name: str
) -> None:
    """A broker finds nothing while the segment that it searches is deleted and still on disk."""
    any_driver.create_topic(topic_name, config={"segment.ms": "60000"})
    now = any_driver.now_ms
    for minutes in (10, 5, 0):  # a segment each
        any_driver.produce(topic_name, [now - minutes * 60_000])
    at = TopicPartition(topic_name, 0)
    assert first_at(any_driver, topic_name, now - HOUR_MS) == 0
    assert any_driver.kafka.delete_records({at: 1}) == {at: 1}
    found = first_at(any_driver, topic_name, now - HOUR_MS)
    assert found == 1 or isinstance(found, Failure)


def test_each_partition_has_its_own_end(any_driver: Driver, topic_name: str) -> None:
    any_driver.create_topic(topic_name, partitions=3)
    any_driver.produce(topic_name, [any_driver.now_ms] * 4, partition=1)
    every = [TopicPartition(topic_name, partition) for partition in range(3)]
    assert any_driver.kafka.offsets(every, OffsetBound.HIGH_WATERMARK) == dict(
        zip(every, (0, 4, 0), strict=True)
    )


def test_an_open_transaction_keeps_the_last_stable_offset_back(
    any_driver: Driver, topic_name: str
) -> None:
    any_driver.create_topic(topic_name)
    any_driver.produce(topic_name, [any_driver.now_ms] * 3)
    transaction = any_driver.begin(topic_name, count=2)
    assert bounds(any_driver, topic_name) == (0, 3, 5)
    any_driver.produce(topic_name, [any_driver.now_ms])
    assert bounds(any_driver, topic_name) == (0, 3, 6)
    transaction.commit()
    assert bounds(any_driver, topic_name) == (0, 7, 7)  # the marker takes an offset


def test_an_aborted_transaction_frees_the_last_stable_offset(
    driver: Driver, topic_name: str
) -> None:
    driver.create_topic(topic_name)
    driver.produce(topic_name, [driver.now_ms])
    driver.begin(topic_name, count=2).abort()
    assert bounds(driver, topic_name) == (0, 4, 4)


@pytest.mark.parametrize("bound", OffsetBound)
def test_unknown_partitions_fail_in_their_place_and_spoil_no_other(
    any_driver: Driver, topic_name: str, bound: OffsetBound
) -> None:
    if bound is OffsetBound.LOCAL_START and not any_driver.tells_local_starts:
        nowhere = any_driver.kafka.offsets([TopicPartition("unknown", 0)], bound)
        assert all(isinstance(each, Failure) for each in nowhere.values())
        return
    any_driver.create_topic(topic_name)
    known, no_partition, no_topic = (
        TopicPartition(topic_name, 0),
        TopicPartition(topic_name, 7),
        TopicPartition("unknown", 0),
    )
    answers = any_driver.kafka.offsets([known, no_partition, no_topic], bound)
    by_time = any_driver.kafka.offsets_at(dict.fromkeys([known, no_partition, no_topic], 0))
    assert answers[known] == 0
    assert by_time[known] is None
    for each in (answers, by_time):
        assert isinstance(each[no_partition], Failure)
        assert isinstance(each[no_topic], Failure)


def test_asked_about_no_partition_it_answers_nothing(any_driver: Driver) -> None:
    assert any_driver.kafka.offsets([], OffsetBound.LOG_START) == {}
    assert any_driver.kafka.offsets_at({}) == {}


def test_a_look_up_by_time_finds_the_first_record_at_or_after_it(
    any_driver: Driver, topic_name: str
) -> None:
    start = any_driver.now_ms - HOUR_MS
    any_driver.create_topic(topic_name)
    any_driver.produce(topic_name, [start + 1000 * second for second in range(5)])
    assert first_at(any_driver, topic_name, 0) == 0
    assert first_at(any_driver, topic_name, start + 2000) == 2
    assert first_at(any_driver, topic_name, start + 2001) == 3
    assert first_at(any_driver, topic_name, start + 4000) == 4


def test_with_timestamps_out_of_order_it_is_the_first_by_offset(
    any_driver: Driver, topic_name: str
) -> None:
    start = any_driver.now_ms - HOUR_MS
    any_driver.create_topic(topic_name)
    any_driver.produce(topic_name, [start + at for at in (0, 5000, 2000, 9000)])
    assert first_at(any_driver, topic_name, start + 1000) == 1
    assert first_at(any_driver, topic_name, start + 3000) == 1
    assert first_at(any_driver, topic_name, start + 6000) == 3


def test_where_no_record_is_younger_there_is_no_offset(any_driver: Driver, topic_name: str) -> None:
    any_driver.create_topic(topic_name)
    assert first_at(any_driver, topic_name, 0) is None
    any_driver.produce(topic_name, [any_driver.now_ms - HOUR_MS] * 3)
    assert first_at(any_driver, topic_name, any_driver.now_ms) is None


def test_a_deleted_record_is_not_found_by_time(any_driver: Driver, topic_name: str) -> None:
    start = any_driver.now_ms - HOUR_MS
    any_driver.create_topic(topic_name)
    any_driver.produce(topic_name, [start, start + 1000, start + 2000])
    any_driver.kafka.delete_records({TopicPartition(topic_name, 0): 2})
    assert first_at(any_driver, topic_name, 0) == 2


def test_a_record_of_an_undecided_transaction_is_found_by_time(
    driver: Driver, topic_name: str
) -> None:
    driver.create_topic(topic_name)
    driver.produce(topic_name, [driver.now_ms - HOUR_MS])
    transaction = driver.begin(topic_name, count=1)
    assert first_at(driver, topic_name, driver.now_ms - HOUR_MS // 2) == 1
    transaction.abort()


def test_behind_the_last_record_of_a_transaction_is_only_its_marker(
    any_driver: Driver, topic_name: str
) -> None:
    """A consumer that commits "last record + 1" stands there for ever."""
    at = TopicPartition(topic_name, 0)

    def first(offset: int) -> int | Failure | None:
        return any_driver.kafka.next_records({at: offset})[at]

    any_driver.create_topic(topic_name)
    transaction = any_driver.begin(topic_name, count=2)
    assert isinstance(first(0), Failure)
    transaction.commit()
    assert [first(0), first(1), first(2)] == [0, 1, None]
    any_driver.produce(topic_name, [any_driver.now_ms])
    assert first(2) == 3


def test_what_was_aborted_is_no_record_to_who_reads_what_is_committed(
    driver: Driver, topic_name: str
) -> None:
    driver.create_topic(topic_name)
    driver.produce(topic_name, [driver.now_ms])
    driver.begin(topic_name, count=2).abort()
    at = TopicPartition(topic_name, 0)
    assert driver.kafka.next_records({at: 0})[at] == 0
    assert driver.kafka.next_records({at: 1})[at] is None


def test_a_transactions_marker_counts_as_a_record(driver: Driver, topic_name: str) -> None:
    driver.create_topic(topic_name)
    driver.begin(topic_name, count=1).commit()
    driver.kafka.delete_records({TopicPartition(topic_name, 0): 1})
    assert first_at(driver, topic_name, driver.now_ms - HOUR_MS) == 1


def test_the_epoch_in_which_a_leader_leads_has_not_ended(
    any_driver: Driver, topic_name: str
) -> None:
    any_driver.create_topic(topic_name)
    any_driver.produce(topic_name, [any_driver.now_ms] * 3)
    now = PartitionEpoch(TopicPartition(topic_name, 0), 0)
    unheard_of = PartitionEpoch(TopicPartition(topic_name, 0), 7)
    elsewhere = PartitionEpoch(TopicPartition(topic_name, 1), 0)
    told = dict(any_driver.kafka.epoch_ends([now, unheard_of, elsewhere]))
    assert isinstance(told.pop(elsewhere), Failure)
    assert told == {now: None, unheard_of: EpochEnd(None, None)}
    assert any_driver.kafka.epoch_ends([]) == {}


NO_TIME, YEAR_1 = -1, -62_135_596_800_000
OLD_H, YOUNG_H = 4, 0
"""Hours ago; three hours are the retention."""


@pytest.mark.parametrize(
    ("records", "bound"),
    [
        ([NO_TIME, NO_TIME], AGE_UNKNOWN),
        ([YEAR_1, YEAR_1], AGE_UNKNOWN),
        ([NO_TIME, YOUNG_H], AGE_UNKNOWN),
        ([YEAR_1, OLD_H, YOUNG_H], AGE_UNKNOWN),
        ([OLD_H, OLD_H, NO_TIME], AGE_UNKNOWN),
        ([OLD_H, NO_TIME, YOUNG_H], AGE_UNKNOWN),
        ([OLD_H, NO_TIME, OLD_H], None),
        ([OLD_H, NO_TIME, OLD_H, YOUNG_H, NO_TIME], 3),
        ([YOUNG_H, NO_TIME], 0),
        ([400_000, 400_000], None),
    ],
)
def test_records_without_a_timestamp_are_of_unknown_age(
    any_driver: Driver, topic_name: str, records: list[int], bound: int | Failure | None
) -> None:
    now = any_driver.now_ms
    any_driver.create_topic(topic_name, config={"retention.ms": "-1"})
    any_driver.produce(topic_name, [each if each < 0 else now - each * HOUR_MS for each in records])
    at = TopicPartition(topic_name, 0)
    for _ in range(2):  # what is remembered says the same
        found = any_driver.kafka.offsets_at(
            {at: now - 3 * HOUR_MS}, {at: LogRange(0, len(records))}
        )
        assert found == {at: bound}
