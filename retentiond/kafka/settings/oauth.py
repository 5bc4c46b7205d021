"""Tokens for OAUTHBEARER. One source for both clients.

A token comes from an endpoint, by the OAuth 2.0 client credentials grant, or from a file that
somebody else renews. For Amazon MSK it is an address, signed with the credentials that AWS's own
clients find. The signer is the extra ``aws``, which few need: it is imported when the first token
is signed.
"""

from __future__ import annotations

import base64
import http.client
import json
import math
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from kafka.net.sasl.oauth import AbstractTokenProvider

from retentiond.clock import seconds_since_boot
from retentiond.exchange import NoAnswer, exchange, trusting
from retentiond.kafka.settings import logins

MOST_SECONDS = 10.0
"""How long a whole exchange may take: kafka-python asks for a token on its only I/O thread."""

MOST_BYTES = 1024 * 1024
"""How long an answer or a file may be; tokens have some thousand bytes."""

MOST_WORDS = 250
"""Characters of what an endpoint says itself."""

DEFAULT_LIFETIME_S = 300
"""How long a token lives whose endpoint doesn't say."""

FILE_LIFETIME_S = 60
"""How long librdkafka may log in by the token that a file held; then it is read again."""

AWS_SESSION = "retentiond"
"""What the role's session is called in AWS's own logs."""


class NoToken(OSError):
    """No token could be had; its text says why, and holds no secret."""


class Token(NamedTuple):
    """``lifetime_s``: until nobody takes it any more; ``fresh_s``: until another one is fetched."""

    value: str
    lifetime_s: float
    fresh_s: float


