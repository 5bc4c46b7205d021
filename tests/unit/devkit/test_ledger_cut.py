"""Connections of another process are cut, and its listening socket is left alone."""

from __future__ import annotations

import socket
import subprocess
import sys

from devkit.ledger.cut import cut_connections

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
