"""Both clients' errors become values at one boundary."""

from __future__ import annotations

import kafka.errors as kp_errors
import pytest
from confluent_kafka import KafkaError, KafkaException

from retentiond.errors import ConfigError, KafkaUnavailable
from retentiond.kafka.broker_errors import BY_CODE
from retentiond.kafka.confluent import admin
from retentiond.kafka.interface import RequestResult
from retentiond.kafka.network_client import failure_of_code, failure_of_exception
from retentiond.kafka.remedies import SettingNames, no_answer_from
from retentiond.kafka.settings.properties import translate
from retentiond.model import Failure

CODES = sorted(
    value
    for name in dir(KafkaError)
    if name.isupper() and isinstance(value := getattr(KafkaError, name), int)
)


def confluent(code: int) -> KafkaException:
    return KafkaException(KafkaError(code))


CALLED_OTHERWISE = {3: "UNKNOWN_TOPIC_OR_PARTITION", 17: "INVALID_TOPIC_EXCEPTION"}
"""By code, as Kafka's protocol guide names it."""


@pytest.mark.parametrize("code", CODES)
def test_every_error_of_librdkafka_becomes_a_failure_with_its_name(code: int) -> None:
    failure = admin.failure_of_error(confluent(code))
    assert failure.code == CALLED_OTHERWISE.get(code, KafkaError(code).name())
    assert failure.message


@pytest.mark.parametrize("code", CODES)
def test_a_failed_deletion_proves_what_the_entry_of_its_error_says(code: int) -> None:
    """What these say: test_kafka_broker_errors.py."""
    assert admin.failure_of_deletion(confluent(code)).result is BY_CODE[code].deletion


def test_a_deletion_that_the_client_gave_up_on_proves_nothing() -> None:
    answer = admin.failure_of_deletion(TimeoutError())
    assert answer.result is RequestResult.UNKNOWN
    assert answer.failure == Failure("_TIMED_OUT", "the client did not answer in time")


@pytest.mark.parametrize("error", kp_errors.kafka_errors.values(), ids=lambda error: error.__name__)
def test_every_protocol_error_of_kafka_python_becomes_a_failure(error: type[Exception]) -> None:
    failure = failure_of_exception(error())
    assert failure.code
    assert "\n" not in str(failure)


def test_an_error_code_that_nobody_knows_is_a_failure_with_its_number() -> None:
    assert failure_of_code(9999).code == "ERROR_9999"


def test_the_brokers_own_words_are_kept() -> None:
    failure = failure_of_code(30, "not for you")
    assert str(failure) == "GROUP_AUTHORIZATION_FAILED: not for you"


def test_an_error_of_the_connection_becomes_a_failure_named_by_its_class() -> None:
    failure = failure_of_exception(kp_errors.NodeNotReadyError("broker 3"))
    assert failure.code == "NodeNotReadyError"
    assert "broker 3" in failure.message


BROKER = translate({"bootstrap.servers": "broker:9092"})


def test_an_unavailable_cluster_is_one_sentence_with_what_to_check() -> None:
    error = no_answer_from("broker:9092", "connection refused", SettingNames())
    assert str(error) == (
        "broker:9092 can't be asked: connection refused; "
        "check kafka.bootstrap.servers, the network and the credentials"
    )


def test_a_client_that_could_not_be_made_tells_a_bad_value_from_a_bad_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for code, expected in (
        (KafkaError._INVALID_ARG, ConfigError),
        (KafkaError.SASL_AUTHENTICATION_FAILED, KafkaUnavailable),
    ):

        def refuse(*_: object, error: int = code) -> None:
            raise confluent(error)

        monkeypatch.setattr(admin, "AdminClient", refuse)
        with pytest.raises(expected):
            admin.new_client(BROKER, None)
