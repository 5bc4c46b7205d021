"""Tokens of a real authorization server, checked by a broker with the server's keys."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import pytest

from retentiond.errors import KafkaUnavailable
from retentiond.kafka import client as kafka_python_client
from retentiond.kafka.cluster import KafkaCluster
from retentiond.kafka.confluent import client
from retentiond.kafka.settings.command_config import read_settings
from retentiond.kafka.settings.oauth import TokenSource
from retentiond.kafka.settings.properties import translate
from tests.support.brokers.secured import KAFKAS_MODULES, Section, Secured
from tests.support.certificates import Authority
from tests.support.oauth_server import (
    AUDIENCE,
    CLIENT_ID,
    CLIENT_SECRET,
    OAuthServer,
)
from tests.support.tokens import Endpoint, serving
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker

LIFETIME_S = 15


@pytest.fixture
def section(secured: Secured, server: OAuthServer, authority: Authority) -> Section:
    prefix = "sasl.oauthbearer"
    return secured.by_sasl(
        "OAUTHBEARER",
        {
            f"{prefix}.token.endpoint.url": server.url,
            f"{prefix}.client.id": CLIENT_ID,
            f"{prefix}.client.secret": CLIENT_SECRET,
            f"{prefix}.scope": "kafka",
            f"{prefix}.audience": AUDIENCE,
            f"{prefix}.extensions": "logicalCluster=lkc-1,identityPoolId=pool-2",
            "https.ca.location": str(authority.certificate),
        },
    )


def test_both_clients_are_let_in_with_a_signed_token(section: Section, secured: Secured) -> None:
    secured.lets_in(translate(section))


def test_a_java_file_lets_both_in(
    section: Section, secured: Secured, authority: Authority, tmp_path: Path
) -> None:
    """Without an audience, for which Kafka's clients have no property."""
    file = tmp_path / "client.properties"
    escaped = CLIENT_SECRET.encode("unicode_escape").decode().replace("\\x", "\\u00")
    file.write_text(
        f"""security.protocol=SASL_SSL
ssl.truststore.type=PEM
ssl.truststore.location={secured.ours.certificate}
sasl.mechanism=OAUTHBEARER
sasl.oauthbearer.token.endpoint.url={section["sasl.oauthbearer.token.endpoint.url"]}
sasl.jaas.config={KAFKAS_MODULES}.oauthbearer.OAuthBearerLoginModule required \\
  clientId="{CLIENT_ID}" clientSecret="{escaped}" scope="kafka" extension_pool="p1" \\
  ssl.truststore.type="PEM" ssl.truststore.location="{authority.certificate}";
""",
        encoding="latin-1",
    )
    settings = read_settings(secured.kafka.bootstrap_servers, file)
    secured.lets_in(settings)


def test_a_token_for_another_audience_is_refused_in_one_sentence(
    section: Section, secured: Secured
) -> None:
    other = translate({**section, "sasl.oauthbearer.audience": "another-cluster"})
    with closing(KafkaCluster(other, lambda *_: None)) as kafka:
        for call in (kafka.topic_names, kafka.cluster_id):
            with pytest.raises(KafkaUnavailable, match="it refuses the login") as refused:
                call()
            assert "kafka.sasl.oauthbearer.client.id" in str(refused.value)


def test_what_the_server_says_itself_is_told_by_both_clients(section: Section) -> None:
    wrong = translate({**section, "sasl.oauthbearer.client.secret": "wrong-secret"})
    with closing(KafkaCluster(wrong, lambda *_: None)) as kafka:
        for call in (kafka.topic_names, kafka.cluster_id):
            with pytest.raises(KafkaUnavailable, match=r"gave no token .*: invalid_client") as why:
                call()
            assert "wrong-secret" not in str(why.value)
            assert str(why.value).endswith(
                "; check kafka.sasl.oauthbearer.client.id and "
                "kafka.sasl.oauthbearer.client.secret, and "
                "kafka.sasl.oauthbearer.token.endpoint.url"
            )


def test_an_endpoint_that_is_down_at_the_start_is_asked_again(
    section: Section, secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_python_client, "CONNECT_TIMEOUT_MS", 1500)
    monkeypatch.setattr(client, "METADATA_TIMEOUT_S", 1.5)
    endpoint = Endpoint()
    endpoint.grants(TokenSource(translate(section).oauth).token(), expires_in=3600)
    with serving(endpoint):
        endpoint.status = 503
        at = {**section, "sasl.oauthbearer.token.endpoint.url": endpoint.url}
        with closing(KafkaCluster(translate(at), lambda *_: None)) as kafka:
            with pytest.raises(KafkaUnavailable):
                kafka.cluster_id()
            endpoint.status = 200
            assert kafka.cluster_id() == secured.kafka.cluster_id
            assert "orders" in kafka.topic_names()


def test_a_token_in_a_file_serves_until_its_end_and_the_next_one_after(
    section: Section, secured: Secured, server: OAuthServer, tmp_path: Path
) -> None:
    """As a kubelet writes it: renewed by somebody else, while retentiond is at work."""
    file = tmp_path / "token"

    def renew(lifetime_s: int) -> None:
        server.tokens.lifetime_s = lifetime_s
        file.write_text(TokenSource(translate(section).oauth).token())

    renew(LIFETIME_S)
    ends_at = time.monotonic() + LIFETIME_S
    from_file = secured.by_sasl(
        "OAUTHBEARER", {"sasl.oauthbearer.token.endpoint.url": file.as_uri()}
    )
    with closing(KafkaCluster(translate(from_file), lambda *_: None)) as kafka:
        assert "orders" in kafka.topic_names()
        assert kafka.cluster_id() == secured.kafka.cluster_id
        renew(3600)
        eventually(lambda: time.monotonic() > ends_at)
        assert "orders" in kafka.topic_names()
        assert kafka.cluster_id() == secured.kafka.cluster_id
