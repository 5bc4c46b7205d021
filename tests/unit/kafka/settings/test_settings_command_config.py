"""An AdminClient's Java properties, for librdkafka and kafka-python: nothing is lost unnoticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from retentiond.errors import ConfigError
from retentiond.kafka.settings.command_config import read_settings
from retentiond.kafka.settings.properties import ClientSettings

SERVERS = "broker:9092"

SECRET = "open sesame"

PLAIN = (
    "sasl.mechanism=PLAIN\n"
    "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\\n"
    f'    username="ada" \\\n    password="{SECRET}";\n'
)

SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"

BODY = "QUJD" * 40

ONE_LINE_PEM = f"-----BEGIN CERTIFICATE----- {BODY} -----END CERTIFICATE-----"


def read(tmp_path: Path, text: str) -> ClientSettings:
    file = tmp_path / "client.properties"
    file.write_text(text, encoding="latin-1")
    return read_settings(SERVERS, file)


def refusal(tmp_path: Path, text: str) -> str:
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, text)
    sentence = str(refused.value)
    assert sentence.startswith(f"{tmp_path / 'client.properties'}: ")
    assert "\n" not in sentence
    return sentence.removeprefix(f"{tmp_path / 'client.properties'}: ")


def test_without_a_file_the_servers_are_spoken_to_as_by_kafkas_default() -> None:
    settings = read_settings(SERVERS, None)
    assert settings.confluent == {"bootstrap.servers": SERVERS, "security.protocol": "PLAINTEXT"}
    assert settings.request_timeout_s == 30


def test_the_servers_of_the_command_line_count(tmp_path: Path) -> None:
    assert read(tmp_path, "bootstrap.servers=other:9092\n").bootstrap_servers == SERVERS


def test_wrong_servers_are_named_by_their_option() -> None:
    with pytest.raises(ConfigError, match=r"^--bootstrap-server: expected host:port"):
        read_settings("a b:9092", None)


def test_plain_over_tls(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        "security.protocol=SASL_SSL\n"
        + PLAIN
        + "ssl.truststore.type=PEM\nssl.truststore.location=/etc/ca.pem\n"
        + "ssl.endpoint.identification.algorithm=\n",
    )
    assert settings.confluent == {
        "bootstrap.servers": SERVERS,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "ada",
        "sasl.password": SECRET,
        "ssl.ca.location": "/etc/ca.pem",
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert settings.kafka_python["sasl_plain_password"] == SECRET
    assert settings.kafka_python["ssl_check_hostname"] is False
    assert SECRET not in repr(settings)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram(tmp_path: Path, mechanism: str) -> None:
    settings = read(
        tmp_path,
        f"security.protocol: SASL_PLAINTEXT\nsasl.mechanism: {mechanism}\n"
        f"sasl.jaas.config: {SCRAM_MODULE} required password='a\\\\\"b' username=ada;\n",
    )
    assert settings.confluent["sasl.mechanism"] == mechanism
    assert settings.confluent["sasl.username"] == "ada"
    assert settings.confluent["sasl.password"] == 'a"b'


def test_without_a_sasl_protocol_a_login_is_passed_over_as_kafka_does(tmp_path: Path) -> None:
    settings = read(tmp_path, PLAIN)
    assert settings.confluent == {"bootstrap.servers": SERVERS, "security.protocol": "PLAINTEXT"}


def test_a_key_store_in_one_file_gives_key_and_certificate(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        "security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location=/etc/me.pem\n"
        f"ssl.key.password={SECRET}\n",
    )
    assert settings.confluent["ssl.certificate.location"] == "/etc/me.pem"
    assert settings.confluent["ssl.key.location"] == "/etc/me.pem"
    assert settings.confluent["ssl.key.password"] == SECRET


def test_pem_in_the_properties_themselves_is_wrapped_as_openssl_wants_it(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        "security.protocol=SSL\nssl.truststore.type=PEM\n"
        f"ssl.truststore.certificates={ONE_LINE_PEM} {ONE_LINE_PEM}\n"
        "ssl.keystore.type=PEM\n"
        f"ssl.keystore.certificate.chain={ONE_LINE_PEM}\n"
        f"ssl.keystore.key={ONE_LINE_PEM.replace('CERTIFICATE', 'PRIVATE KEY')}\n",
    )
    lines = [BODY[:64], BODY[64:128], BODY[128:]]
    certificate = "\n".join(
        ["-----BEGIN CERTIFICATE-----", *lines, "-----END CERTIFICATE-----", ""]
    )
    assert settings.confluent["ssl.ca.pem"] == certificate * 2
    assert settings.confluent["ssl.certificate.pem"] == certificate
    assert settings.confluent["ssl.key.pem"] == certificate.replace("CERTIFICATE", "PRIVATE KEY")
    assert not any(BODY[:10] in str(value) for value in settings.kafka_python.values())


def test_the_shorter_of_kafkas_two_timeouts_counts(tmp_path: Path) -> None:
    settings = read(tmp_path, "request.timeout.ms=20000\ndefault.api.timeout.ms = 7000\n")
    assert settings.request_timeout_s == 7
    assert settings.confluent["socket.timeout.ms"] == "7000"


def test_what_tunes_the_connection_is_handed_on(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        "client.id=me\nretry.backoff.ms=50\nsend.buffer.bytes=65536\nmetadata.max.age.ms=9000\n",
    )
    assert settings.confluent["client.id"] == "me"
    assert settings.confluent["retry.backoff.ms"] == "50"
    assert settings.confluent["socket.send.buffer.bytes"] == "65536"
    assert settings.kafka_python["metadata_max_age_ms"] == 9000


SASL = "security.protocol=SASL_SSL\n"

JAAS = SASL + "sasl.mechanism=PLAIN\nsasl.jaas.config="

OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"

OAUTH_JAAS = f"{SASL}sasl.mechanism=OAUTHBEARER\nsasl.jaas.config={OAUTH_MODULE} required"

AWS = """security.protocol=SASL_SSL
sasl.mechanism=AWS_MSK_IAM
sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required awsProfileName=\'readers\';
sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler
"""

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("acks=all", "acks: this property can't be translated"),
        ("sasl.kerberos.service.name=kafka", "sasl.kerberos.service.name: this property can't"),
        ("ssl.engine.factory.class=x", "ssl.engine.factory.class: this property can't"),
        ("ssl.truststore.location=/x.jks", "ssl.truststore.location: a JKS store can't be read"),
        (
            "ssl.truststore.location=/x.p12\nssl.truststore.type=PKCS12",
            "ssl.truststore.location: a PKCS12 store can't be read",
        ),
        ("ssl.truststore.type=JKS", "ssl.truststore.type: expected PEM, not JKS"),
        ("ssl.keystore.location=/x.jks", "ssl.keystore.location: a JKS store can't be read"),
        ("ssl.keystore.key=x", "ssl.keystore.key: a JKS store can't be read"),
        (
            "ssl.truststore.type=PEM\nssl.truststore.location=/x\nssl.truststore.password=secret",
            "ssl.truststore.password: PEM files have no store password",
        ),
        (
            "ssl.truststore.type=PEM\nssl.truststore.location=/x\nssl.truststore.certificates=y",
            "ssl.truststore.certificates: set either this or ssl.truststore.location",
        ),
        (
            "ssl.truststore.type=PEM\nssl.truststore.certificates=secret",
            "ssl.truststore.certificates: expected PEM",
        ),
        (
            f"ssl.keystore.type=PEM\nssl.keystore.certificate.chain={ONE_LINE_PEM}",
            "ssl.keystore.key: ssl.keystore.key and ssl.keystore.certificate.chain go together",
        ),
        ("ssl.endpoint.identification.algorithm=x", "ssl.endpoint.identification.algorithm: expec"),
        ("security.protocol=TLS", "security.protocol: expected one of PLAINTEXT, SSL"),
        (
            SASL,
            "sasl.mechanism: expected one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, "
            "AWS_MSK_IAM, not GSSAPI; retentiond can't log in by Kerberos (GSSAPI): ",
        ),
        (SASL + "sasl.mechanism=OAUTHBEARER", "sasl.jaas.config: OAUTHBEARER needs it"),
        (OAUTH_JAAS + ";", "sasl.oauthbearer.token.endpoint.url: OAUTHBEARER needs it"),
        (
            OAUTH_JAAS + " oauth.audience=x;",
            "sasl.jaas.config: the login module's option oauth.audience can't be translated",
        ),
        (
            OAUTH_JAAS + " ssl.truststore.location='/etc/idp.jks';",
            "sasl.jaas.config: its trust store must be PEM",
        ),
        (
            "sasl.login.callback.handler.class=com.acme.Login\n" + OAUTH_JAAS + ";",
            "sasl.login.callback.handler.class: this class can't be translated",
        ),
        (SASL + "sasl.mechanism=PLAIN", "sasl.jaas.config: PLAIN needs it"),
        (JAAS + "secret", "sasl.jaas.config: expected MODULE required"),
        (JAAS + "com.acme.Login required username=a;", "sasl.jaas.config: the login module com.ac"),
        (JAAS + f"{PLAIN_MODULE} optional username=a;", "sasl.jaas.config: expected the word requ"),
        (JAAS + f"{PLAIN_MODULE} required username=a;", "sasl.jaas.config: the login module needs"),
        (
            JAAS + f"{PLAIN_MODULE} required username=a password=secret x=y;",
            "sasl.jaas.config: the login module's option x can't be translated",
        ),
        (
            JAAS + f'{PLAIN_MODULE} required username="a password=secret;',
            "sasl.jaas.config: a quotation mark is not closed",
        ),
        (
            JAAS + f"{PLAIN_MODULE} required username=a password=secret; {PLAIN_MODULE} required;",
            "sasl.jaas.config: expected options",
        ),
        (
            JAAS + f"{SCRAM_MODULE} required username=a password=secret;",
            "sasl.jaas.config: its login module is none for PLAIN",
        ),
        ("request.timeout.ms=soon", "request.timeout.ms: expected milliseconds"),
        ("request.timeout.ms=0", "request.timeout.ms: expected milliseconds"),
        ("metadata.max.age.ms=long", "metadata.max.age.ms: expected a whole number"),
        (r"client.id=\u12", "client.id: expected four hexadecimal digits"),
    ],
)
def test_what_cant_be_translated_is_an_error_that_names_the_key_and_no_secret(
    tmp_path: Path, text: str, message: str
) -> None:
    sentence = refusal(tmp_path, text)
    assert sentence.startswith(message)
    assert "secret" not in sentence


def test_kafkas_token_login(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        "sasl.oauthbearer.token.endpoint.url=https://idp/token\n"
        "sasl.login.callback.handler.class=org.apache.kafka.common.security.oauthbearer."
        "OAuthBearerLoginCallbackHandler\n"
        f"{OAUTH_JAAS} clientId=ada clientSecret='{SECRET}' scope='a b' extension_cluster=lkc "
        "extension_pool=p1 ssl.truststore.type=PEM ssl.truststore.location='/etc/idp.pem';",
    )
    assert settings.oauth == {
        "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
        "sasl.oauthbearer.client.id": "ada",
        "sasl.oauthbearer.client.secret": SECRET,
        "sasl.oauthbearer.scope": "a b",
        "sasl.oauthbearer.extensions": "cluster=lkc,pool=p1",
        "https.ca.location": "/etc/idp.pem",
    }
    assert settings.confluent["sasl.mechanism"] == "OAUTHBEARER"
    assert SECRET not in repr(settings)


def test_the_token_login_of_kafka_4_1(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        "sasl.oauthbearer.token.endpoint.url=https://idp/token\n"
        "sasl.oauthbearer.client.credentials.client.id=ada\n"
        f"sasl.oauthbearer.client.credentials.client.secret={SECRET}\n"
        f"sasl.oauthbearer.scope=kafka\nsasl.oauthbearer.header.urlencode=false\n{OAUTH_JAAS};",
    )
    assert settings.oauth == {
        "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
        "sasl.oauthbearer.client.id": "ada",
        "sasl.oauthbearer.client.secret": SECRET,
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.header.urlencode": "false",
    }


def test_a_token_that_somebody_else_renews_in_a_file(tmp_path: Path) -> None:
    settings = read(
        tmp_path, f"sasl.oauthbearer.token.endpoint.url=file:///run/token\n{OAUTH_JAAS};"
    )
    assert settings.oauth == {"sasl.oauthbearer.token.endpoint.url": "file:///run/token"}
    assert settings.words.token_from == "the token file"


def test_amazons_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    settings = read(tmp_path, AWS)
    assert settings.oauth == {"aws.region": "eu-west-1", "aws.profile": "readers"}
    assert settings.confluent["sasl.mechanism"] == "OAUTHBEARER"
    assert settings.kafka_python["sasl_mechanism"] == "OAUTHBEARER"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere: can't be read \(No such file"):
        read_settings(SERVERS, tmp_path / "nowhere")
