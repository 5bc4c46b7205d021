"""An HTTP server in this process that answers as a test says."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import NamedTuple

from tests.support.certificates import Issued


class Asked(NamedTuple):
    method: str
    path: str
    headers: Message
    body: bytes


class Answer(NamedTuple):
    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = MappingProxyType({})


@contextmanager
def answering(answer: Callable[[Asked], Answer], tls: Issued | None = None) -> Iterator[str]:
    """Its URL, up to the port. With a certificate it speaks TLS."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            found = answer(Asked(self.command, self.path, self.headers, body))
            self.send_response(found.status)
            for name, value in found.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(found.body)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Nothing: stderr is the tests'."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """Nothing: a client that refuses the certificate hangs up."""

    with Server(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls.certificate, tls.key)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
