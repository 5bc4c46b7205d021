"""What keeps a client from a broker, told apart by both clients; the brokers are sockets here."""

from __future__ import annotations

import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from retentiond.errors import KafkaUnavailable
from retentiond.kafka import client
from retentiond.kafka.client import CONNECT_TIMEOUT_MS, Client
from retentiond.kafka.connection_check import problem_with, unavailable_at
from retentiond.kafka.network_client import NetworkClient
from retentiond.kafka.remedies import ConnectionProblem, ProblemKind, SettingNames, unavailable
from retentiond.kafka.settings.properties import ClientSettings, translate
from retentiond.kafka.settings.tls import INLINE_CERTIFICATE, INLINE_KEY, INLINE_TRUST
from tests.support.certificates import Authority, Issued

Greet = Callable[[socket.socket], None]


class Server:
    """Accepts connections and has ``greet`` do the rest, each on a thread of its own."""

    def __init__(self, greet: Greet) -> None:
        self._greet = greet
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):  # whatever the client makes of it
            self._greet(connection)


ANSWER = struct.pack(">iihi", 10, 1, 35, 0)


def answers(connection: socket.socket) -> None:
    """Any request, with an error, until the client has enough."""
    while connection.recv(1024):
        connection.sendall(ANSWER)


def wants_a_login(connection: socket.socket) -> None:
    """Answers one request, which should be for ApiVersions, and hangs up on the next."""
    connection.recv(1024)
    connection.sendall(ANSWER)
    connection.recv(1024)


def speaks_http(connection: socket.socket) -> None:
    connection.recv(1024)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n")


def takes_no_metadata(connection: socket.socket) -> None:
    """As a controller: ApiVersions, and little else, are among the requests that it takes."""
    connection.recv(1024)
    connection.sendall(struct.pack(">iihihhhhhh", 22, 1, 0, 2, 18, 0, 4, 60, 0, 2))
    connection.recv(1024)


def hangs_up(connection: socket.socket) -> None:
    connection.recv(1024)


def in_tls(issued: Issued, trusted: Authority | None = None, then: Greet = answers) -> Greet:
    """``trusted``: who must have signed a client's certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.certificate, issued.key)
    if trusted is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(trusted.certificate)

    def greet(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secured:
            then(secured)

    return greet


class Pki:
    """An authority that clients trust, and another one that they don't."""

    def __init__(self, folder: Path) -> None:
        self.ours = Authority(folder / "ours")
        self.other = Authority(folder / "other")
        self.good = self.ours.issue("good")
        self.expired = self.ours.issue("expired", days=-1)
        self.elsewhere = self.ours.issue("elsewhere", "DNS:elsewhere")
        self.foreign = self.other.issue("foreign")
        self.revoked = self.ours.issue("revoked")
        self.revocations = self.ours.revoke(self.revoked)


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


def tls(pki: Pki, address: str, **properties: object) -> ClientSettings:
    named = {name.replace("_", "."): str(value) for name, value in properties.items()}
    return translate(
        {
            "bootstrap.servers": address,
            "security.protocol": "SSL",
            "ssl.ca.location": str(pki.ours.certificate),
            **named,
        }
    )


def shows(issued: Issued) -> dict[str, object]:
    return {"ssl_certificate_location": issued.certificate, "ssl_key_location": issued.key}


async def nothing(network: NetworkClient) -> None:
    """A request that needs nothing but a client."""


def test_a_revoked_certificate_is_told_at_once(pki: Pki) -> None:
    """What both clients say of any other certificate: tests/integration/test_kafka_security.py."""
    with (
        closing(Server(in_tls(pki.revoked))) as server,
        pytest.raises(KafkaUnavailable) as unavailable,
    ):
        Client(tls(pki, server.address, ssl_crl_location=pki.revocations)).run(nothing)
    assert unavailable.value.kind == ProblemKind.REVOKED
    assert str(unavailable.value) == (
        f"{server.address} can't be asked: its certificate is revoked; renew it on the broker"
    )


def test_what_was_refused_is_tried_anew_by_the_next_request(
    pki: Pki, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections: list[socket.socket] = []
    refuse = in_tls(pki.expired)

    def greet(connection: socket.socket) -> None:
        connections.append(connection)
        refuse(connection)

    # Connections are then kafka-python's own only.
    monkeypatch.setattr(client, "problem_with", lambda *_: ConnectionProblem(ProblemKind.EXPIRED))
    with closing(Server(greet)) as server:
        connection = Client(tls(pki, server.address))
        for _ in range(2):
            connections.clear()
            with pytest.raises(KafkaUnavailable):
                connection.run(nothing)
            assert connections != []


PHRASE = "correct horse battery staple"


@pytest.mark.parametrize("inline", [False, True], ids=["files", "inline"])
@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({}, ProblemKind.NO_PASS_PHRASE),
        ({"ssl.key.password": "another"}, ProblemKind.WRONG_PASS_PHRASE),
        ({"ssl.key.password": PHRASE}, None),
    ],
)
def test_both_clients_name_the_setting_of_a_pass_phrase_and_ask_for_none(
    pki: Pki, given: dict[str, str], kind: ProblemKind | None, inline: bool
) -> None:
    locked = pki.ours.lock(pki.good, PHRASE)
    assert_said_of_files(own_files(locked, given, inline), kind, "kafka.ssl.key.password")


