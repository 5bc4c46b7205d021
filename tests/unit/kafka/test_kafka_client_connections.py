"""What both clients say of their connections when nobody asks, and what is made of it."""

from __future__ import annotations

import ssl

import pytest
from kafka.errors import (
    KafkaConnectionError,
    KafkaTimeoutError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)

from retentiond.kafka.client import Received, data_before_end, is_final
from retentiond.kafka.connection_check import address_of


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
