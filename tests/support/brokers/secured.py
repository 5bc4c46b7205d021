"""One broker that secures each listener in another way, with an authorizer behind all of them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from devkit.embedded import EmbeddedKafka, default_version, jars
from retentiond.kafka.cluster import KafkaCluster
from retentiond.kafka.settings.properties import ClientSettings
from tests.support.brokers.guarded import AUTHORIZER, ENOUGH
from tests.support.certificates import Authority, Issued
from tests.support.oauth_server import AUDIENCE, ISSUER, OAuthServer

PASSWORD = "correct horse battery staple"

WRONG_PASSWORD = "incorrect-donkey-9b1f"

USER = "retentiond"

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

KAFKAS_MODULES = "org.apache.kafka.common.security"

LISTENERS = {"TLS": "SSL", "MTLS": "SSL", "EXPIRED": "SSL", "ELSEWHERE": "SSL"}
"""Beside CLIENT, which asks for a login by any of the mechanisms in TLS. MTLS asks for a
certificate of the client; EXPIRED and ELSEWHERE show one that no client should accept."""

CHECKER = Path(__file__).parents[1] / "java" / "MskTokens.java"

VALIDATOR = f"{KAFKAS_MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"

AWS_KEY = {"id": "AKIDEXAMPLE", "secret": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}

REGION = "eu-west-1"

Section = dict[str, str]


class Secured:
    """The broker, who signs certificates, and ``kafka:`` sections that reach its listeners."""

    def __init__(self, kafka: EmbeddedKafka, ours: Authority, other: Authority) -> None:
        self.kafka = kafka
        self.ours, self.other = ours, other
        self.client = ours.issue(USER)
        self.foreign_client = other.issue(USER)

    def login(self, mechanism: str, password: str = PASSWORD, **more: object) -> Section:
        """CLIENT, with a user name and a password."""
        secrets = {"sasl.username": USER, "sasl.password": password}
        return self.by_sasl(mechanism, secrets, **more)

    def add_user(self, name: str, password: str) -> None:
        """For SCRAM-SHA-512, with all the rights that retentiond asks for."""
        user = UserScramCredentialUpsertion(
            name, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), password.encode()
        )
        admin = self.kafka.admin()
        for added in admin.alter_user_scram_credentials([user]).values():
            added.result(30)
        _grant(self.kafka, f"User:{name}")

    def by_sasl(self, mechanism: str, secrets: Mapping[str, str], **more: object) -> Section:
        servers = self.kafka.bootstrap_servers
        if mechanism == "AWS_MSK_IAM":
            servers = self.kafka.servers_of("MSK")
        sasl = {"sasl.mechanism": mechanism, **secrets}
        return self._section(servers, "SASL_SSL", {**sasl, **_dotted(more)})

    def tls(self, listener: str, **more: object) -> Section:
        """One of `LISTENERS`."""
        return self._section(self.kafka.servers_of(listener), "SSL", _dotted(more))

    def lets_in(self, settings: ClientSettings) -> None:
        """Both clients, as somebody whom the rights are granted that retentiond asks for."""
        with closing(KafkaCluster(settings, lambda *_: None)) as kafka:
            kafka.topic_names()  # confluent-kafka
            assert kafka.cluster_id() == self.kafka.cluster_id  # kafka-python
            assert kafka.coordinator_state().may_describe_cluster

    def _section(self, servers: str, protocol: str, more: Mapping[str, str]) -> Section:
        return {
            "bootstrap.servers": servers,
            "security.protocol": protocol,
            "ssl.ca.location": str(self.ours.certificate),
            **more,
        }


def shows(issued: Issued) -> dict[str, object]:
    """Properties of a client that has a certificate."""
    return {"ssl_certificate_location": issued.certificate, "ssl_key_location": issued.key}


def _dotted(properties: Mapping[str, object]) -> Section:
    return {name.replace("_", "."): str(value) for name, value in properties.items()}


def _store(listener: str, issued: Issued) -> Section:
    prefix = f"listener.name.{listener.lower()}.ssl.keystore"
    return {f"{prefix}.type": "PEM", f"{prefix}.location": str(issued.both)}


def _logins() -> Section:
    client = "listener.name.client"
    logins = {
        "plain": f'plain.PlainLoginModule required username="x" password="x" '
        f'user_{USER}="{PASSWORD}"',
        "oauthbearer": "oauthbearer.OAuthBearerLoginModule required "
        'unsecuredLoginStringClaim_sub="x"',
        "scram-sha-256": "scram.ScramLoginModule required",
        "scram-sha-512": "scram.ScramLoginModule required",
    }
    modules = {
        f"{client}.{mechanism}.sasl.jaas.config": f"{KAFKAS_MODULES}.{login};"
        for mechanism, login in logins.items()
    }
    return {f"{client}.sasl.enabled.mechanisms": ",".join([*MECHANISMS, "OAUTHBEARER"]), **modules}


@dataclass(frozen=True, slots=True)
class Tokens:
    """How a broker checks them: its properties and Java's, and classes and listeners for that."""

    config: Mapping[str, str] = field(default_factory=dict)
    java_options: Sequence[str] = ()
    classes: Path | None = None
    listeners: Mapping[str, str] = field(default_factory=dict)


