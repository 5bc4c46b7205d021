"""What both clients say of their connections when nobody asks, and what is made of it."""

from __future__ import annotations

import ssl

import pytest
from confluent_kafka import KafkaError
from kafka.errors import (
    KafkaConnectionError,
    KafkaTimeoutError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)

from retentiond.kafka.client import Received, data_before_end, is_final
from retentiond.kafka.confluent import admin as module
from retentiond.kafka.confluent.admin import ConnectionErrors
from retentiond.kafka.errors.connection_check import address_of
from retentiond.kafka.errors.remedies import ConnectionProblem, ProblemKind
from retentiond.kafka.settings.properties import ClientSettings, translate

REFUSED = "sasl_ssl://kafka:9093/bootstrap: SASL authentication error: no such user"

DOWN = KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down")


@pytest.fixture
def settings() -> ClientSettings:
    return translate({"bootstrap.servers": "kafka:9093,other:9093"})


@pytest.fixture
def probed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The servers that were tried to be reached; all of them have expired certificates."""
    servers: list[str] = []

    def trouble_with(server: str, _: ClientSettings) -> ConnectionProblem:
        servers.append(server)
        return ConnectionProblem(ProblemKind.EXPIRED)

    monkeypatch.setattr(module, "problem_with", trouble_with)
    return servers


def heard(*errors: KafkaError) -> ConnectionErrors:
    made = ConnectionErrors()
    for error in errors:
        made.note(error)
    return made


def authentication(said: str) -> KafkaError:
    return KafkaError(KafkaError._AUTHENTICATION, said)


@pytest.mark.parametrize(
    ("said", "kind", "sentence"),
    [
        (
            f"{REFUSED} (after 4ms in state AUTH_REQ)",
            ProblemKind.LOGIN_REFUSED,
            "kafka:9093 can't be asked: it refuses the login (no such user); check ",
        ),
        (
            "kafka:9093/1: SASL PLAIN mechanism handshake failed: Broker: Unsupported SASL "
            "mechanism: broker's supported mechanisms: SCRAM-SHA-512",
            ProblemKind.OTHER_MECHANISM,
            "kafka:9093 can't be asked: it does not offer this SASL mechanism (but SCRAM-SHA-512)",
        ),
        (
            "sasl_ssl://kafka:9093/bootstrap: SASL PLAIN mechanism handshake failed: Broker: "
            "Request not valid in current SASL state: broker's supported mechanisms: ",
            ProblemKind.NO_LOGIN,
            "kafka:9093 can't be asked: it takes no login; set ",
        ),
    ],
)
def test_a_login_that_fails_is_explained_by_the_brokers_words(
    settings: ClientSettings,
    probed: list[str],
    said: str,
    kind: ProblemKind,
    sentence: str,
) -> None:
    error = heard(authentication(said)).explained(settings)
    assert error is not None
    assert error.kind == kind
    assert str(error).startswith(sentence)
    assert probed == []


def test_a_login_explains_more_than_the_connections_that_broke_with_it(
    settings: ClientSettings, probed: list[str]
) -> None:
    broken = KafkaError(KafkaError._TRANSPORT, "ssl://other:9093/bootstrap: Disconnected")
    error = heard(broken, authentication(REFUSED)).explained(settings)
    assert error is not None
    assert error.kind == ProblemKind.LOGIN_REFUSED
    assert probed == []


@pytest.mark.parametrize(
    ("code", "said", "probe"),
    [
        (KafkaError._SSL, "ssl://other:9093/7: SSL handshake failed: verify", ["other:9093"]),
        (KafkaError._TRANSPORT, "other:9093/7: Disconnected", ["other:9093"]),
        (KafkaError._RESOLVE, "ssl://[::1]:9093/bootstrap: Failed to resolve", ["[::1]:9093"]),
        (KafkaError._ALL_BROKERS_DOWN, "2/2 brokers are down", ["kafka:9093"]),
        (KafkaError._TIMED_OUT, "other:9093/7: 1 request timed out", []),
    ],
)
def test_a_connection_that_fails_is_tried_to_be_made(
    settings: ClientSettings, probed: list[str], code: int, said: str, probe: list[str]
) -> None:
    error = heard(KafkaError(code, said)).explained(settings)
    assert probed == probe
    assert (error is not None) is bool(probe)


@pytest.mark.parametrize(
    ("error", "final"),
    [
        (authentication(REFUSED), True),
        (KafkaError(KafkaError._SSL, "ssl://kafka:9093/1: SSL handshake failed"), True),
        (
            KafkaError(
                KafkaError._TRANSPORT,
                "ssl://kafka:9093/1: Receive failed: error:0A00045C:SSL routines::tlsv13 alert "
                "certificate required: SSL alert number 116",
            ),
            True,
        ),
        (KafkaError(KafkaError._TRANSPORT, "kafka:9093/1: Connect failed: refused"), False),
    ],
)
def test_the_wait_ends_where_all_brokers_have_said_no_for_good(
    error: KafkaError, final: bool
) -> None:
    assert not heard(error).is_final()  # another one may be up
    assert not heard(DOWN).is_final()
    everything = heard(error, DOWN)
    assert everything.is_final() is final
    everything.clear()
    assert not everything.is_final()


def chained(cause: Exception) -> KafkaConnectionError:
    """As where kafka-python raises an error of its own while it handles what it met."""
    error = KafkaConnectionError(f"Handshake failed: {cause}")
    error.__context__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "final"),
    [
        (SaslAuthenticationFailedError("no such user"), True),
        (UnsupportedSaslMechanismError(), True),
        (chained(ssl.SSLCertVerificationError("expired")), True),
        (KafkaConnectionError(ssl.SSLError("alert certificate required")), True),
        (chained(ConnectionResetError()), False),
        (KafkaConnectionError("socket disconnected"), False),
        (KafkaTimeoutError(), False),
    ],
)
def test_kafka_python_gives_up_only_what_would_end_in_the_same_way(
    error: Exception, final: bool
) -> None:
    assert is_final(error) is final


def test_what_a_broker_says_right_before_it_hangs_up_is_heard() -> None:
    end = KafkaConnectionError("socket disconnected")
    answers: list[Received] = [(b"no such user", end), (b"", end), (b"more", None)]
    assert [data_before_end(lambda answer=answer: answer) for answer in answers] == [  # type: ignore[misc]  # mypy can't infer the lambda
        (b"no such user", None),
        (b"", end),
        (b"more", None),
    ]


@pytest.mark.parametrize(
    ("server", "address"),
    [
        ("kafka:9093", ("kafka", 9093)),
        (" kafka:9093", ("kafka", 9093)),
        ("kafka", ("kafka", 9092)),
        ("SASL_SSL://kafka:9093", ("kafka", 9093)),
        ("[::1]:9093", ("::1", 9093)),
        ("[::1]", ("::1", 9092)),
    ],
)
def test_an_address_is_read_as_the_clients_read_it(server: str, address: tuple[str, int]) -> None:
    assert address_of(server) == address
