"""The kafka-python connection: what it leaves behind when it fails, and what it never tells."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import kafka.errors as kp_errors
import pytest

from retentiond.errors import KafkaUnavailable
from retentiond.kafka import client as module
from retentiond.kafka import connection_check
from retentiond.kafka.client import LOGGERS_THAT_SHOW_SECRETS, Client
from retentiond.kafka.cluster_identity import ClusterIdentity
from retentiond.kafka.network_client import NetworkClient
from retentiond.kafka.settings.properties import ClientSettings, translate
from tests.support.builders.scripted_brokers import Brokers

SECRET = "correct horse battery staple"

SASL = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "retentiond",
    "sasl.password": SECRET,
}


def settings(server: str, **properties: str) -> ClientSettings:
    return translate({"bootstrap.servers": server, **properties})


async def nothing(network: NetworkClient) -> None:
    """A request that needs nothing but a client."""


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECT_TIMEOUT_MS", 300)
    monkeypatch.setattr(connection_check, "TIMEOUT_S", 0.2)


@pytest.fixture
def deaf() -> Iterator[str]:
    """A server that accepts connections and says nothing."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.usefixtures("impatient")
def test_no_secret_shows_in_the_error_nor_in_the_log(
    deaf: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    connection = Client(settings(deaf, **SASL))
    with pytest.raises(KafkaUnavailable) as unavailable:
        connection.run(nothing)
    assert "\n" not in str(unavailable.value)
    assert any(record.name.startswith("kafka.") for record in caplog.records)
    for text in (str(unavailable.value), repr(connection), caplog.text):
        assert SECRET not in text


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("name", LOGGERS_THAT_SHOW_SECRETS)
def test_a_logger_that_prints_secrets_when_debugging_warns_only(
    deaf: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(KafkaUnavailable):
        Client(settings(deaf)).run(nothing)
    with caplog.at_level(logging.DEBUG, logger=name):
        logging.getLogger(name).debug("token %s", SECRET)
        logging.getLogger(name).warning("broker gone")
    mine = [record for record in caplog.records if record.name == name]
    assert [record.getMessage() for record in mine if record.levelno == logging.DEBUG] == []
    assert mine[-1].getMessage() == "broker gone"


class StubNetwork:
    """A client whose every request ends in the same way."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.closed = False

    def run(self, request: object) -> None:
        raise self.error

    def close(self) -> None:
        self.closed = True


def connected(network: StubNetwork) -> Client:
    connection = Client(settings("broker:9092"))
    connection._network = network  # type: ignore[assignment]  # as far as run() needs it
    return connection


@pytest.mark.parametrize("error", [kp_errors.KafkaConnectionError("lost"), OSError("reset")])
def test_a_client_that_broke_is_closed_and_dropped(error: Exception) -> None:
    network = StubNetwork(error)
    connection = connected(network)
    with pytest.raises(KafkaUnavailable):
        connection.run(nothing)
    assert network.closed
    assert connection._network is None


def test_a_client_that_broke_is_closed_by_the_last_request_that_uses_it() -> None:
    network = StubNetwork(kp_errors.KafkaConnectionError("lost"))
    connection = connected(network)
    fails = network.run

    def goes_on(_: object) -> bool:
        network.run = fails  # type: ignore[method-assign]  # the next request's
        with pytest.raises(KafkaUnavailable):
            connection.run(nothing)
        return network.closed

    network.run = goes_on  # type: ignore[method-assign, assignment]  # the first request's
    was_closed: object = connection.run(nothing)
    assert was_closed is False
    assert network.closed


def test_a_client_whose_broker_said_no_is_kept() -> None:
    network = StubNetwork(KafkaUnavailable("broker 2 did not list its groups"))
    connection = connected(network)
    with pytest.raises(KafkaUnavailable, match="broker 2"):
        connection.run(nothing)
    assert not network.closed
    assert connection._network is not None


def test_a_client_is_not_kept_after_an_error_that_nobody_foresaw() -> None:
    network = StubNetwork(RuntimeError("a bug"))
    connection = connected(network)
    with pytest.raises(RuntimeError):
        connection.run(nothing)
    assert network.closed


def test_requests_to_brokers_that_the_metadata_lacks_fail_in_their_place() -> None:
    brokers = Brokers(lambda request, node: f"{request} from {node}")
    send = brokers.send

    def send_to_known(request: Any, node_id: int | None = None) -> Any:
        if node_id == 9:
            raise kp_errors.UnknownBrokerIdError(9)
        return send(request, node_id)

    brokers.send = send_to_known  # type: ignore[method-assign]  # as kafka-python's raises at once
    admin: Any = type("Admin", (), {"_manager": brokers})
    answers = brokers.run(
        NetworkClient(admin, 2, ClusterIdentity()).send_all([(1, "a"), (9, "b"), (2, "c")])
    )
    assert answers[0] == "a from 1"
    assert isinstance(answers[1], kp_errors.UnknownBrokerIdError)
    assert answers[2] == "c from 2"
