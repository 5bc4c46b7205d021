"""A client that fails leaves nothing open, before Python looks for garbage."""

from __future__ import annotations

import gc
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaException
from kafka.errors import KafkaConnectionError, KafkaTimeoutError
from kafka.net.compat import KafkaNetClient
from kafka.net.inet import KafkaNetSocket

from retentiond.errors import KafkaUnavailable
from retentiond.kafka import client as module
from retentiond.kafka import connecting
from retentiond.kafka.client import Client
from retentiond.kafka.cluster import KafkaCluster
from retentiond.kafka.cluster_identity import ClusterIdentity
from retentiond.kafka.confluent import admin
from retentiond.kafka.confluent.client import METADATA_TIMEOUT_S, LibrdkafkaClient
from retentiond.kafka.network_client import NetworkClient
from retentiond.kafka.settings.properties import translate
from retentiond.model import TopicPartition
from tests.support.waiting import eventually

Peer = Callable[[socket.socket], None]

TRIES = 3

TIMEOUT_S = 30.0

TLS = {"security.protocol": "SSL"}


def hang_up(connection: socket.socket) -> None:
    connection.recv(1)
    connection.close()


def answer_nonsense(connection: socket.socket) -> None:
    connection.recv(1)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def say_nothing(_: socket.socket) -> None: ...