class TokenSource(AbstractTokenProvider):  # type: ignore[misc]  # untyped base
    """Hands out an access token and fetches another one when it is no longer fresh.

    Its life goes by `seconds_since_boot`: a clock that is set back makes no token live longer.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        """``settings``: `token_settings`."""
        super().__init__()
        self._fetch = _source(settings)
        self._extensions = logins.extensions_of(settings)
        self._token = ""
        self._expires_at = 0.0
        self._renew_at = 0.0
        self.failure: str | None = None  # why the last token could not be had

    def token(self) -> str:
        """The token, as kafka-python asks for it at each login. Raises `NoToken`."""
        asked_at = seconds_since_boot()
        if asked_at >= self._renew_at:
            try:
                fetched = self._fetch()
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.failure = _why(error)
                raise NoToken(self.failure) from error
            self.failure = None
            self._token = fetched.value
            self._expires_at = asked_at + fetched.lifetime_s
            self._renew_at = asked_at + fetched.fresh_s
        return self._token

    def extensions(self) -> dict[str, str]:
        return self._extensions

    def for_confluent(self, _config: str) -> tuple[str, float, str, dict[str, str]]:
        """(token, expiry in epoch seconds, principal, extensions), as confluent-kafka's
        ``oauth_cb`` wants it. Brokers know the principal from the token."""
        token = self.token()
        expires_at = time.time() + self._expires_at - seconds_since_boot()
        return token, expires_at, "", self._extensions


def _source(settings: Mapping[str, str]) -> Callable[[], Token]:
    if logins.REGION in settings:
        return lambda: _lasting(*_signed(settings))
    if settings[logins.TOKEN_URL].startswith(logins.FILE_SCHEME):
        path = urllib.request.url2pathname(
            settings[logins.TOKEN_URL].removeprefix(logins.FILE_SCHEME)
        )
        return lambda: _read(Path(path))
    return lambda: _ask(settings)


def _lasting(value: str, lifetime_s: float) -> Token:
    return Token(value, lifetime_s, 0.8 * lifetime_s)


def _read(path: Path) -> Token:
    """Anew at each login: a token that is renewed there is valid when it appears."""
    with path.open("rb") as file:
        text = file.read(MOST_BYTES).strip()
    if not text.isascii() or not text.decode().isprintable() or not text or b" " in text:
        raise OSError("it holds no token")
    value = text.decode()
    lifetime_s = min(_expiry_of(value) - time.time(), FILE_LIFETIME_S)
    if lifetime_s <= 0:
        raise OSError("its token has expired")
    return Token(value, lifetime_s, 0.0)


def _expiry_of(token: str) -> float:
    """When the token ends, in epoch seconds, if it is a JSON Web Token that says so."""
    try:
        _, claims, _ = token.split(".")
        padded = claims + "=" * (-len(claims) % 4)
        return float(json.loads(base64.urlsafe_b64decode(padded))["exp"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return math.inf


def _ask(settings: Mapping[str, str]) -> Token:
    form = {"grant_type": "client_credentials"}
    for field, name in (("scope", logins.SCOPE), ("audience", logins.AUDIENCE)):
        if value := settings.get(name):
            form[field] = value
    request = urllib.request.Request(
        settings[logins.TOKEN_URL],
        data=urllib.parse.urlencode(form).encode(),
        headers={"Accept": "application/json"},
    )
    # urllib would carry a plain header on to whatever host a redirection names.
    request.add_unredirected_header("Authorization", f"Basic {_credentials(settings)}")
    try:
        context = trusting(settings.get(logins.ENDPOINT_CA))
    except OSError as error:
        raise OSError(f"{logins.ENDPOINT_CA} can't be read: {error.strerror or error}") from None
    secrets = (settings[logins.CLIENT_SECRET], _credentials(settings))
    try:
        body, _ = exchange(
            request, most_bytes=MOST_BYTES, most_seconds=MOST_SECONDS, context=context
        )
    except urllib.error.HTTPError as refusal:
        why = _own_words(refusal.read(), secrets)
        raise OSError(f"it answered {refusal.code} {refusal.reason}{why}") from None
    try:
        answer = json.loads(body)
        token = str(answer["access_token"] or "")
        told = answer.get("expires_in")
        if told in (None, ""):  # which RFC 6749 allows
            left_s = _expiry_of(token) - time.time()
            lifetime = min(left_s, DEFAULT_LIFETIME_S) if left_s > 0 else DEFAULT_LIFETIME_S
        else:
            lifetime = float(told)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):  # with the token
        token = ""
    if not token:
        why = _own_words(body, secrets)
        raise OSError(f"the token endpoint's answer holds no access_token{why}") from None
    return _lasting(token, lifetime if math.isfinite(lifetime) else DEFAULT_LIFETIME_S)


def _own_words(body: bytes, secrets: tuple[str, ...]) -> str:
    """What the endpoint says of a refusal (RFC 6749, 5.2), for the end of a sentence; none of the
    ``secrets``, which it may repeat."""
    try:
        answer = json.loads(body)
        said = [answer.get(name) for name in ("error", "error_description")]
    except (ValueError, AttributeError, RecursionError):
        return ""
    code, text = (_clean(part, secrets) if isinstance(part, str) else "" for part in said)
    words = f"{code} ({text})" if code and text else code or text
    return f": {words}" if words else ""


def _clean(text: str, secrets: tuple[str, ...]) -> str:
    """One printable line of bearable length."""
    for secret in filter(None, secrets):
        for shown in (secret, urllib.parse.quote(secret, safe=""), urllib.parse.quote_plus(secret)):
            text = text.replace(shown, "***")
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= MOST_WORDS else f"{line[:MOST_WORDS]}…"


def _credentials(settings: Mapping[str, str]) -> str:
    """RFC 6749, 2.3.1. A blank as %20 is understood as a form's and as an address's."""
    parts = [settings[logins.CLIENT_ID], settings[logins.CLIENT_SECRET]]
    if settings.get(logins.URL_ENCODE, "true") == "true":
        parts = [urllib.parse.quote(part, safe="") for part in parts]
    return base64.b64encode(":".join(parts).encode()).decode()


def _signed(settings: Mapping[str, str]) -> tuple[str, float]:
    """A token, and for how many seconds it is taken. Raises OSError saying why there is none."""
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as signer  # noqa: N813, PLC0415

    region = settings[logins.REGION]
    try:
        if logins.ROLE in settings:
            signed = signer.generate_auth_token_from_role_arn(
                region, settings[logins.ROLE], AWS_SESSION
            )
        elif logins.PROFILE in settings:
            signed = signer.generate_auth_token_from_profile(region, settings[logins.PROFILE])
        else:
            signed = signer.generate_auth_token(region)
    except AttributeError:  # it looks into credentials that it has not found
        raise OSError("no AWS credentials are found") from None
    except Exception as error:
        raise OSError(str(error) or type(error).__name__) from error
    token, expires_at_ms = signed
    return token, expires_at_ms / 1000 - time.time()


def _why(error: Exception) -> str:
    if isinstance(error, NoAnswer):
        return f"it {error}"
    if isinstance(error, http.client.HTTPException):
        return f"its answer is no HTTP ({type(error).__name__})"
    if isinstance(error, urllib.error.URLError):
        return str(error.reason)
    return getattr(error, "strerror", None) or str(error) or "no answer in time"
