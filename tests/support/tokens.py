"""An OAuth token endpoint in this process, and servers that answer without end."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs

from tests.support.certificates import Issued


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

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            endpoint.requests.append((self.headers["Authorization"], parse_qs(body)))
            endpoint.asked_for.append(self.path)
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

    with _Server(("127.0.0.1", 0), Handler) as server:
        endpoint.url = f"http://127.0.0.1:{server.server_port}/token"
        if issued is not None:
            endpoint.url = endpoint.url.replace("http://", "https://")
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(issued.certificate, issued.key)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


class _Server(HTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Nothing: a client that trusts somebody else hangs up."""


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
