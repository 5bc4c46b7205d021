"""An OAuth token endpoint in this process, and servers that answer without end."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs


class Endpoint:
    """``answer`` is the next body, ``status`` its status, ``location`` where it leads; ``requests``
    has each (header, form), ``followed`` the header of each GET, which a redirection makes."""

    def __init__(self) -> None:
        self.status = 200
        self.answer: bytes = b"{}"
        self.location: str | None = None
        self.requests: list[tuple[str, dict[str, list[str]]]] = []
        self.followed: list[str | None] = []
        self.url = ""

    def grants(self, token: str, **more: Any) -> None:
        self.answer = json.dumps({"access_token": token, **more}).encode()


@contextmanager
def serving(endpoint: Endpoint) -> Iterator[None]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            endpoint.requests.append((self.headers["Authorization"], parse_qs(body)))
            self._answer()

        def do_GET(self) -> None:
            endpoint.followed.append(self.headers["Authorization"])
            self._answer()

        def _answer(self) -> None:
            self.send_response(endpoint.status)
            if endpoint.location is not None:
                self.send_header("Location", endpoint.location)
            self.end_headers()
            self.wfile.write(endpoint.answer)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: stderr is the tests'."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        endpoint.url = f"http://127.0.0.1:{server.server_port}/token"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
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
            over.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
