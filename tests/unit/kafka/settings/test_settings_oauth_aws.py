"""Tokens for Amazon MSK, signed by AWS's own signer with credentials as its clients find them."""

from __future__ import annotations

import base64
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from retentiond.kafka.settings.oauth import NoToken, TokenSource

ID, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"

REGION = {"aws.region": "eu-west-1"}


@pytest.fixture(autouse=True)
def nothing_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither this host's configuration nor the address at which Amazon's hosts find theirs."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


def query_of(token: str) -> dict[str, str]:
    """What the signed address says."""
    address = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    assert (address.scheme, address.netloc) == ("https", "kafka.eu-west-1.amazonaws.com")
    return {name: value for name, (value,) in parse_qs(address.query).items()}


@pytest.mark.usefixtures("credentials")
def test_a_token_is_signed_for_the_region() -> None:
    query = query_of(TokenSource(REGION).token())
    assert query["Action"] == "kafka-cluster:Connect"
    assert query["X-Amz-Credential"].startswith(f"{ID}/")
    assert query["X-Amz-Credential"].endswith("/eu-west-1/kafka-cluster/aws4_request")
    assert SECRET not in str(query)


@pytest.mark.usefixtures("credentials")
def test_one_token_serves_both_clients_for_a_quarter_of_an_hour() -> None:
    tokens = TokenSource(REGION)
    token, expires_at, *_ = tokens.for_confluent("")
    assert token == tokens.token()
    assert 800 < expires_at - time.time() <= 900


def test_a_profile_may_have_the_credentials(tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text(
        f"[readers]\naws_access_key_id = {ID}\naws_secret_access_key = {SECRET}\n"
    )
    query = query_of(TokenSource({**REGION, "aws.profile": "readers"}).token())
    assert query["X-Amz-Credential"].startswith(f"{ID}/")


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (REGION, "^no AWS credentials are found$"),
        ({**REGION, "aws.profile": "nobody"}, "nobody"),
    ],
)
def test_without_credentials_there_is_no_token_and_a_sentence(
    settings: dict[str, str], why: str
) -> None:
    with pytest.raises(NoToken, match=why):
        TokenSource(settings).token()
