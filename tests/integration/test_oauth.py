"""Tokens of a real authorization server, checked by a broker with the server's keys."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from retentiond.errors import KafkaUnavailable
from retentiond.kafka.cluster import KafkaCluster
from retentiond.kafka.settings.command_config import read_settings
from retentiond.kafka.settings.oauth import TokenSource
from retentiond.kafka.settings.properties import translate
from tests.support.brokers.secured import KAFKAS_MODULES, Section, Secured, secured_kafka
from tests.support.certificates import Authority, Issued
from tests.support.oauth_server import (
    AUDIENCE,
    CLIENT_ID,
    CLIENT_SECRET,
    ISSUER,
    OAuthServer,
    oauth_server,
)
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker

VALIDATOR = f"{KAFKAS_MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"

LIFETIME_S = 15


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Who signs the server's certificate, and nobody else's."""
    return Authority(tmp_path_factory.mktemp("idp"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Iterator[OAuthServer]:
    certificate: Issued = authority.issue("idp")
    with oauth_server(certificate) as made:
        yield made


@pytest.fixture(scope="module")
def secured(server: OAuthServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Takes tokens of that server, for itself; a connection ends with its token."""
    folder = tmp_path_factory.mktemp("secured")
    keys = folder / "keys.json"
    keys.write_text(server.keys)
    checks = {
        "listener.name.client.oauthbearer.sasl.server.callback.handler.class": VALIDATOR,
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "listener.name.client.oauthbearer.connections.max.reauth.ms": "3600000",
    }
    allowed = [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.{what}=" for what in ("urls", "files")]
    with secured_kafka(
        folder, checks, java_options=(allowed[0] + keys.as_uri(), allowed[1] + str(keys))
    ) as made:
        yield made


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


def test_an_authority_that_did_not_sign_the_servers_certificate_is_named(
    section: Section, secured: Secured
) -> None:
    wrong = translate({**section, "https.ca.location": str(secured.ours.certificate)})
    with closing(KafkaCluster(wrong, lambda *_: None)) as kafka:
        for call in (kafka.topic_names, kafka.cluster_id):
            with pytest.raises(KafkaUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
                call()


def test_what_the_server_says_itself_is_told_by_both_clients(section: Section) -> None:
    wrong = translate({**section, "sasl.oauthbearer.client.secret": "wrong-secret"})
    with closing(KafkaCluster(wrong, lambda *_: None)) as kafka:
        for call in (kafka.topic_names, kafka.cluster_id):
            with pytest.raises(KafkaUnavailable, match=r"gave no token .*: invalid_client") as why:
                call()
            assert "wrong-secret" not in str(why.value)


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
        assert kafka.topic_names() == frozenset()
        assert kafka.cluster_id() == secured.kafka.cluster_id
        renew(3600)
        eventually(lambda: time.monotonic() > ends_at)
        assert kafka.topic_names() == frozenset()
        assert kafka.cluster_id() == secured.kafka.cluster_id
