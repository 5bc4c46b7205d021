"""DeleteRecords, as the port offers it."""

from __future__ import annotations

import pytest

from retentiond.clock import seconds_since_boot
from retentiond.kafka.interface import DeleteFailure, OffsetBound, RequestResult, TopicDescription
from retentiond.model import Failure, TopicPartition
from tests.contract.driver import Driver


def delete(driver: Driver, topic: str, offset: int, partition: int = 0) -> int | DeleteFailure:
    at = TopicPartition(topic, partition)
    answers = driver.kafka.delete_records({at: offset})
    assert set(answers) == {at}
    return answers[at]


def log_start(driver: Driver, topic: str, partition: int = 0) -> int | Failure:
    at = TopicPartition(topic, partition)
    return driver.kafka.offsets([at], OffsetBound.LOG_START)[at]


def filled(driver: Driver, topic: str, config: dict[str, str] | None = None) -> None:
    """A topic with ten records in partition 0."""
    driver.create_topic(topic, config=config)
    driver.produce(topic, [driver.now_ms] * 10)


def assert_refused(answer: int | DeleteFailure, code: str) -> None:
    assert isinstance(answer, DeleteFailure)
    assert answer.result is RequestResult.REFUSED
    assert answer.failure.code == code


def test_the_log_start_moves_to_the_offset(any_driver: Driver, topic_name: str) -> None:
    filled(any_driver, topic_name)
    assert delete(any_driver, topic_name, 4) == 4
    assert log_start(any_driver, topic_name) == 4


def test_all_records_may_go(any_driver: Driver, topic_name: str) -> None:
    filled(any_driver, topic_name)
    assert delete(any_driver, topic_name, 10) == 10
    assert log_start(any_driver, topic_name) == 10


def test_below_the_log_start_it_succeeds_and_changes_nothing(
    any_driver: Driver, topic_name: str
) -> None:
    filled(any_driver, topic_name)
    delete(any_driver, topic_name, 6)
    assert delete(any_driver, topic_name, 2) == 6
    assert log_start(any_driver, topic_name) == 6


def test_beyond_the_high_watermark_it_is_refused(any_driver: Driver, topic_name: str) -> None:
    filled(any_driver, topic_name)
    assert_refused(delete(any_driver, topic_name, 11), "OFFSET_OUT_OF_RANGE")
    assert log_start(any_driver, topic_name) == 0


def test_past_an_open_transaction_the_broker_deletes_without_a_word(
    driver: Driver, topic_name: str
) -> None:
    driver.create_topic(topic_name)
    transaction = driver.begin(topic_name, count=3)
    assert delete(driver, topic_name, 2) == 2
    transaction.commit()


def test_a_compacted_topic_is_refused(any_driver: Driver, topic_name: str) -> None:
    filled(any_driver, topic_name, {"cleanup.policy": "compact"})
    assert_refused(delete(any_driver, topic_name, 5), "POLICY_VIOLATION")
    assert log_start(any_driver, topic_name) == 0


def test_a_topic_compacted_and_deleted_from_is_accepted(driver: Driver, topic_name: str) -> None:
    filled(driver, topic_name, {"cleanup.policy": "compact,delete"})
    assert delete(driver, topic_name, 5) == 5


def test_an_internal_topic_is_refused(any_driver: Driver) -> None:
    assert_refused(delete(any_driver, "__consumer_offsets", 1), "INVALID_TOPIC_EXCEPTION")


def test_unknown_partitions_fail_and_spoil_no_other(any_driver: Driver, topic_name: str) -> None:
    filled(any_driver, topic_name)
    known, no_partition, no_topic = (
        TopicPartition(topic_name, 0),
        TopicPartition(topic_name, 7),
        TopicPartition("unknown", 0),
    )
    answers = any_driver.kafka.delete_records({known: 3, no_partition: 3, no_topic: 3})
    assert answers[known] == 3
    assert_refused(answers[no_partition], "_UNKNOWN_PARTITION")
    missing = answers[no_topic]
    assert isinstance(missing, DeleteFailure)
    assert (missing.result, missing.failure.code) == (
        RequestResult.UNKNOWN,
        "UNKNOWN_TOPIC_OR_PARTITION",
    )


@pytest.mark.parametrize("offset", [0, -1, -2, -1001])
def test_an_offset_that_is_not_positive_deletes_nothing_at_all(
    any_driver: Driver, topic_name: str, offset: int
) -> None:
    any_driver.create_topic(topic_name, partitions=2)
    for partition in (0, 1):
        any_driver.produce(topic_name, [any_driver.now_ms] * 3, partition)
    cutoffs = {TopicPartition(topic_name, 0): 2, TopicPartition(topic_name, 1): offset}
    with pytest.raises(ValueError, match=f"up to {offset}"):
        any_driver.kafka.delete_records(cutoffs)
    assert log_start(any_driver, topic_name, 0) == 0
    assert log_start(any_driver, topic_name, 1) == 0


def test_asked_for_nothing_it_deletes_nothing(any_driver: Driver) -> None:
    assert any_driver.kafka.delete_records({}) == {}


def test_a_look_before_tells_the_ids_through_the_client_that_deletes(
    any_driver: Driver, topic_name: str
) -> None:
    filled(any_driver, topic_name)
    described = any_driver.kafka.describe_topics([topic_name])[topic_name]
    assert isinstance(described, TopicDescription)
    no_such = f"{topic_name}-which-is-not-there"
    at = TopicPartition(topic_name, 0)

    ids = any_driver.kafka.look_before_deleting([at, TopicPartition(no_such, 0)])

    assert ids[topic_name] == described.topic_id
    assert isinstance(ids[no_such], Failure)
    assert any_driver.kafka.delete_records({at: 4}) == {at: 4}


def test_when_it_is_too_late_for_a_request_none_goes_out(
    any_driver: Driver, topic_name: str
) -> None:
    filled(any_driver, topic_name)
    at = TopicPartition(topic_name, 0)

    (answer,) = any_driver.kafka.delete_records(
        {at: 4}, not_after=seconds_since_boot() - 0.001
    ).values()

    assert isinstance(answer, DeleteFailure)
    assert answer.result is RequestResult.NOT_SENT
    assert log_start(any_driver, topic_name) == 0
