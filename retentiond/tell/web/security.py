"""Basic authentication and TLS for the whole port, as in Prometheus exporters.

A bcrypt hash is slow to check, on purpose. A scrape need not pay for that every time: a keyed
digest recognises the password that last let a user in.

As with Prometheus exporters, a renewed certificate takes effect without a reload.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import os
import secrets
import ssl
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import bcrypt
import structlog
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from retentiond.errors import ConfigError
from retentiond.tell import logs

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
