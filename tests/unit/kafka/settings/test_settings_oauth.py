"""Tokens by the client credentials grant, from a token endpoint in this process."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, quote_plus, unquote_plus

import pytest

from retentiond.kafka.settings import oauth
from retentiond.kafka.settings.oauth import NoToken, TokenSource
from tests.support.certificates import Authority
from tests.support.tokens import Endpoint, dripping, serving, tunnelling

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
    asked = {"sasl.oauthbearer.scope": "kafka read", "sasl.oauthbearer.audience": "kafka"}
    assert source(endpoint, **asked).token() == "token-1"
    ((header, form),) = endpoint.requests
    encoded = SECRET.replace(" ", "%20")
    assert base64.b64decode(header.removeprefix("Basic ")).decode() == f"retentiond:{encoded}"
    assert form == {
        "grant_type": ["client_credentials"],
        "scope": ["kafka read"],
        "audience": ["kafka"],
    }


def test_the_clients_credentials_follow_no_redirection(endpoint: Endpoint) -> None:
    elsewhere = Endpoint()
    with serving(elsewhere):
        elsewhere.grants("token-of-a-stranger")
        endpoint.status, endpoint.location = 302, elsewhere.url
        source(endpoint).token()
    assert elsewhere.followed == [None]


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
    assert tokens.for_confluent("") == ("token-1", wall + 100, "", {})
    wall -= 7200
    since_boot += 30
    assert tokens.for_confluent("") == ("token-1", wall + 70, "", {})
    since_boot += 50
    endpoint.grants("token-2", expires_in=100)
    assert tokens.for_confluent("") == ("token-2", wall + 100, "", {})


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
        b'{"access_token": null}',
        b'{"access_token": ""}',
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


@pytest.mark.parametrize(
    ("status", "answer", "said"),
    [
        (401, {"error": "invalid_client"}, "it answered 401 Unauthorized: invalid_client"),
        (
            400,
            {"error": "invalid_scope", "error_description": "no\n scope  kafka", "more": 1},
            "it answered 400 Bad Request: invalid_scope (no scope kafka)",
        ),
        (
            200,
            {"error": "unauthorized_client", "error_description": "not this grant"},
            "the token endpoint's answer holds no access_token: "
            "unauthorized_client (not this grant)",
        ),
        (400, {"error": ["x"], "error_description": {}}, "it answered 400 Bad Request"),
        (400, {"error_description": "why"}, "it answered 400 Bad Request: why"),
        (400, ["invalid_client"], "it answered 400 Bad Request"),
    ],
)
def test_the_endpoint_s_own_error_is_told(
    endpoint: Endpoint, status: int, answer: object, said: str
) -> None:
    """RFC 6749, 5.2; a few endpoints answer so with 200."""
    endpoint.status, endpoint.answer = status, json.dumps(answer).encode()
    tokens = source(endpoint)
    with pytest.raises(NoToken) as refused:
        tokens.token()
    assert str(refused.value) == tokens.failure == said


@pytest.mark.parametrize("shown", [SECRET, quote(SECRET), quote_plus(SECRET)])
def test_a_secret_that_the_endpoint_repeats_is_not_told(endpoint: Endpoint, shown: str) -> None:
    endpoint.status = 401
    answer = {"error": "invalid_client", "error_description": f"wrong secret {shown} of x" * 99}
    endpoint.answer = json.dumps(answer).encode()
    with pytest.raises(NoToken, match=r"invalid_client \(wrong secret \*\*\* of x") as refused:
        source(endpoint).token()
    assert SECRET not in unquote_plus(str(refused.value))
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("more", [{}, {"expires_in": None}, {"expires_in": ""}])
def test_a_lifetime_is_optional(endpoint: Endpoint, more: dict[str, object]) -> None:
    """RFC 6749, 5.1; a token that is no riddle to others may say itself that it ends sooner."""
    for token, lasts_s in (
        ("opaque", oauth.DEFAULT_LIFETIME_S),
        (json_web_token(exp=time.time() + 20), 20),
        (json_web_token(exp=4e9), oauth.DEFAULT_LIFETIME_S),
    ):
        endpoint.grants(token, **more)
        found, expires_at, *_ = source(endpoint).for_confluent("")
        assert found == token
        assert expires_at == pytest.approx(time.time() + lasts_s, abs=5)


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


def credentials(endpoint: Endpoint) -> str:
    ((header, _),) = endpoint.requests
    return base64.b64decode(header.removeprefix("Basic ")).decode()


def test_id_and_secret_are_encoded_as_in_a_form(endpoint: Endpoint) -> None:
    """RFC 6749, 2.3.1: a colon or a per cent sign in them would be taken for another."""
    endpoint.grants("token-1")
    odd = {"sasl.oauthbearer.client.id": "a:b", "sasl.oauthbearer.client.secret": "ä%2B+/ &="}
    source(endpoint, **odd).token()
    assert credentials(endpoint) == "a%3Ab:%C3%A4%252B%2B%2F%20%26%3D"
    name, _, secret = credentials(endpoint).partition(":")
    assert (unquote_plus(name), unquote_plus(secret)) == ("a:b", "ä%2B+/ &=")


def test_they_are_left_as_they_are_for_an_endpoint_that_does_not_decode(
    endpoint: Endpoint,
) -> None:
    endpoint.grants("token-1")
    plain = {"sasl.oauthbearer.header.urlencode": "false"}
    source(endpoint, **plain).token()
    assert credentials(endpoint) == f"retentiond:{SECRET}"


def test_extensions_reach_both_clients(endpoint: Endpoint) -> None:
    endpoint.grants("token-1")
    tokens = source(endpoint, **{"sasl.oauthbearer.extensions": "logicalCluster=lkc-1,pool=p 2"})
    expected = {"logicalCluster": "lkc-1", "pool": "p 2"}
    assert tokens.extensions() == expected
    assert tokens.for_confluent("")[2:] == ("", expected)


def without_exceptions(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


def test_a_proxy_of_the_environment_is_asked(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the endpoint itself, which is told a whole address by those who take it for a proxy."""
    endpoint.grants("token-1")
    monkeypatch.setenv("HTTP_PROXY", endpoint.url.removesuffix("/token"))
    without_exceptions(monkeypatch)
    elsewhere = Endpoint()
    elsewhere.url = "http://idp.example/token"
    assert source(elsewhere).token() == "token-1"
    assert endpoint.asked_for == ["http://idp.example/token"]