def tokens_of(server: OAuthServer, folder: Path) -> Tokens:
    """CLIENT takes those of that server, for itself, and a connection ends with its token. MSK,
    where Java has a compiler, takes Amazon's: the checker is ours, what signs is Amazon's own."""
    keys = folder / "keys.json"
    keys.write_text(server.keys)
    handler = "oauthbearer.sasl.server.callback.handler.class"
    config = {
        f"listener.name.client.{handler}": VALIDATOR,
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "listener.name.client.oauthbearer.connections.max.reauth.ms": "3600000",
    }
    allowed = {"urls": keys.as_uri(), "files": str(keys)}
    options = [
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.{what}={each}"
        for what, each in allowed.items()
    ]
    compiler = shutil.which("javac")
    if compiler is None:
        return Tokens(config, options)
    classpath = jars.classpath(default_version(), "broker")
    subprocess.run([compiler, "-cp", classpath, "-d", folder, CHECKER], check=True)
    known = {**AWS_KEY, "region": REGION, "principal": USER}
    return Tokens(
        {
            **config,
            f"listener.name.msk.{handler}": CHECKER.stem,
            "listener.name.msk.sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.msk.oauthbearer.sasl.jaas.config": _logins()[
                "listener.name.client.oauthbearer.sasl.jaas.config"
            ],
        },
        [*options, *(f"-Dmsk.{name}={value}" for name, value in known.items())],
        folder,
        {"MSK": "SASL_SSL"},
    )


NO_TOKENS = Tokens()


@contextmanager
def secured_kafka(
    folder: Path, more: Mapping[str, str] | None = None, tokens: Tokens = NO_TOKENS
) -> Iterator[Secured]:
    """``more``: properties of the broker."""
    ours, other = Authority(folder / "ours"), Authority(folder / "other")
    broker = ours.issue("broker")
    config = {
        **AUTHORIZER,
        **_logins(),
        **_store("CLIENT", broker),
        **_store("TLS", broker),
        **_store("MTLS", broker),
        **_store("EXPIRED", ours.issue("expired", days=-1)),
        **_store("ELSEWHERE", ours.issue("elsewhere", "DNS:elsewhere.example")),
        "listener.name.mtls.ssl.client.auth": "required",
        "listener.name.mtls.ssl.truststore.type": "PEM",
        "listener.name.mtls.ssl.truststore.location": str(ours.certificate),
        **tokens.config,
        **(more or {}),
    }
    for listener in tokens.listeners:
        config |= _store(listener, broker)
    users = [
        option
        for mechanism in MECHANISMS[1:]
        for option in ("--add-scram", f"{mechanism}=[name={USER},password={PASSWORD}]")
    ]
    with EmbeddedKafka(
        security_protocol="SASL_SSL",
        further_listeners={**LISTENERS, **tokens.listeners},
        config=config,
        format_options=users,
        java_options=("-Xmx512m", *tokens.java_options),
        further_classes=tokens.classes,
    ) as kafka:
        _grant(kafka, f"User:{USER}", f"User:CN={USER}")
        yield Secured(kafka, ours, other)


def _grant(kafka: EmbeddedKafka, *principals: str) -> None:
    """What the documents ask for, to each of them."""
    rules = [_to(principal, rule) for principal in principals for rule in ENOUGH]
    admin = kafka.admin()
    for created in admin.create_acls(rules).values():
        created.result(30)


def _to(principal: str, rule: AclBinding) -> AclBinding:
    return AclBinding(
        rule.restype,
        rule.name,
        rule.resource_pattern_type,
        principal,
        rule.host,
        rule.operation,
        rule.permission_type,
    )
