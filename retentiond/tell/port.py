"""The HTTP port: where it listens, how many connections it keeps, and basic authentication and TLS
for all of it, as in Prometheus exporters.

A bcrypt hash is slow to check, on purpose. A scrape need not pay for that every time: a keyed
digest recognises the password that last let a user in.

As with Prometheus exporters, a renewed certificate takes effect without a reload.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import errno
import hmac
import os
import resource
import secrets
import socket
import ssl
from asyncio import Transport
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import bcrypt
import structlog
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from retentiond.errors import ConfigError
from retentiond.tell import logs

REQUEST_S = 10.0
"""How long a connection may take to send its first request."""

MOST_CONNECTIONS = 100
"""How many connections may be open. The oldest one makes room for a new one, so that descriptors
are left for the connections to Kafka."""

LONGEST_PASSWORD = 72
"""How many bytes of a password bcrypt uses, also when a hash is made."""

UNAUTHORIZED = PlainTextResponse(
    "this port asks for a user and a password\n",
    status_code=401,
    headers={"www-authenticate": 'Basic realm="retentiond", charset="UTF-8"'},
)


class Credentials(NamedTuple):
    user: str
    password: bytes


class BasicAuth:
    """Lets a request through to the application only if it has a user's password."""

    def __init__(
        self,
        app: ASGIApp,
        hashes: Mapping[str, str],
        is_stuck: Callable[[], object] = lambda: None,
    ) -> None:
        """``hashes``: bcrypt hashes by user name; at least one. ``is_stuck``: whether cycles are
        stuck; /healthz says so without a password, because a liveness probe has none."""
        self._app = app
        self._is_stuck = is_stuck
        self._hashes = {user: hashed.encode() for user, hashed in hashes.items()}
        # Checked for an unknown user, so that the time doesn't tell which users exist.
        self._hash_for_unknown = next(iter(self._hashes.values()))
        self._key = secrets.token_bytes(32)
        self._digests: dict[str, bytes] = {}  # of the password that last let each user in
        # One check at a time: guessing passwords must not take all processors.
        self._checker = ThreadPoolExecutor(1, thread_name_prefix="http-login")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            login = parse(Headers(scope=scope).get("authorization", ""))
            is_known = login is not None and await self._knows(login)
            if not is_known and not (scope["path"] == "/healthz" and self._is_stuck()):
                await UNAUTHORIZED(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _knows(self, login: Credentials) -> bool:
        digest = hmac.digest(self._key, login.password, "sha256")
        if hmac.compare_digest(self._digests.get(login.user, b""), digest):
            return True
        loop = asyncio.get_running_loop()
        is_right = await loop.run_in_executor(self._checker, self._check, login)
        if is_right:
            self._digests[login.user] = digest
        return is_right

    def _check(self, login: Credentials) -> bool:
        hashed = self._hashes.get(login.user, self._hash_for_unknown)
        is_right = bcrypt.checkpw(login.password[:LONGEST_PASSWORD], hashed)
        return is_right and login.user in self._hashes


def parse(authorization: str) -> Credentials | None:
    """User and password of an ``Authorization`` header; None if it has none."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded, validate=True).partition(b":")
        return Credentials(user.decode(), password) if colon else None
    except (binascii.Error, UnicodeDecodeError):
        return None


Stamp = tuple[tuple[int, int, int], ...]
"""Inode, time and size of the certificate's files, to see whether they have changed."""


class Certificate:
    """The port's certificate. A server listens with ``context``, which gives every new connection
    the certificate that the files have now."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Raises `ConfigError` if certificate and key can't be used."""
        self._files = (certificate, key)
        self._log = structlog.get_logger()
        self._logged = ""  # why the present files can't be used
        for name, file in (("certificate", certificate), ("key", key)):
            try:
                file.read_bytes()
            except OSError as error:
                raise ConfigError(
                    f"{file} can't be read ({error.strerror})", path=f"http.tls.{name}"
                ) from error
        self._loaded_stamp = self._stamp()
        try:
            self._current = self._load()
            self.context = self._load()
        except ssl.SSLError as error:
            raise ConfigError(_why(error), path="http.tls") from error
        self.context.sni_callback = self._on_hello

    def _on_hello(self, connection: ssl.SSLObject, _name: str | None, _: ssl.SSLContext) -> None:
        """Called for every handshake, even if the client names no host."""
        self._renew()
        connection.context = self._current

    def _renew(self) -> None:
        """Loads the files if they have changed. A key that doesn't fit its certificate may be half
        written, so it is logged once and tried again."""
        try:
            stamp = self._stamp()
            if stamp == self._loaded_stamp:
                return
            self._current = self._load()
        except OSError as error:
            why = _why(error) if isinstance(error, ssl.SSLError) else str(error)
            if why != self._logged:
                self._logged = why
                self._log.warning(logs.CERTIFICATE_REFUSED, error=f"http.tls: {why}")
            return
        self._loaded_stamp, self._logged = stamp, ""
        self._log.info(logs.CERTIFICATE_RENEWED, certificate=str(self._files[0]))

    def _stamp(self) -> Stamp:
        stats = [os.stat(file) for file in self._files]
        return tuple((stat.st_ino, stat.st_mtime_ns, stat.st_size) for stat in stats)

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # An empty pass phrase: without one, OpenSSL would ask the terminal.
        context.load_cert_chain(*self._files, password="")
        return context


def _why(error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the key does not belong to the certificate; give the pair that was made together"
    return (
        f"expected a certificate and its key, both as PEM and without a pass phrase"
        f" ({(error.reason or 'unreadable').lower().replace('_', ' ')})"
    )


S = TypeVar("S", bound=socket.socket)

EVERY_ADDRESS = ("0.0.0.0", "::")
"""Settings that mean all addresses of this host, IPv4 and IPv6."""

_NO_IPV6 = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.ENOPROTOOPT)


def bound_socket(host: str, port: int, make: Callable[[int], S]) -> S:
    """A socket that is bound to host and port. ``make`` creates one of an address family. Raises
    OSError.

    A host may have addresses of only one family, and a probe uses the one that its pod has.
    """
    if host not in EVERY_ADDRESS:
        return _bound(host, port, make, socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        return _bound("::", port, make, socket.AF_INET6)
    except OSError as error:
        if error.errno not in _NO_IPV6:
            raise
    return _bound("0.0.0.0", port, make, socket.AF_INET)


def _bound(host: str, port: int, make: Callable[[int], S], family: int) -> S:
    with contextlib.ExitStack() as on_failure:
        listener = make(family)
        on_failure.callback(listener.close)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(host != "::"))
        listener.bind((host, port))
        on_failure.pop_all()
    return listener


def raise_open_files() -> None:
    """Allows this process as many descriptors as the host allows. A process usually starts with
    1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # then the present limit must do
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class ClosingSilent(H11Protocol):
    """Closes a connection that sends no request. After a response, uvicorn does so itself."""

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(REQUEST_S, self._close_if_silent)

    def _close_if_silent(self) -> None:
        if self.cycle is None:
            self.transport.close()


class _Listener(socket.socket):
    """Keeps at most `MOST_CONNECTIONS` open: the oldest one makes room for a new one."""

    def __init__(self, family: int) -> None:
        super().__init__(family, socket.SOCK_STREAM)
        self._accepted: deque[socket.socket] = deque()  # the oldest first
        self._is_logged = False

    def accept(self) -> tuple[socket.socket, Any]:
        try:
            connection, address = super().accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self._make_room(len(self._accepted) - 1)
                self._log_once(error)
            raise
        self._is_logged = False
        self._accepted.append(connection)
        self._make_room(MOST_CONNECTIONS)
        return connection, address

    def _make_room(self, most: int) -> None:
        still_open = [connection for connection in self._accepted if connection.fileno() >= 0]
        self._accepted = deque(still_open)
        while len(self._accepted) > max(0, most):
            with contextlib.suppress(OSError):  # the client has closed it meanwhile
                self._accepted.popleft().shutdown(socket.SHUT_RDWR)

    def _log_once(self, error: OSError) -> None:
        """Logs the error once until a connection is accepted again, because asyncio tries every
        second."""
        if not self._is_logged:
            structlog.get_logger().error(logs.NO_DESCRIPTORS, error=error.strerror)
        self._is_logged = True


def bind(host: str, port: int) -> socket.socket:
    """A listening socket. Raises `ConfigError`, mostly because another process has the port."""
    try:
        listener = bound_socket(host, port, _Listener)
    except OSError as error:
        raise ConfigError(
            f"{host}:{port} can't be listened on ({error.strerror}); choose another port",
            path="http.port",
        ) from error
    listener.listen(128)
    return listener