@pytest.mark.parametrize("inline", [False, True], ids=["files", "inline"])
def test_both_clients_say_that_a_key_does_not_belong_to_its_certificate(
    pki: Pki, inline: bool
) -> None:
    mixed = pki.good._replace(key=pki.foreign.key)
    said = "the key does not belong to the certificate; check kafka.ssl.certificate.location"
    assert_said_of_files(own_files(mixed, {}, inline), ProblemKind.UNMATCHED_PAIR, said)


def own_files(own: Issued, given: dict[str, str], inline: bool) -> ClientSettings:
    """Of a client that comes to no connection, whose certificate is in files or in the settings."""
    properties = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SSL", **given}
    if not inline:
        properties["ssl.certificate.location"] = str(own.certificate)
        properties["ssl.key.location"] = str(own.key)
    settings = translate(properties)
    if not inline:
        return settings
    pem = {INLINE_CERTIFICATE: own.certificate.read_text(), INLINE_KEY: own.key.read_text()}
    return replace(settings, confluent={**settings.confluent, **pem})


def assert_said_of_files(settings: ClientSettings, kind: ProblemKind | None, said: str) -> None:
    with pytest.raises(KafkaUnavailable) as unavailable:
        Client(settings).run(nothing)
    assert unavailable.value.kind == kind
    assert (said in str(unavailable.value)) is (kind is not None)


@pytest.mark.parametrize("kind", ProblemKind)
def test_every_kind_of_trouble_has_a_sentence_with_what_to_do(kind: ProblemKind) -> None:
    error = unavailable("kafka:9092", ConnectionProblem(kind, "its words"), SettingNames())
    assert str(error).startswith("kafka:9092 can't be asked: ")
    assert re.search("; (check|set|renew|put|use) ", str(error))
    assert "{" not in str(error)


def plain(address: str, protocol: str = "PLAINTEXT") -> ClientSettings:
    return translate({"bootstrap.servers": address, "security.protocol": protocol})


def kind_of(greet: Greet, settings: Callable[[str], ClientSettings]) -> ProblemKind | None:
    with closing(Server(greet)) as server:
        trouble = problem_with(server.address, settings(server.address))
    return trouble.kind if trouble else None


@pytest.mark.long
def test_a_broker_that_answers_is_no_trouble(pki: Pki) -> None:
    assert kind_of(answers, plain) is None
    assert kind_of(in_tls(pki.good), lambda address: tls(pki, address)) is None
    with_certificate = in_tls(pki.good, trusted=pki.ours)
    client = shows(pki.ours.issue("client"))
    assert kind_of(with_certificate, lambda address: tls(pki, address, **client)) is None


@pytest.mark.long
def test_certificates_that_are_no_files_are_shown_and_trusted(pki: Pki) -> None:
    def inline(address: str, issued: Issued) -> ClientSettings:
        settings = translate({"bootstrap.servers": address, "security.protocol": "SSL"})
        pem = {
            INLINE_TRUST: pki.ours.certificate.read_text(),
            INLINE_KEY: issued.key.read_text(),
            INLINE_CERTIFICATE: issued.certificate.read_text(),
        }
        return replace(settings, confluent={**settings.confluent, **pem})

    with_certificate = in_tls(pki.good, trusted=pki.ours)
    ours = pki.ours.issue("inline")
    assert kind_of(with_certificate, lambda at: inline(at, ours)) is None
    assert kind_of(with_certificate, lambda at: inline(at, pki.foreign)) is (
        ProblemKind.REFUSED_CERTIFICATE
    )
    with closing(Server(in_tls(pki.good, trusted=pki.ours, then=hangs_up))) as server:
        for issued, said in ((ours, "hangs up"), (pki.foreign, "refuses this client's cert")):
            with pytest.raises(KafkaUnavailable, match=said):
                Client(inline(server.address, issued)).run(nothing)


def test_a_certificate_is_taken_for_another_host_where_that_is_not_checked(pki: Pki) -> None:
    unchecked = {"ssl_endpoint_identification_algorithm": "none"}
    assert kind_of(in_tls(pki.elsewhere), lambda address: tls(pki, address, **unchecked)) is None


def test_a_port_without_tls_is_told_from_one_that_hangs_up(pki: Pki) -> None:
    assert kind_of(hangs_up, lambda address: tls(pki, address)) is ProblemKind.NO_TLS
    after_the_handshake = in_tls(pki.good, then=lambda _: None)
    assert kind_of(after_the_handshake, lambda at: tls(pki, at)) is ProblemKind.NO_ANSWER