@contextmanager
def peer(behave: Peer, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """The address of one that accepts every connection."""
    accepted: list[socket.socket] = []
    with closing(socket.create_server((host, port))) as listener:

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                accepted.append(connection)
                behave(connection)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"{host}:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
    for each in accepted:
        each.close()


@contextmanager
def refusing() -> Iterator[str]:
    with closing(socket.socket()) as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


@pytest.fixture(autouse=True)
def uncollected(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(module, "CONNECT_TIMEOUT_MS", 1_000)
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("settings", [{}, TLS], ids=["plain", "tls"])
@pytest.mark.parametrize("behave", [hang_up, answer_nonsense, say_nothing, None])
def test_a_client_that_finds_no_broker_leaves_no_descriptor(
    behave: Peer | None, settings: dict[str, str]
) -> None:
    before = descriptors()
    with peer(behave) if behave else refusing() as address:
        client = Client(translate({"bootstrap.servers": address, **settings}))
        for _ in range(TRIES):
            with pytest.raises(KafkaUnavailable):
                client.run(NetworkClient.describe_cluster)
        client.close()
    assert descriptors() == before


def test_a_look_before_deleting_that_fails_leaves_no_client() -> None:
    with refusing() as address:
        identity = ClusterIdentity()
        host, _, port = address.rpartition(":")
        identity.learn("cluster", [(1, host, int(port))])
        settings = translate({"bootstrap.servers": address, "socket.timeout.ms": "1000"})
        client = LibrdkafkaClient(settings, identity, lambda: None)
        before = threads()
        for _ in range(TRIES):
            with pytest.raises(KafkaUnavailable):
                client.look_before_deleting([TopicPartition("orders", 0)])
        eventually(threads, lambda count: count <= before)


def test_a_closed_cluster_leaves_no_client() -> None:
    before = threads()
    with refusing() as address:
        cluster = KafkaCluster(translate({"bootstrap.servers": address}), lambda *_: None)
        with pytest.raises(KafkaUnavailable):
            cluster.topic_names()
        cluster.close()
    eventually(threads, lambda count: count <= before)


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names. One that ends with ``.slow`` is answered when two of them are asked about."""
    asked: list[str] = []
    both = threading.Barrier(2)
    real = socket.getaddrinfo

    def getaddrinfo(host: str, *args: Any) -> Any:
        asked.append(host)
        if not host.endswith(".slow"):
            return real(host, *args)
        both.wait(TIMEOUT_S)
        return real("127.0.0.1", *args)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(connecting, "ADDRESSES", connecting.AddressBook())
    return asked


def connect_to_both(address: str) -> None:
    """One client, to two names of one address."""
    client = KafkaNetClient(bootstrap_servers=address)
    net, sockets = client._manager._net, connecting.Sockets(client._manager)
    port = int(address.rpartition(":")[2])
    until = time.monotonic() + TIMEOUT_S
    try:
        net.start()
        opening = [
            net.call_soon_with_future(
                sockets.build_transport(SimpleNamespace(host=name, port=port), until)
            )
            for name in ("one.slow", "two.slow")
        ]
        eventually(lambda: [each.is_done for each in opening], all)
        assert [each.exception for each in opening] == [None, None]
    finally:
        client.close()
        sockets.close()


def test_names_that_are_slow_to_look_up_are_looked_up_at_once_and_once(
    looked_up: list[str],
) -> None:
    """Else the brokers of a client, and the clients, wait for each other."""
    with peer(say_nothing) as address:
        connect_to_both(address)
        connect_to_both(address)
    assert sorted(name for name in looked_up if name.endswith(".slow")) == ["one.slow", "two.slow"]


def test_a_name_that_can_not_be_looked_up_is_a_connection_that_fails() -> None:
    """A broker may call itself so."""
    client = KafkaNetClient(bootstrap_servers="localhost:9")
    net, sockets = client._manager._net, connecting.Sockets(client._manager)
    try:
        net.start()
        opening = net.call_soon_with_future(
            sockets.build_transport(
                SimpleNamespace(host="broker..net", port=9), time.monotonic() + TIMEOUT_S
            )
        )
        eventually(lambda: opening.is_done, bool)
        assert isinstance(opening.exception, KafkaConnectionError)
        assert "'broker..net' is no host's name" in str(opening.exception)
    finally:
        client.close()
        sockets.close()


def test_a_look_up_that_finds_nothing_is_made_again() -> None:
    never: Future[connecting.Addresses] = Future()
    book = connecting.AddressBook()
    assert book.look_up("broker", never.result) is book.look_up("broker", never.result)
    never.set_result([])
    eventually(lambda: book.look_up("broker", lambda: ["an address"]).result(), bool)


BROKER_V4, BROKER_V6 = "127.0.0.9", "::1"

Resolve = Callable[[list[str]], None]


@pytest.fixture
def resolve(monkeypatch: pytest.MonkeyPatch) -> Resolve:
    """Which addresses the name ``broker`` has from now on, in this order."""
    addresses: list[str] = []
    real = socket.getaddrinfo

    def getaddrinfo(host: str, port: int, family: int = 0, *args: Any) -> Any:
        if host != "broker":
            return real(host, port, family, *args)
        found = [real(address, port, 0, *args)[0] for address in addresses]
        if not (found := [each for each in found if family in (0, each[0])]):
            raise socket.gaierror(socket.EAI_NONAME, "no address")
        return found

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(connecting, "ADDRESSES", connecting.AddressBook())

    def resolve(now: list[str]) -> None:
        addresses[:] = now
        connecting.ADDRESSES.drop(("broker", 9, socket.AF_UNSPEC))

    return resolve


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses, in turn. Only that of `BROKER_V4` takes a connection; the others are silent
    until their time is up, and take none of this test's."""
    seen: list[str] = []

    async def sock_connect(
        _: object, net: Any, __: object, address: tuple[str, int], timeout_at: float
    ) -> None:
        seen.append(address[0])
        if address[0] != BROKER_V4:
            clock.append(timeout_at)
            raise KafkaTimeoutError

    clock = [0.0]
    monkeypatch.setattr(KafkaNetSocket, "sock_connect", sock_connect)
    monkeypatch.setattr(connecting, "time", SimpleNamespace(monotonic=lambda: max(clock)))
    return seen


def attempt(until: float, family: socket.AddressFamily = socket.AF_UNSPEC) -> BaseException | None:
    """How one connection to the name ``broker`` fails."""
    client = KafkaNetClient(bootstrap_servers="localhost:9")
    net, sockets = client._manager._net, connecting.Sockets(client._manager, family)
    try:
        net.start()
        opening = net.call_soon_with_future(
            sockets.build_transport(SimpleNamespace(host="broker", port=9), until)
        )
        eventually(lambda: opening.is_done, bool)
        failure: BaseException | None = opening.exception
        return failure
    finally:
        client.close()
        sockets.close()


def test_a_silent_address_leaves_time_for_the_next_one(resolve: Resolve, tried: list[str]) -> None:
    resolve(["127.0.0.2", BROKER_V4])
    assert attempt(2.0) is None
    assert tried == ["127.0.0.2", BROKER_V4]


def test_an_attempt_goes_on_with_the_addresses_that_had_no_turn(
    resolve: Resolve, tried: list[str]
) -> None:
    resolve(["127.0.0.2", "127.0.0.3", "127.0.0.4", BROKER_V4])
    assert isinstance(attempt(2.0), KafkaConnectionError)
    assert tried == ["127.0.0.2", "127.0.0.3"]
    assert isinstance(attempt(2.5), KafkaConnectionError)
    assert tried[2:] == ["127.0.0.4"]
    assert attempt(4.5) is None
    assert tried[3:] == [BROKER_V4]


def test_what_has_failed_comes_last_however_the_name_is_answered(
    resolve: Resolve, tried: list[str]
) -> None:
    resolve(["127.0.0.2", "127.0.0.3"])
    assert isinstance(attempt(2.0), KafkaConnectionError)
    resolve(["127.0.0.3", "127.0.0.5", "127.0.0.2", BROKER_V4])
    assert isinstance(attempt(3.0), KafkaConnectionError)
    resolve(["127.0.0.5", "127.0.0.3", "127.0.0.2", BROKER_V4])
    assert attempt(9.0) is None
    assert tried[2:] == ["127.0.0.5", BROKER_V4]


@pytest.mark.parametrize(
    ("family", "addresses"),
    [
        (socket.AF_UNSPEC, [BROKER_V6, BROKER_V4]),
        (socket.AF_INET, [BROKER_V4]),
        (socket.AF_INET6, [BROKER_V6]),
    ],
)
def test_only_addresses_of_the_family_are_tried(
    resolve: Resolve, tried: list[str], family: socket.AddressFamily, addresses: list[str]
) -> None:
    resolve([BROKER_V6, BROKER_V4])
    attempt(4.0, family)
    assert tried == addresses


def test_an_address_that_connects_to_no_broker_has_failed_too(resolve: Resolve) -> None:
    """As where a proxy stands before a broker that is gone."""
    resolve(["127.0.0.2", "127.0.0.3"])
    seen: list[str] = []
    with peer(lambda made: seen.append(made.getsockname()[0]), "127.0.0.2") as address:
        port = int(address.rpartition(":")[2])
        with peer(lambda made: seen.append(made.getsockname()[0]), "127.0.0.3", port):
            client = Client(translate({"bootstrap.servers": f"broker:{port}"}))
            for _ in range(2):
                with pytest.raises(KafkaUnavailable):
                    client.run(NetworkClient.describe_cluster)
            client.close()
    assert "127.0.0.3" in seen


def test_the_client_that_deletes_goes_on_to_the_next_address_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a silent one has all the time that there is."""
    assert 2 * admin.SETUP_MS < 1000 * METADATA_TIMEOUT_S <= admin.ADDRESSES_KEPT_MS
    monkeypatch.setattr(admin, "SETUP_MS", 1_000)
    seen: list[socket.socket] = []
    with peer(seen.append) as address:
        client = admin.new_client(translate({"bootstrap.servers": address}), None)
        with pytest.raises(KafkaException):
            client.list_topics(timeout=4.0)
        assert len(seen) > 1


def threads() -> int:
    """Librdkafka's are none of Python's."""
    return len(os.listdir("/proc/self/task"))
