"""An address on loopback that leads to a broker, and keeps each answer until something happened."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress

from devkit.embedded.ports import LOOPBACK

LENGTH = struct.Struct(">i")
REQUEST = struct.Struct(">hhi")
"""A request's first bytes: its key, its version, and the number that its answer carries, too."""


class LateAnswers:
    """``before`` is told of each answer, by the key of its request, before a client gets it.

    The broker goes on meanwhile: what else it is asked over the same connection it answers.
    """

    def __init__(self) -> None:
        self.target = ""
        self.before: Callable[[int], object] = lambda _key: None
        self._ends: list[socket.socket] = []
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        """``HOST:PORT``, for clients."""
        return f"{LOOPBACK}:{self.port}"

    def close(self) -> None:
        """Also all connections."""
        for end in (self._listener, *self._ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                host, _, port = self.target.rpartition(":")
                broker = socket.create_connection((host, int(port)))
                self._ends += (client, broker)
                keys: dict[int, int] = {}
                for work in (self._carry_requests, self._carry_answers):
                    threading.Thread(target=work, args=(client, broker, keys), daemon=True).start()

    def _carry_requests(
        self, client: socket.socket, broker: socket.socket, keys: dict[int, int]
    ) -> None:
        with suppress(OSError):
            while message := _message(client):
                key, _, number = REQUEST.unpack_from(message, LENGTH.size)
                keys[number] = key
                broker.sendall(message)
            broker.shutdown(socket.SHUT_RDWR)

    def _carry_answers(
        self, client: socket.socket, broker: socket.socket, keys: dict[int, int]
    ) -> None:
        with suppress(OSError):
            while message := _message(broker):
                (number,) = LENGTH.unpack_from(message, LENGTH.size)
                self.before(keys.pop(number))
                client.sendall(message)
            client.shutdown(socket.SHUT_RDWR)


def _message(source: socket.socket) -> bytes:
    """One with its length in front; empty at the connection's end."""
    head = source.recv(LENGTH.size, socket.MSG_WAITALL)
    if len(head) < LENGTH.size:
        return b""
    (length,) = LENGTH.unpack(head)
    return head + source.recv(length, socket.MSG_WAITALL)