@pytest.mark.parametrize(
    ("greet", "kind"),
    [
        (hangs_up, ProblemKind.NO_ANSWER),
        (wants_a_login, ProblemKind.LOGIN_WANTED),
        (speaks_http, ProblemKind.NOT_KAFKA),
        (takes_no_metadata, ProblemKind.CONTROLLER),
    ],
)
def test_what_a_port_does_tells_what_it_is_with_tls_and_without(
    pki: Pki, greet: Greet, kind: ProblemKind
) -> None:
    secured = in_tls(pki.good, then=greet)
    assert kind_of(greet, plain) is kind
    assert kind_of(secured, lambda address: tls(pki, address)) is kind
    assert kind_of(secured, plain) is ProblemKind.TLS_WANTED


@pytest.mark.parametrize(
    ("greet", "kind"),
    [
        (speaks_http, ProblemKind.NOT_KAFKA),
        (wants_a_login, ProblemKind.LOGIN_WANTED),
    ],
)
def test_it_is_said_soon_that_a_port_is_of_the_wrong_kind(greet: Greet, kind: ProblemKind) -> None:
    with closing(Server(greet)) as server:
        began = time.monotonic()
        with pytest.raises(KafkaUnavailable) as unavailable:
            Client(plain(server.address)).run(nothing)
        assert unavailable.value.kind == kind
        assert time.monotonic() - began < CONNECT_TIMEOUT_MS / 2000


@pytest.mark.long
def test_what_refuses_at_once_is_given_up_long_before_the_time_is_over() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        closed = f"127.0.0.1:{listener.getsockname()[1]}"
    began = time.monotonic()
    with pytest.raises(KafkaUnavailable, match="the connection is refused"):
        Client(plain(closed)).run(nothing)
    assert time.monotonic() - began < CONNECT_TIMEOUT_MS / 2000


@pytest.mark.long
def test_a_first_broker_that_is_frozen_leaves_time_for_the_next() -> None:
    asked = threading.Event()

    def freezes(connection: socket.socket) -> None:
        connection.recv(1024)
        asked.wait(60)

    def notes(connection: socket.socket) -> None:
        asked.set()
        hangs_up(connection)

    with closing(Server(freezes)) as frozen, closing(Server(notes)) as next_one:
        settings = plain(f"{frozen.address},{frozen.address},{frozen.address},{next_one.address}")
        with pytest.raises(KafkaUnavailable):
            Client(settings).run(nothing)
    assert asked.is_set()


def test_a_name_without_address_and_a_port_without_listener_are_told_apart() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        closed = f"127.0.0.1:{listener.getsockname()[1]}"
    for server, kind in (
        (closed, ProblemKind.NOBODY_LISTENS),
        ("nowhere.invalid:9", ProblemKind.NO_ADDRESS),
        ("nowhere..invalid:9", ProblemKind.NO_ADDRESS),  # as a broker may call itself
    ):
        trouble = problem_with(server, plain("broker:9092"))
        assert trouble is not None
        assert trouble.kind is kind


def test_one_good_broker_to_start_from_is_enough_for_kafka_python(pki: Pki) -> None:
    """A first one with a bad certificate ends nothing while another may yet answer."""
    with (
        closing(Server(in_tls(pki.expired))) as bad,
        closing(Server(in_tls(pki.good, then=hangs_up))) as unclear,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr("retentiond.kafka.client.CONNECT_TIMEOUT_MS", 600)
        settings = tls(pki, f"{bad.address},{unclear.address}")
        with pytest.raises(KafkaUnavailable) as unavailable:
            Client(settings).run(nothing)
    assert unavailable.value.kind == ProblemKind.EXPIRED  # what is certain comes first


SENT = {"bootstrap.servers": "SASL_SSL://asked.example:9092,other.example"}


@pytest.mark.parametrize("kind", ProblemKind)
def test_an_address_that_a_broker_gave_is_not_looked_for_in_the_settings(kind: ProblemKind) -> None:
    """Whatever is wrong there: nobody has typed it."""
    settings = translate(SENT)
    said = str(unavailable_at("given.example:9092", ConnectionProblem(kind), settings))
    assert said.startswith(
        f"given.example:9092, where {SENT['bootstrap.servers']} sends its clients "
        "(advertised.listeners), can't be asked: "
    )
    assert "kafka.bootstrap.servers" not in said
    assert said.count("the broker's advertised.listeners") <= 1


@pytest.mark.parametrize("typed", ["asked.example:9092", "other.example:9092"])
def test_one_that_the_settings_name_is(typed: str) -> None:
    problem = ConnectionProblem(ProblemKind.NOBODY_LISTENS)
    said = str(unavailable_at(typed, problem, translate(SENT)))
    assert said.startswith(f"{typed} can't be asked: ")
    assert "check kafka.bootstrap.servers" in said
