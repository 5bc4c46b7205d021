"""OAUTHBEARER tokens by the OAuth 2.0 client credentials grant, one fetch for both clients."""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping

from kafka.net.sasl.oauth import AbstractTokenProvider

TIMEOUT_S = 10.0

DEFAULT_LIFETIME_S = 300
"""Of a token whose endpoint doesn't say."""


class NoToken(OSError):
    """The token endpoint gave none; its text says why, and holds no secret."""


class TokenSource(AbstractTokenProvider):  # type: ignore[misc]  # untyped base
    """Hands out an access token and renews it when four fifths of its life are over."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        super().__init__()
        self._settings = settings
        self._token = ""
        self._expires_at = 0.0
        self._renew_at = 0.0
        self.failure: str | None = None  # why the last token could not be had

    def token(self) -> str:
        """The token, as kafka-python asks for it. Raises `NoToken`."""
        if time.time() >= self._renew_at:
            try:
                self._fetch()
            except OSError as error:
                self.failure = _why(error)
                raise NoToken(self.failure) from error
            self.failure = None
        return self._token

    def for_confluent(self, _config: str) -> tuple[str, float]:
        """(token, expiry in epoch seconds), as confluent-kafka's ``oauth_cb`` wants it."""
        return self.token(), self._expires_at

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
            headers={
                "Authorization": "Basic "
                + base64.b64encode(f"{client_id}:{secret}".encode()).decode(),
                "Accept": "application/json",
            },
        )
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
            body = response.read()
        try:
            answer = json.loads(body)
            token = str(answer["access_token"])
            lifetime = float(answer.get("expires_in", DEFAULT_LIFETIME_S))
        except (ValueError, TypeError, KeyError, AttributeError):  # its text would show the token
            raise OSError("the token endpoint's answer holds no access_token") from None
        now = time.time()
        self._token = token
        self._expires_at = now + lifetime
        self._renew_at = now + 0.8 * lifetime


def _why(error: OSError) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"it answered {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        return str(error.reason)
    return str(error) or "no answer in time"
