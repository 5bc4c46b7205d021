"""OAUTHBEARER tokens by the OAuth 2.0 client credentials grant, one fetch for both clients."""

from __future__ import annotations

import base64
import http.client
import json
import math
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping

from kafka.net.sasl.oauth import AbstractTokenProvider

from retentiond.clock import seconds_since_boot
from retentiond.exchange import NoAnswer, exchange

MOST_SECONDS = 10.0
"""Of a whole exchange: kafka-python asks for a token on the thread that all its answers come by."""

MOST_BYTES = 1024 * 1024
"""Of an answer; tokens have some thousand."""

DEFAULT_LIFETIME_S = 300
"""Of a token whose endpoint doesn't say."""


class NoToken(OSError):
    """The token endpoint gave none; its text says why, and holds no secret."""


class TokenSource(AbstractTokenProvider):  # type: ignore[misc]  # untyped base
    """Hands out an access token and renews it when four fifths of its life are over.

    Its life goes by `seconds_since_boot`: a clock that is set back makes no token live longer.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        super().__init__()
        self._settings = settings
        self._token = ""
        self._expires_at = 0.0
        self._renew_at = 0.0
        self.failure: str | None = None  # why the last token could not be had

    def token(self) -> str:
        """The token, as kafka-python asks for it. Raises `NoToken`."""
        if seconds_since_boot() >= self._renew_at:
            try:
                self._fetch()
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.failure = _why(error)
                raise NoToken(self.failure) from error
            self.failure = None
        return self._token

    def for_confluent(self, _config: str) -> tuple[str, float]:
        """(token, expiry in epoch seconds), as confluent-kafka's ``oauth_cb`` wants it."""
        return self.token(), time.time() + self._expires_at - seconds_since_boot()

    def _fetch(self) -> None:
        prefix = "sasl.oauthbearer."
        client_id = self._settings[prefix + "client.id"]
        secret = self._settings[prefix + "client.secret"]
        form = {"grant_type": "client_credentials"}
        if scope := self._settings.get(prefix + "scope"):
            form["scope"] = scope
        request = urllib.request.Request(
            self._settings[prefix + "token.endpoint.url"],
            data=urllib.parse.urlencode(form).encode(),
            headers={"Accept": "application/json"},
        )
        credentials = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
        # urllib would carry a plain header on to whatever host a redirection names.
        request.add_unredirected_header("Authorization", f"Basic {credentials}")
        asked_at = seconds_since_boot()
        body, _ = exchange(request, most_bytes=MOST_BYTES, most_seconds=MOST_SECONDS)
        try:
            answer = json.loads(body)
            token = str(answer["access_token"])
            lifetime = float(answer.get("expires_in", DEFAULT_LIFETIME_S))
            if not math.isfinite(lifetime):
                lifetime = DEFAULT_LIFETIME_S
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):  # with the token
            raise OSError("the token endpoint's answer holds no access_token") from None
        self._token = token
        self._expires_at = asked_at + lifetime
        self._renew_at = asked_at + 0.8 * lifetime


def _why(error: Exception) -> str:
    if isinstance(error, NoAnswer):
        return f"it {error}"
    if isinstance(error, http.client.HTTPException):
        return f"its answer is no HTTP ({type(error).__name__})"
    if isinstance(error, urllib.error.HTTPError):
        return f"it answered {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        return str(error.reason)
    return str(error) or "no answer in time"
