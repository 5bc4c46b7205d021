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
from kafka.errors import KafkaConnectionError
from kafka.net.compat import KafkaNetClient

from retentiond.errors import KafkaUnavailable
from retentiond.kafka import client as module
from retentiond.kafka import connecting
from retentiond.kafka.client import Client
from retentiond.kafka.cluster import KafkaCluster
from retentiond.kafka.cluster_identity import ClusterIdentity
from retentiond.kafka.confluent.client import LibrdkafkaClient
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
def peer(behave: Peer) -> Iterator[str]:
    """The address of one that accepts every connection."""
    accepted: list[socket.socket] = []
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

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
        yield f"127.0.0.1:{listener.getsockname()[1]}"
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


def threads() -> int:
    """Librdkafka's are none of Python's."""
    return len(os.listdir("/proc/self/task"))