def test_a_proxy_leads_to_an_endpoint_with_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, secure, asked = Authority(tmp_path), Endpoint(), list[str]()
    secure.grants("token-1")
    with serving(secure, authority.issue("idp")), tunnelling(asked) as port:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
        without_exceptions(monkeypatch)
        trusted = {"https.ca.location": str(authority.certificate)}
        assert source(secure, **trusted).token() == "token-1"
    place = secure.url.removeprefix("https://").removesuffix("/token")
    (line,) = asked
    assert line.startswith(f"CONNECT {place} ")


def test_a_host_that_needs_no_proxy_is_asked_itself(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint.grants("token-1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert source(endpoint).token() == "token-1"
    assert endpoint.asked_for == ["/token"]


def test_only_its_own_authority_is_trusted_where_one_is_named(
    tmp_path: Path, endpoint: Endpoint
) -> None:
    ours, other = Authority(tmp_path / "ours"), Authority(tmp_path / "other")
    secure = Endpoint()
    secure.grants("token-1")
    with serving(secure, ours.issue("idp")):
        ca = {"https.ca.location": str(ours.certificate)}
        assert source(secure, **ca).token() == "token-1"
        for others in ({"https.ca.location": str(other.certificate)}, {}):
            with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
                source(secure, **others).token()
    with pytest.raises(OSError, match=r"^https.ca.location can't be read: No such file"):
        source(secure, **{"https.ca.location": str(tmp_path / "nowhere")}).token()


def file_source(file: Path) -> TokenSource:
    return TokenSource({"sasl.oauthbearer.token.endpoint.url": f"file://{file}"})


def json_web_token(**claims: float) -> str:
    encoded = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{encoded}.c2ln"


def test_a_token_in_a_file_is_read_again_at_each_login(tmp_path: Path) -> None:
    file = tmp_path / "token"
    tokens = file_source(file)
    for renewed in ("token-1", "token-2"):
        file.write_text(f"{renewed}\n")
        assert tokens.token() == renewed
        assert tokens.for_confluent("")[0] == renewed


@pytest.mark.parametrize(
    ("token", "lasts_s"),
    [("opaque", 60), (json_web_token(exp=4e9), 60), (json_web_token(), 60)],
)
def test_librdkafka_reads_the_file_again_within_a_minute(
    tmp_path: Path, token: str, lasts_s: float
) -> None:
    (tmp_path / "token").write_text(token)
    _, expires_at, *_ = file_source(tmp_path / "token").for_confluent("")
    assert expires_at == pytest.approx(time.time() + lasts_s, abs=5)


def test_a_token_in_a_file_lasts_no_longer_than_it_says(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(json_web_token(exp=time.time() + 20))
    _, expires_at, *_ = file_source(tmp_path / "token").for_confluent("")
    assert expires_at == pytest.approx(time.time() + 20, abs=5)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "No such file or directory"),
        ("", "it holds no token"),
        ("two words", "it holds no token"),
        ("ünlaut", "it holds no token"),
        ("a\x01b", "it holds no token"),
        (json_web_token(exp=1), "its token has expired"),
    ],
)
def test_a_file_without_a_token_is_an_error(tmp_path: Path, content: str | None, why: str) -> None:
    if content is not None:
        (tmp_path / "token").write_text(content)
    tokens = file_source(tmp_path / "token")
    with pytest.raises(NoToken, match=f"^{why}$"):
        tokens.token()
    assert tokens.failure == why
