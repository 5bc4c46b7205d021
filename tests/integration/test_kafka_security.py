"""One ``kafka:`` section connects both clients to a broker that asks for TLS and a password."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from devkit.embedded import EmbeddedKafka
from devkit.embedded.java import find_java
from retentiond.errors import KafkaUnavailable
from retentiond.kafka import connection, records
from retentiond.kafka.cluster import KafkaCluster
from retentiond.kafka.properties import translate
from tests.tokens import Endpoint, serving

pytestmark = pytest.mark.broker

PASSWORD = "correct horse battery staple"

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

KAFKAS_MODULES = "org.apache.kafka.common.security"


def keytool(*arguments: object) -> None:
    program = Path(find_java().path).resolve().with_name("keytool")
    subprocess.run([program, *map(str, arguments)], check=True, capture_output=True, timeout=60)


def make_certificate(folder: Path) -> None:
    """Leaves ``store.p12``, a broker's key, and ``ca.pem``, whom to trust."""
    store = ("-keystore", folder / "store.p12", "-storepass", PASSWORD, "-alias", "broker")
    keytool(
        *("-genkeypair", "-keyalg", "EC", "-dname", "CN=broker", "-validity", 2, *store),
        *("-ext", "bc:critical=ca:true", "-ext", "san=ip:127.0.0.1"),
    )
    keytool("-exportcert", "-rfc", "-file", folder / "ca.pem", *store)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificate")
    make_certificate(folder)
    return folder


@pytest.fixture(scope="module")
def secured(certificate: Path) -> Iterator[EmbeddedKafka]:
    client = "listener.name.client"
    users = f'username="x" password="x" user_retentiond="{PASSWORD}"'
    scram = [
        option
        for mechanism in MECHANISMS[1:]
        for option in ("--add-scram", f"{mechanism}=[name=retentiond,password={PASSWORD}]")
    ]
    config = {
        f"{client}.sasl.enabled.mechanisms": ",".join([*MECHANISMS, "OAUTHBEARER"]),
        f"{client}.plain.sasl.jaas.config": f"{KAFKAS_MODULES}.plain.PlainLoginModule required "
        f"{users};",
        f"{client}.oauthbearer.sasl.jaas.config": (
            f"{KAFKAS_MODULES}.oauthbearer.OAuthBearerLoginModule required "
            'unsecuredLoginStringClaim_sub="broker";'
        ),
        f"{client}.ssl.keystore.location": str(certificate / "store.p12"),
        f"{client}.ssl.keystore.type": "PKCS12",
        f"{client}.ssl.keystore.password": PASSWORD,
        f"{client}.ssl.key.password": PASSWORD,
    }
    for mechanism in MECHANISMS[1:]:
        config[f"{client}.{mechanism.lower()}.sasl.jaas.config"] = (
            f"{KAFKAS_MODULES}.scram.ScramLoginModule required;"
        )
    with EmbeddedKafka(security_protocol="SASL_SSL", config=config, format_options=scram) as kafka:
        yield kafka


def connect(kafka: EmbeddedKafka, certificate: Path, **sasl: str) -> KafkaCluster:
    section = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(certificate / "ca.pem"),
        **{f"sasl.{name.replace('_', '.')}": value for name, value in sasl.items()},
    }
    return KafkaCluster(translate(section), lambda *_: None)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_one_section_connects_both_clients(
    secured: EmbeddedKafka, certificate: Path, mechanism: str
) -> None:
    with closing(
        connect(secured, certificate, mechanism=mechanism, username="retentiond", password=PASSWORD)
    ) as kafka:
        assert kafka.topic_names() == frozenset()  # confluent-kafka
        assert kafka.cluster_id() == secured.cluster_id  # kafka-python
        assert kafka.list_groups() == []


def unsecured_token(principal: str) -> str:
    """A JSON Web Token without a signature, as a broker accepts it that was told no issuer."""
    parts = ({"alg": "none"}, {"sub": principal, "iat": 0, "exp": 4_000_000_000})
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in parts)
    return ".".join([*(part.rstrip("=") for part in encoded), ""])


def test_one_token_endpoint_connects_both_clients(
    secured: EmbeddedKafka, certificate: Path
) -> None:
    endpoint = Endpoint()
    endpoint.grants(unsecured_token("retentiond"), expires_in=3600)
    with serving(endpoint), closing(_by_token(secured, certificate, endpoint)) as kafka:
        assert kafka.topic_names() == frozenset()
        assert kafka.cluster_id() == secured.cluster_id


def _by_token(kafka: EmbeddedKafka, certificate: Path, endpoint: Endpoint) -> KafkaCluster:
    return connect(
        kafka,
        certificate,
        mechanism="OAUTHBEARER",
        oauthbearer_token_endpoint_url=endpoint.url,
        oauthbearer_client_id="retentiond",
        oauthbearer_client_secret=PASSWORD,
    )


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "CONNECT_TIMEOUT_MS", 1500)
    monkeypatch.setattr(records, "METADATA_TIMEOUT_S", 1.5)


@pytest.fixture
def output(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> Callable[[], str]:
    """What both clients have printed and logged, debugging included."""
    caplog.set_level("DEBUG")
    return lambda: "".join([*capfd.readouterr(), caplog.text])


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_password_is_one_sentence_without_it(
    secured: EmbeddedKafka, certificate: Path, mechanism: str, output: Callable[[], str]
) -> None:
    wrong = "wrong" + PASSWORD
    with closing(
        connect(secured, certificate, mechanism=mechanism, username="retentiond", password=wrong)
    ) as kafka:
        for call in (kafka.topic_names, kafka.cluster_id):
            with pytest.raises(KafkaUnavailable) as unavailable:
                call()
            message = str(unavailable.value)
            assert message.startswith(f"{secured.bootstrap_servers} can't be asked: ")
            assert message.endswith("the credentials")
            assert "\n" not in message
            assert wrong not in message
    assert wrong not in output()


@pytest.mark.usefixtures("impatient")
def test_a_broker_of_unknown_origin_is_not_trusted_by_either_client(
    secured: EmbeddedKafka, certificate: Path, tmp_path: Path
) -> None:
    make_certificate(tmp_path)
    with closing(
        connect(secured, tmp_path, mechanism="PLAIN", username="retentiond", password=PASSWORD)
    ) as kafka:
        for call in (kafka.topic_names, kafka.cluster_id):
            with pytest.raises(KafkaUnavailable):
                call()


@pytest.mark.usefixtures("impatient")
def test_a_token_endpoint_that_is_down_at_the_start_is_asked_again(
    secured: EmbeddedKafka, certificate: Path, output: Callable[[], str]
) -> None:
    endpoint = Endpoint()
    with serving(endpoint):
        endpoint.status = 503
        endpoint.grants(unsecured_token("retentiond"), expires_in=3600)
        with closing(_by_token(secured, certificate, endpoint)) as kafka:
            with pytest.raises(KafkaUnavailable):
                kafka.cluster_id()
            endpoint.status = 200
            assert kafka.cluster_id() == secured.cluster_id
            assert kafka.topic_names() == frozenset()
    assert PASSWORD not in output()
