"""Tokens by the client credentials grant, from a token endpoint in this process."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator

import pytest

from retentiond.kafka.settings import oauth
from retentiond.kafka.settings.oauth import TokenSource
from tests.support.tokens import Endpoint, dripping, serving

SECRET = "correct horse battery staple"


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    with serving(made):
        yield made


def source(endpoint: Endpoint, **settings: str) -> TokenSource:
    return TokenSource(
        {
            "sasl.oauthbearer.token.endpoint.url": endpoint.url,
            "sasl.oauthbearer.client.id": "retentiond",
            "sasl.oauthbearer.client.secret": SECRET,
            **settings,
        }
    )


def test_a_token_is_fetched_with_the_clients_credentials(endpoint: Endpoint) -> None:
    endpoint.grants("token-1")
    scope = {"sasl.oauthbearer.scope": "kafka read"}
    assert source(endpoint, **scope).token() == "token-1"
    ((header, form),) = endpoint.requests
    assert base64.b64decode(header.removeprefix("Basic ")).decode() == f"retentiond:{SECRET}"
    assert form == {"grant_type": ["client_credentials"], "scope": ["kafka read"]}


def test_the_clients_credentials_follow_no_redirection(endpoint: Endpoint) -> None:
    elsewhere = Endpoint()
    with serving(elsewhere):
        elsewhere.grants("token-of-a-stranger")
        endpoint.status, endpoint.location = 302, elsewhere.url
        source(endpoint).token()
    assert elsewhere.followed == [None]


def test_a_token_is_kept_while_it_is_fresh(endpoint: Endpoint) -> None:
    endpoint.grants("token-1", expires_in=3600)
    tokens = source(endpoint)
    assert {tokens.token() for _ in range(5)} == {"token-1"}
    assert len(endpoint.requests) == 1


def test_a_token_is_renewed_when_four_fifths_of_its_life_are_over(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(oauth, "seconds_since_boot", lambda: now)
    endpoint.grants("token-1", expires_in=100)
    tokens = source(endpoint)
    assert tokens.token() == "token-1"
    endpoint.grants("token-2", expires_in=100)
    now += 79
    assert tokens.token() == "token-1"
    now += 1
    assert tokens.token() == "token-2"


def test_a_clock_that_is_set_back_makes_no_token_live_longer(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    since_boot, wall = 1000.0, 1_700_000_000.0
    monkeypatch.setattr(oauth, "seconds_since_boot", lambda: since_boot)
    monkeypatch.setattr("retentiond.kafka.settings.oauth.time.time", lambda: wall)
    endpoint.grants("token-1", expires_in=100)
    tokens = source(endpoint)
    assert tokens.for_confluent("") == ("token-1", wall + 100)
    wall -= 7200
    since_boot += 30
    assert tokens.for_confluent("") == ("token-1", wall + 70)
    since_boot += 50
    endpoint.grants("token-2", expires_in=100)
    assert tokens.for_confluent("") == ("token-2", wall + 100)


@pytest.mark.parametrize("never", ["NaN", "Infinity"])
def test_a_token_without_an_end_is_renewed_all_the_same(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, never: str
) -> None:
    since_boot = 1000.0
    monkeypatch.setattr(oauth, "seconds_since_boot", lambda: since_boot)
    endpoint.answer = f'{{"access_token": "token-1", "expires_in": {never}}}'.encode()
    tokens = source(endpoint)
    assert tokens.token() == "token-1"
    endpoint.grants("token-2")
    since_boot += oauth.DEFAULT_LIFETIME_S
    assert tokens.token() == "token-2"


@pytest.mark.timeout(120)
def test_an_endpoint_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oauth, "MOST_SECONDS", 0.5)
    with dripping(first=b"HTTP/1.1 200 OK\r\n\r\n") as port:
        slow = Endpoint()
        slow.url = f"http://127.0.0.1:{port}/token"
        with pytest.raises(OSError, match=r"^it takes more than 0.5 s to answer$"):
            source(slow).token()


def test_an_answer_that_is_too_large_is_an_error(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oauth, "MOST_BYTES", 10)
    endpoint.grants("token-1")
    with pytest.raises(OSError, match=r"^it answers with more than 10 bytes$"):
        source(endpoint).token()


def test_an_answer_that_is_no_http_is_an_error() -> None:
    with dripping(first=b"nonsense\r\n\r\n") as port:
        nonsense = Endpoint()
        nonsense.url = f"http://127.0.0.1:{port}/token"
        with pytest.raises(OSError, match="no HTTP"):
            source(nonsense).token()


def test_the_expiry_is_told_in_seconds_since_the_epoch(endpoint: Endpoint) -> None:
    endpoint.grants("token-1")
    token, expires_at = source(endpoint).for_confluent("")
    assert token == "token-1"
    assert expires_at == pytest.approx(time.time() + oauth.DEFAULT_LIFETIME_S, abs=5)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        b"not json",
        b"\xff\xfe",
        b'{"access_token": "t", "expires_in": []}',
        b"[" * 100_000,
    ],
)
def test_an_answer_without_a_token_is_an_error_without_the_answer(
    endpoint: Endpoint, body: bytes
) -> None:
    endpoint.answer = body
    with pytest.raises(OSError, match=r"holds no access_token$") as error:
        source(endpoint).token()
    assert error.value.__suppress_context__


@pytest.mark.parametrize("status", [400, 401, 500, 503])
def test_a_refusal_of_the_endpoint_is_an_error_without_a_secret(
    endpoint: Endpoint, status: int
) -> None:
    endpoint.status = status
    endpoint.answer = SECRET.encode()
    with pytest.raises(OSError, match=str(status)) as error:
        source(endpoint).token()
    assert SECRET not in str(error.value)


def test_an_endpoint_that_cannot_be_reached_is_an_error() -> None:
    nowhere = Endpoint()
    nowhere.url = "http://127.0.0.1:1/token"
    with pytest.raises(OSError, match="refused"):
        source(nowhere).token()


def test_a_failed_renewal_is_tried_again_by_the_next_request(endpoint: Endpoint) -> None:
    tokens = source(endpoint)
    with pytest.raises(OSError, match="access_token"):
        tokens.token()
    endpoint.grants("token-1")
    assert tokens.token() == "token-1"


def test_no_secret_shows_in_the_source(endpoint: Endpoint) -> None:
    endpoint.grants(SECRET)
    tokens = source(endpoint)
    tokens.token()
    assert SECRET not in repr(tokens)
    assert SECRET not in str(tokens)
