"""Connections are cut, or led elsewhere, and the listening sockets are left alone."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from threading import Thread

import pytest

from devkit.ledger.cluster import cut_connections
from devkit.ledger.forwarder import Forwarder

SERVER = """
import socket
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    accepted = []
    while True:
        accepted.append(server.accept()[0])
        accepted[-1].send(b"welcome")
"""


def connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=30)
    assert connection.recv(100) == b"welcome"
    return connection


def test_every_connection_of_a_process_is_cut_and_new_ones_can_be_made() -> None:
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            with connect(port) as one, connect(port) as other:
                assert cut_connections(server.pid) == 2
                assert (one.recv(1), other.recv(1)) == (b"", b"")
            connect(port).close()
        finally:
            server.kill()


@pytest.fixture
def two_servers() -> Iterator[list[int]]:
    """Their ports; the first says ``a`` to whoever connects, the second ``b``, and then waits."""
    with ExitStack() as open_things:
        ports = []
        for word in (b"a", b"b"):
            server = open_things.enter_context(socket.create_server(("127.0.0.1", 0)))
            Thread(target=_greet, args=(server, word), daemon=True).start()
            ports.append(server.getsockname()[1])
        yield ports


def _greet(server: socket.socket, word: bytes) -> None:
    with suppress(OSError), ExitStack() as accepted:
        while True:
            accepted.enter_context(server.accept()[0]).send(word)


def test_new_connections_are_led_elsewhere_and_old_ones_stay_until_they_are_cut(
    two_servers: list[int],
) -> None:
    first, second = two_servers
    with closing(Forwarder(2)) as forwarder:
        forwarder.lead([first, second])
        with ExitStack() as clients:

            def greeted(port: int) -> tuple[socket.socket, bytes]:
                address = ("127.0.0.1", port)
                client = clients.enter_context(socket.create_connection(address, timeout=30))
                return client, client.recv(1)

            old, word = greeted(forwarder.ports[0])
            assert word == b"a"
            assert greeted(forwarder.ports[1])[1] == b"b"
            forwarder.lead([second])
            assert [greeted(port)[1] for port in forwarder.ports] == [b"b", b"b"]
            old.settimeout(0.2)
            with pytest.raises(TimeoutError):
                old.recv(1)
            assert forwarder.cut(1, random.Random(0)) == 4
            old.settimeout(30)
            with suppress(ConnectionResetError):
                assert old.recv(1) == b""
