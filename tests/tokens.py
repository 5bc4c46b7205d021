"""An OAuth token endpoint in this process."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs


class Endpoint:
    """``answer`` is the next body, ``status`` its status; ``requests`` has each (header, form)."""

    def __init__(self) -> None:
        self.status = 200
        self.answer: bytes = b"{}"
        self.requests: list[tuple[str, dict[str, list[str]]]] = []
        self.url = ""

    def grants(self, token: str, **more: Any) -> None:
        self.answer = json.dumps({"access_token": token, **more}).encode()


@contextmanager
def serving(endpoint: Endpoint) -> Iterator[None]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            endpoint.requests.append((self.headers["Authorization"], parse_qs(body)))
            self.send_response(endpoint.status)
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
