"""An HTTP exchange that neither a slow server nor a large answer can hold up.

urllib's time-out is of each step: a server that sends a byte now and then is waited for as long as
it likes. Here the whole has an end, and the connection is cut then.

An asynchronous client would not do with less. Python looks a name up in a thread that no time-out
ends, and that an event loop, or the process at its end, waits for; here that thread is a daemon.
httpx trusts the authorities of certifi in place of the system's, and takes only `Authorization`
from a request that is redirected to another host.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import socket
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import TimeoutError as FutureTimeoutError
from email.message import Message
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from retentiond.background import in_background

STEP_TIMEOUT_S = 10.0
"""To connect, or to wait for the next bytes."""

CHUNK_BYTES = 64 * 1024


class NoAnswer(OSError):
    """The server gave no whole answer; ``str()`` says why, after "it", and without the address."""


def trusting(ca: str | Path | None) -> ssl.SSLContext:
    """A context that trusts the authorities in this file alone; None: the system's.

    It checks certificates alike on every Python. Since 3.13 Python's own contexts also refuse what
    RFC 5280 forbids (an authority that isn't marked critical, or has no key identifier), although
    Kafka's clients take the same authority for brokers; and before 3.13 they refuse an
    intermediate authority without its root. Raises OSError, of which ``ssl.SSLError`` is one.
    """
    context = ssl.create_default_context(cafile=ca)
    context.verify_flags = ssl.VERIFY_X509_TRUSTED_FIRST | ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


class HttpResponse(NamedTuple):
    body: bytes
    headers: Message


def exchange(
    request: str | urllib.request.Request,
    *,
    most_bytes: int,
    most_seconds: float,
    context: ssl.SSLContext,
) -> HttpResponse:
    """The answer to a request, or to a GET of an address. Redirections are followed; the request's
    headers are not sent to another host, port or scheme.

    ``most_seconds``: of the whole, from the look-up of the name on. ``context``: for HTTPS
    (`trusting`). Raises `NoAnswer`, `urllib.error.URLError`, `http.client.HTTPException`, OSError,
    and ValueError for an address that is none. The body of an HTTPError can be read: as much of it
    as has come.
    """
    connections = _Connections()
    http = _Http(connections, context)
    fetched = in_background(lambda: _answer(request, http, most_bytes), "exchange")
    try:
        return fetched.result(most_seconds)
    except FutureTimeoutError:
        waited_s = STEP_TIMEOUT_S if fetched.done() else most_seconds
        raise NoAnswer(f"takes more than {waited_s:g} s to answer") from None
    finally:
        connections.cut()


def _answer(request: str | urllib.request.Request, http: _Http, most_bytes: int) -> HttpResponse:
    body = bytearray()
    opener = urllib.request.build_opener(http, _Redirections)
    try:
        opened = opener.open(request, timeout=STEP_TIMEOUT_S)
    except urllib.error.HTTPError as refusal:
        raise _whole(refusal, most_bytes) from None
    with opened as answer:
        if answer.status != HTTPStatus.OK:  # a part of it, or what a proxy has made of it
            raise NoAnswer(f"answers with HTTP {answer.status} where 200 belongs")
        while part := answer.read1(CHUNK_BYTES):
            body += part
            if len(body) > most_bytes:
                raise NoAnswer(f"answers with more than {most_bytes} bytes")
        announced = answer.headers.get("Content-Length")
        if announced is not None and announced != str(len(body)):
            raise NoAnswer("answers with less than it announces")
        return HttpResponse(bytes(body), answer.headers)


def _whole(refusal: urllib.error.HTTPError, most_bytes: int) -> urllib.error.HTTPError:
    """The same error with its body in memory: the connection is cut when somebody reads it."""
    body = b""
    with refusal, contextlib.suppress(OSError, http.client.HTTPException):
        body = refusal.read(most_bytes)
    return urllib.error.HTTPError(
        refusal.url, refusal.code, refusal.reason, refusal.headers, io.BytesIO(body)
    )


class _Connections:
    """The connections of one exchange, redirections included, so that another thread can cut
    them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._over = False

    def connect(self, *where: Any, **how: Any) -> socket.socket:
        made = socket.create_connection(*where, **how)
        with self._lock:
            if self._over:
                made.close()
                raise TimeoutError
            self._open.append(made.dup())  # TLS takes the socket itself away
        return made

    def cut(self) -> None:
        """A read from one of them ends, too."""
        with self._lock:
            self._over = True
            for sock in self._open:
                with contextlib.suppress(OSError), sock:
                    sock.shutdown(socket.SHUT_RDWR)

    def of(self, kind: type[http.client.HTTPConnection]) -> Callable[..., Any]:
        def make(host: str, **how: Any) -> http.client.HTTPConnection:
            connection = kind(host, **how)
            connection._create_connection = self.connect  # type: ignore[attr-defined]  # no other way
            return connection

        return make


class _Http(urllib.request.HTTPHandler, urllib.request.HTTPSHandler, urllib.request.FTPHandler):
    def __init__(self, connections: _Connections, context: ssl.SSLContext) -> None:
        super().__init__()
        self._connections = connections
        self._context = context

    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._connections.of(http.client.HTTPConnection), request)

    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        connection = self._connections.of(http.client.HTTPSConnection)
        return self.do_open(connection, request, context=self._context)

    def ftp_open(self, _request: urllib.request.Request) -> Any:
        """A redirection might lead there."""
        raise urllib.error.URLError("it leads to FTP")


class _Redirections(urllib.request.HTTPRedirectHandler):
    """urllib's own class would send all headers, even passwords and tokens, to any host."""

    def redirect_request(self, req: urllib.request.Request, *answer: Any) -> Any:
        follow = super().redirect_request(req, *answer)
        if follow is not None and _origin(follow) != _origin(req):
            follow.headers.clear()
        return follow


def _origin(request: urllib.request.Request) -> tuple[str, str | None, int | None]:
    address = urlsplit(request.full_url)
    usual = {"http": http.client.HTTP_PORT, "https": http.client.HTTPS_PORT}.get(address.scheme)
    return address.scheme, address.hostname, address.port or usual
