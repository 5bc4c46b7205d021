"""Both clients' errors become values at one boundary."""

from __future__ import annotations

import kafka.errors as kp_errors
import pytest
from confluent_kafka import KafkaError, KafkaException

from retentiond.errors import ConfigError, KafkaUnavailable
from retentiond.kafka.broker_errors import BrokerError
from retentiond.kafka.confluent import admin
from retentiond.kafka.interface import NO_SUCH_TOPIC, RequestResult
from retentiond.kafka.network_client import failure_of_code, failure_of_exception
from retentiond.kafka.remedies import SettingNames, no_answer_from
from retentiond.kafka.settings.properties import translate
from retentiond.model import Failure

CODES = sorted(
    value
    for name in dir(KafkaError)
    if name.isupper() and isinstance(value := getattr(KafkaError, name), int)
)

REFUSED, MOVED = (
    sorted(error.code for error in BrokerError if error.deletion is result)
    for result in (RequestResult.REFUSED, RequestResult.MOVED)
)

PROVEN_HARMLESS = {*REFUSED, *MOVED}


def confluent(code: int) -> KafkaException:
    return KafkaException(KafkaError(code))


CALLED_OTHERWISE = {3: "UNKNOWN_TOPIC_OR_PARTITION", 17: "INVALID_TOPIC_EXCEPTION"}
"""By code, as Kafka's protocol guide names it."""


@pytest.mark.parametrize("code", CODES)
def test_every_error_of_librdkafka_becomes_a_failure_with_its_name(code: int) -> None:
    failure = admin.failure_of_error(confluent(code))
    assert failure.code == CALLED_OTHERWISE.get(code, KafkaError(code).name())
    assert failure.message


def test_both_clients_name_a_missing_topic_alike() -> None:
    assert failure_of_code(3).code == admin.failure_of_error(confluent(3)).code == NO_SUCH_TOPIC


@pytest.mark.parametrize("code", [code for code in CODES if code not in PROVEN_HARMLESS])
def test_a_failed_deletion_that_is_not_known_to_be_a_refusal_proves_nothing(code: int) -> None:
    assert admin.failure_of_deletion(confluent(code)).result is RequestResult.UNKNOWN


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError.UNKNOWN,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ],
)
def test_a_deletion_that_may_have_been_applied_is_no_refusal(code: int) -> None:
    assert code not in PROVEN_HARMLESS


def test_a_deletion_that_the_client_gave_up_on_proves_nothing() -> None:
    answer = admin.failure_of_deletion(TimeoutError())
    assert answer.result is RequestResult.UNKNOWN
    assert answer.failure == Failure("_TIMED_OUT", "the client did not answer in time")


@pytest.mark.parametrize("code", REFUSED)
def test_a_refused_deletion_moved_nothing(code: int) -> None:
    assert admin.failure_of_deletion(confluent(code)).result is RequestResult.REFUSED


@pytest.mark.parametrize("code", MOVED)
def test_a_moved_leader_is_worth_a_second_request(code: int) -> None:
    assert admin.failure_of_deletion(confluent(code)).result is RequestResult.MOVED


@pytest.mark.parametrize("error", kp_errors.kafka_errors.values(), ids=lambda error: error.__name__)
def test_every_protocol_error_of_kafka_python_becomes_a_failure(error: type[Exception]) -> None:
    failure = failure_of_exception(error())
    assert failure.code
    assert "\n" not in str(failure)


@pytest.mark.parametrize(
    "code", sorted(code for code in kp_errors.kafka_errors if code is not None)
)
def test_every_error_code_of_the_protocol_becomes_a_failure(code: int) -> None:
    assert failure_of_code(code).code


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
