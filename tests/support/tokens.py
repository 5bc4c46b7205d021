"""An OAuth token endpoint in this process, and servers that answer without end."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import parse_qs

from tests.support.certificates import Issued
from tests.support.http_server import Answer, Asked, answering


class Endpoint:
    """``answer`` is the next body, ``status`` its status, ``location`` where it leads; ``requests``
    has each (header, form), ``asked_for`` where to, ``followed`` the header of each GET, which a
    redirection makes."""

    def __init__(self) -> None:
        self.status = 200
        self.answer: bytes = b"{}"
        self.location: str | None = None
        self.requests: list[tuple[str, dict[str, list[str]]]] = []
        self.asked_for: list[str] = []
        self.followed: list[str | None] = []
        self.url = ""

    def grants(self, token: str, **more: Any) -> None:
        self.answer = json.dumps({"access_token": token, **more}).encode()


@contextmanager
def serving(endpoint: Endpoint, issued: Issued | None = None) -> Iterator[None]:
    """With a certificate it speaks TLS."""

    def answer(asked: Asked) -> Answer:
        if asked.method == "POST":
            form = parse_qs(asked.body.decode())
            endpoint.requests.append((asked.headers["Authorization"], form))
            endpoint.asked_for.append(asked.path)
        else:
            endpoint.followed.append(asked.headers["Authorization"])
        headers = {} if endpoint.location is None else {"Location": endpoint.location}
        return Answer(endpoint.status, endpoint.answer, headers)

    with answering(answer, issued) as url:
        endpoint.url = f"{url}/token"
        yield


@contextmanager
def accepting(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """The port of a server, each of whose connections has a thread of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=serve, args=(listener.accept()[0],)).start()

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@contextmanager
def dripping(*, first: bytes = b"") -> Iterator[int]:
    """The port of a server that goes on sending a byte now and then, whatever it is asked."""
    over = threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.sendall(first)
            while not over.wait(0.05):
                connection.sendall(b"x")

    with accepting(serve) as port:
        try:
            yield port
        finally:
            over.set()


@contextmanager
def tunnelling(asked: list[str]) -> Iterator[int]:
    """The port of a proxy for HTTPS; each request's first line goes to ``asked``."""

    def pipe(near: socket.socket, far: socket.socket) -> None:
        with suppress(OSError):
            while part := near.recv(65536):
                far.sendall(part)
        with suppress(OSError):
            far.shutdown(socket.SHUT_WR)

    def serve(near: socket.socket) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += near.recv(1)
        line = head.decode().splitlines()[0]
        asked.append(line)
        host, _, port = line.split()[1].rpartition(":")
        with near, socket.create_connection((host, int(port))) as far:
            near.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            back = threading.Thread(target=pipe, args=(far, near))
            back.start()
            pipe(near, far)
            back.join()

    with accepting(serve) as port:
        yield port
