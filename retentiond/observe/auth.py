"""Basic authentication for the whole port, as Prometheus exporters have it.

A bcrypt hash is slow to check, which is its purpose. A scrape need not pay for that each time:
the password that last let a user in is known again by a keyed digest.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import secrets
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import bcrypt
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

LONGEST_PASSWORD = 72
"""Bytes of a password that bcrypt, and whoever makes a hash, looks at."""

UNAUTHORIZED = PlainTextResponse(
    "this port asks for a user and a password\n",
    status_code=401,
    headers={"www-authenticate": 'Basic realm="retentiond", charset="UTF-8"'},
)


class Login(NamedTuple):
    user: str
    password: bytes


class BasicAuth:
    """An application that only those come through to who know a user's password."""

    def __init__(self, app: ASGIApp, hashes: Mapping[str, str]) -> None:
        """``hashes``: bcrypt's, by the user's name; at least one."""
        self._app = app
        self._hashes = {user: hashed.encode() for user, hashed in hashes.items()}
        # An unknown user's password is checked too, so that the time taken tells nothing.
        self._stand_in = next(iter(self._hashes.values()))
        self._key = secrets.token_bytes(32)
        self._let_in: dict[str, bytes] = {}
        # One check at a time: guessing passwords must not take all processors.
        self._checker = ThreadPoolExecutor(1, thread_name_prefix="http-login")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            login = parse(Headers(scope=scope).get("authorization", ""))
            if login is None or not await self._knows(login):
                await UNAUTHORIZED(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _knows(self, login: Login) -> bool:
        digest = hmac.digest(self._key, login.password, "sha256")
        if hmac.compare_digest(self._let_in.get(login.user, b""), digest):
            return True
        loop = asyncio.get_running_loop()
        is_right = await loop.run_in_executor(self._checker, self._check, login)
        if is_right:
            self._let_in[login.user] = digest
        return is_right

    def _check(self, login: Login) -> bool:
        hashed = self._hashes.get(login.user, self._stand_in)
        is_right = bcrypt.checkpw(login.password[:LONGEST_PASSWORD], hashed)
        return is_right and login.user in self._hashes


def parse(authorization: str) -> Login | None:
    """User and password of an ``Authorization`` header; None where it holds none."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded, validate=True).partition(b":")
        return Login(user.decode(), password) if colon else None
    except (binascii.Error, UnicodeDecodeError):
        return None
