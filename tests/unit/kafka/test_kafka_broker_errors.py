"""That every error of a broker, and of librdkafka, has an entry, and what the entries say."""

from __future__ import annotations

import kafka.errors
import pytest
from confluent_kafka import KafkaError

from retentiond.kafka.broker_errors import BY_CODE, BrokerError, Means, means, means_by_name
from retentiond.kafka.interface import NO_SUCH_TOPIC, RequestResult

LIBRDKAFKAS = {
    code: name
    for name in dir(KafkaError)
    if name.isupper() and isinstance(code := getattr(KafkaError, name), int)
}

KAFKA_PYTHONS = {code for code in kafka.errors.kafka_errors if isinstance(code, int)}


def test_every_code_that_a_client_knows_has_its_entry() -> None:
    assert len(LIBRDKAFKAS) > 180
    assert len(KAFKA_PYTHONS) > 120
    assert BY_CODE.keys() == LIBRDKAFKAS.keys() | KAFKA_PYTHONS
    assert len(BY_CODE) == len(BrokerError)


@pytest.mark.parametrize("code", sorted(KAFKA_PYTHONS - {17}))
def test_a_broker_error_has_kafkas_name(code: int) -> None:
    assert BY_CODE[code].name == kafka.errors.for_code(code).message


@pytest.mark.parametrize("code", [code for code in LIBRDKAFKAS if code < -1])
def test_an_error_of_librdkafkas_own_has_its_name(code: int) -> None:
    assert BY_CODE[code].name == LIBRDKAFKAS[code]


def test_what_a_deletion_proves_is_listed_here_once_more() -> None:
    """Whoever adds one to these has to prove that no log start offset was moved."""
    of_result = {
        result: {error.name for error in BrokerError if error.deletion is result}
        for result in (RequestResult.REFUSED, RequestResult.MOVED)
    }
    assert of_result[RequestResult.REFUSED] == {
        *("TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "OFFSET_OUT_OF_RANGE"),
        *("POLICY_VIOLATION", "INVALID_TOPIC_EXCEPTION", "UNSUPPORTED_VERSION"),
        *("INVALID_REQUEST", "_INVALID_ARG", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"),
        *("_AUTHENTICATION", "_UNSUPPORTED_FEATURE"),
    }
    assert of_result[RequestResult.MOVED] == {
        *("NOT_LEADER_FOR_PARTITION", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH"),
        *("LEADER_NOT_AVAILABLE", "_NOENT"),
    }


def test_which_look_ups_are_worth_another_leader() -> None:
    assert [code for code in range(200) if means(code) is Means.METADATA] == [3, 5, 6, 74, 75, 78]


def test_an_unknown_code_holds_and_a_failure_of_ours_is_tried_again() -> None:
    assert means(9999) is Means.HOLD
    assert means_by_name("NOT_ANSWERED") is Means.RETRY
    assert means_by_name("TOPIC_AUTHORIZATION_FAILED") is Means.STOP


def test_the_name_that_others_ask_for_is_the_entrys() -> None:
    assert BrokerError.UNKNOWN_TOPIC_OR_PARTITION.name == NO_SUCH_TOPIC
