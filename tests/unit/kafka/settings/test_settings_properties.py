"""One ``kafka:`` section reaches both clients, or is refused by name."""

from __future__ import annotations

import socket
import sys
import traceback
from collections.abc import Mapping

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from retentiond.errors import ConfigError
from retentiond.kafka.cluster_identity import ClusterIdentity
from retentiond.kafka.confluent.client import LibrdkafkaClient
from retentiond.kafka.settings.logins import AWS_VARIABLES, EXTENSIONS, OAUTH_PROPERTIES, URL_ENCODE
from retentiond.kafka.settings.properties import (
    CONFLUENT_ONLY,
    PROPERTIES,
    ClientSettings,
    translate,
)

SERVERS = {"bootstrap.servers": "broker-1:9092,broker-2:9092"}

SECRET = "correct horse battery staple"

PLAIN = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "retentiond",
    "sasl.password": SECRET,
}

OAUTH = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
    "sasl.oauthbearer.client.id": "retentiond",
    "sasl.oauthbearer.client.secret": SECRET,
}

TOKEN_FILE = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "file:///run/token",
}

AWS = {"security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM"}

SECTIONS: dict[str, tuple[dict[str, str], dict[str, object]]] = {
    "plaintext": ({"security.protocol": "PLAINTEXT"}, {"security_protocol": "PLAINTEXT"}),
    "ssl": (
        {
            "security.protocol": "SSL",
            "ssl.ca.location": "/etc/ca.pem",
            "ssl.certificate.location": "/etc/cert.pem",
            "ssl.key.location": "/etc/key.pem",
            "ssl.key.password": SECRET,
            "ssl.crl.location": "/etc/crl.pem",
            "ssl.endpoint.identification.algorithm": "none",
        },
        {
            "security_protocol": "SSL",
            "ssl_cafile": "/etc/ca.pem",
            "ssl_certfile": "/etc/cert.pem",
            "ssl_keyfile": "/etc/key.pem",
            "ssl_password": SECRET,
            "ssl_crlfile": "/etc/crl.pem",
            "ssl_check_hostname": False,
        },
    ),
    "plain": (
        PLAIN,
        {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": "retentiond",
            "sasl_plain_password": SECRET,
        },
    ),
    "scram": (
        PLAIN | {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"},
        {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_plain_username": "retentiond",
            "sasl_plain_password": SECRET,
        },
    ),
    "timeouts": (
        {"socket.timeout.ms": "2500", "reconnect.backoff.max.ms": "900"},
        {"request_timeout_ms": 2500, "reconnect_backoff_max_ms": 900},
    ),
}


def refusal(properties: Mapping[str, str]) -> ConfigError:
    with pytest.raises(ConfigError) as refused:
        translate(properties)
    assert SECRET not in str(refused.value)
    assert "\n" not in str(refused.value)
    return refused.value


@pytest.mark.parametrize("name", SECTIONS)
def test_every_property_of_a_section_reaches_both_clients(name: str) -> None:
    section, expected = SECTIONS[name]
    settings = translate(SERVERS | section)
    servers = SERVERS["bootstrap.servers"]
    assert settings.confluent == SERVERS | section
    assert settings.kafka_python == {"bootstrap_servers": servers, **expected}
    assert settings.oauth == {}


def test_oauth_reaches_neither_client_but_the_token_source_of_both() -> None:
    settings = translate(SERVERS | OAUTH)
    assert settings.oauth == {name: OAUTH[name] for name in OAUTH_PROPERTIES if name in OAUTH}
    assert not settings.confluent.keys() & set(OAUTH_PROPERTIES)
    assert settings.kafka_python["sasl_mechanism"] == "OAUTHBEARER"


@pytest.fixture
def no_region(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in AWS_VARIABLES:
        monkeypatch.delenv(name, raising=False)


MSK = "b-2.orders.x1y2z3.c2.kafka.eu-west-1.amazonaws.com:9098"

SERVERLESS = "boot-abc123.c1.kafka-serverless.us-gov-east-1.amazonaws.com:9098"


@pytest.mark.usefixtures("no_region")
@pytest.mark.parametrize(
    ("section", "region"),
    [
        ({"bootstrap.servers": MSK}, "eu-west-1"),
        ({"bootstrap.servers": SERVERLESS}, "us-gov-east-1"),
        ({"bootstrap.servers": MSK, "aws.region": "eu-central-1"}, "eu-central-1"),
    ],
)
def test_amazons_login_is_one_by_token_to_both_clients(
    section: dict[str, str], region: str
) -> None:
    settings = translate(section | AWS)
    assert settings.oauth == {"aws.region": region}
    assert settings.confluent["sasl.mechanism"] == "OAUTHBEARER"
    assert settings.kafka_python["sasl_mechanism"] == "OAUTHBEARER"
    assert settings.words.login == "the AWS credentials of this host"


def test_without_the_signer_amazons_login_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    refused = refusal(SERVERS | AWS | {"aws.region": "eu-west-1"})
    assert refused.message == "AWS_MSK_IAM is not installed; install retentiond[aws]"
    assert refused.path == "kafka.sasl.mechanism"


@pytest.mark.parametrize("name", ["sasl.mechanism", "sasl.mechanisms", "sasl.kerberos.principal"])
def test_kerberos_is_refused_with_what_there_is_instead(name: str) -> None:
    section = {"security.protocol": "SASL_SSL", name: "GSSAPI"}
    refused = refusal(SERVERS | section)
    assert refused.path == f"kafka.{name}"
    assert "can't log in by Kerberos (GSSAPI)" in refused.message
    assert "SCRAM, OAUTHBEARER or a certificate" in refused.message


def test_confluents_wheels_still_come_without_kerberos() -> None:
    """Which is what the sentence above says."""
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"}
    with pytest.raises(KafkaException, match="No provider for SASL mechanism GSSAPI"):
        AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": 0, **login})


@pytest.mark.parametrize("name", CONFLUENT_ONLY)
def test_a_documented_exception_reaches_librdkafka_alone(name: str) -> None:
    settings = translate(SERVERS | {name: "broker"})
    assert settings.confluent[name] == "broker"
    assert settings.kafka_python.keys() == {"bootstrap_servers"}


@pytest.mark.parametrize(
    ("value", "family"),
    [("any", socket.AF_UNSPEC), ("v4", socket.AF_INET), ("v6", socket.AF_INET6)],
)
def test_the_family_of_addresses_counts_for_both_clients(
    value: str, family: socket.AddressFamily
) -> None:
    settings = translate(SERVERS | {"broker.address.family": value})
    assert settings.confluent["broker.address.family"] == value
    assert settings.address_family == family
    AdminClient({**settings.confluent, "log_level": 0})


def test_kafka_python_knows_every_name_of_the_table() -> None:
    assert {each.kafka_python for each in PROPERTIES.values()} <= set(
        KafkaAdminClient.DEFAULT_CONFIG
    )


def test_librdkafka_knows_every_name_of_the_table() -> None:
    values = {
        "client.dns.lookup": "use_all_dns_ips",
        "security.protocol": "SSL",
        "ssl.endpoint.identification.algorithm": "none",
        "sasl.mechanism": "PLAIN",
        "sasl.mechanisms": "PLAIN",
    }
    numbers = {name for name in PROPERTIES if name.endswith(".ms")}
    files = {name for name in PROPERTIES if name.endswith(".location")}  # these would be read
    for name in PROPERTIES.keys() - files:
        value = values.get(name, "1000" if name in numbers else "text")
        AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": 0, name: value})


@pytest.mark.parametrize(
    "name", ["sasl.kerberos.service.name", "ssl.keystore.location", "ssl.ca.pem", "nonsense"]
)
def test_a_property_that_would_reach_one_client_only_is_refused_by_name(name: str) -> None:
    refused = refusal(SERVERS | {name: SECRET})
    assert refused.path == f"kafka.{name}"
    assert refused.message.startswith("expected a property that reaches both of ")
    assert "would not reach both" in refused.message


def test_a_misspelled_property_is_told_its_neighbour() -> None:
    assert "did you mean sasl.password?" in str(refusal(SERVERS | {"sasl.pasword": SECRET}))


@pytest.mark.parametrize(
    ("section", "path"),
    [
        ({"bootstrap.servers": "broker:port"}, "bootstrap.servers"),
        ({"bootstrap.servers": "broker-1:9092,,"}, "bootstrap.servers"),
        (SERVERS | {"client.dns.lookup": "some"}, "client.dns.lookup"),
        (SERVERS | {"broker.address.family": "ipv4"}, "broker.address.family"),
        (SERVERS | {"socket.timeout.ms": "1s"}, "socket.timeout.ms"),
        (SERVERS | {"security.protocol": "TLS"}, "security.protocol"),
        (SERVERS | {"ssl.endpoint.identification.algorithm": ""}, "ssl.endpoint.identif"),
        (SERVERS | PLAIN | {"sasl.mechanism": "GSSAPI"}, "sasl.mechanism"),
        (SERVERS | PLAIN | {"sasl.mechanisms": "PLAIN"}, "sasl.mechanism"),
        (SERVERS | PLAIN | {"security.protocol": "SSL"}, "security.protocol"),
        (SERVERS | {"security.protocol": "SASL_SSL"}, "sasl.mechanism"),
        (SERVERS | {k: v for k, v in PLAIN.items() if k != "sasl.username"}, "sasl.username"),
        (SERVERS | {k: v for k, v in PLAIN.items() if k != "sasl.password"}, "sasl.password"),
        (SERVERS | {k: v for k, v in OAUTH.items() if "secret" not in k}, "sasl.oauthbearer.clie"),
        (SERVERS | OAUTH | {OAUTH_PROPERTIES[0]: "idp/token"}, "sasl.oauthbearer.token.endpoint"),
        (SERVERS | PLAIN | {"https.ca.location": "/ca.pem"}, "https.ca.location"),
        (SERVERS | {"aws.region": "eu-west-1"}, "aws.region"),
        (SERVERS | OAUTH | {"aws.region": "eu-west-1"}, "aws.region"),
        (SERVERS | OAUTH | {URL_ENCODE: "yes"}, URL_ENCODE),
        (SERVERS | OAUTH | {EXTENSIONS: "no-letters=1"}, EXTENSIONS),
        (SERVERS | OAUTH | {EXTENSIONS: "auth=Bearer"}, EXTENSIONS),
        (
            SERVERS | OAUTH | {OAUTH_PROPERTIES[0]: "file:///run/token"},
            "sasl.oauthbearer.client.id",
        ),
        (SERVERS | TOKEN_FILE | {OAUTH_PROPERTIES[0]: "file://token"}, OAUTH_PROPERTIES[0]),
        (SERVERS | AWS | {"security.protocol": "SASL_PLAINTEXT"}, "security.protocol"),
        (SERVERS | AWS | {"aws.profile": "a", "aws.role.arn": "b"}, "aws.role.arn"),
        (SERVERS | AWS, "aws.region"),
    ],
)
@pytest.mark.usefixtures("no_region")
def test_a_value_that_cannot_work_is_refused_at_its_path(
    section: dict[str, str], path: str
) -> None:
    assert str(refusal(section).path).startswith(f"kafka.{path}")


@pytest.mark.parametrize(
    "section",
    [
        {"security.protocol": "SSL", "ssl.ca.location": "/nowhere/ca.pem"},
        {"socket.timeout.ms": "1"},
        PLAIN | {"ssl.key.location": "/dev/null", "ssl.key.password": SECRET},
    ],
)
def test_what_librdkafka_refuses_is_an_error_of_the_configuration(
    section: dict[str, str],
) -> None:
    with pytest.raises(ConfigError, match=r"^kafka: Kafka's client refuses this: ") as refused:
        LibrdkafkaClient(translate(SERVERS | section), ClusterIdentity(), lambda: None)
    assert SECRET not in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("section", [PLAIN, OAUTH, SECTIONS["ssl"][0]])
def test_no_secret_shows_in_the_settings(section: dict[str, str]) -> None:
    settings: ClientSettings = translate(SERVERS | section)
    assert SECRET not in repr(settings)
    assert SECRET not in str(settings)


def test_a_request_may_take_as_long_as_the_section_says() -> None:
    assert translate(SERVERS).request_timeout_s == 30
    assert translate(SERVERS | {"socket.timeout.ms": "1500"}).request_timeout_s == 1.5


@pytest.mark.parametrize("name", ["socket.timeout.ms", "security.protocol", "sasl.mechanism"])
def test_not_even_a_traceback_shows_a_value(name: str) -> None:
    refused = refusal(SERVERS | {name: SECRET})
    assert SECRET not in "".join(traceback.format_exception(refused))


def test_the_requests_in_flight_are_bounded_in_both_clients() -> None:
    settings = translate({"bootstrap.servers": "broker:9092", "max_in_flight": "3"})
    assert settings.max_in_flight == 3
    assert settings.confluent["max.in.flight.requests.per.connection"] == 3


@pytest.mark.parametrize("value", ["0", "-1", "1001", "2.5", "many", ""])
def test_a_bound_that_lets_nothing_or_everything_through_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match="from 1 to 1000") as caught:
        translate({"bootstrap.servers": "broker:9092", "max_in_flight": value})
    assert caught.value.path == "kafka.max_in_flight"


@pytest.mark.parametrize(
    ("server", "sentence"),
    [
        ("broker..example.com:9092", "'broker..example.com' is no host's name"),
        (
            f"{'b' * 64}.example.com:9092",
            "is no host's name: each part between two dots has 1 to 63",
        ),
        (".example.com", "'.example.com' is no host's name"),
        ("good:9092,b\u00fcro..net:9092", "is no host's name"),
        (".".join(["part"] * 60), "and the whole has 253 at most"),
        ("\u0000:9092", "is no host's name"),
        ("\ud800:9092", "is no host's name"),
        ("broker:0", "a port is a number from 1 to 65535: broker:0"),
        ("broker:70000", "a port is a number from 1 to 65535: broker:70000"),
    ],
)
def test_a_server_that_no_resolver_can_be_asked_about_is_refused(
    server: str, sentence: str
) -> None:
    """Python encodes a name before it asks, and raises an error that is none of the network's."""
    with pytest.raises(ConfigError) as refused:
        translate({"bootstrap.servers": server})
    assert str(refused.value).startswith("kafka.bootstrap.servers: expected host:port, separated")
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    "server",
    [
        "broker.example.com.:9092",
        f"{'b' * 63}.net",
        "b\u00fcro.example:1",
        "10.0.0.1:65535",
        "[::1]:1",
    ],
)
def test_a_name_with_a_dot_at_its_end_a_letter_of_any_script_and_an_address_are_taken(
    server: str,
) -> None:
    assert translate({"bootstrap.servers": server}).bootstrap_servers == server
