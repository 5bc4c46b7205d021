"""Connections that must not come about, and what is said of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from retentiond.kafka.remedies import ProblemKind
from tests.support.brokers.secured import WRONG_PASSWORD, Section, Secured, shows


@dataclass(frozen=True, slots=True)
class Refusal:
    """``looks_at``: the properties that the sentence names."""

    name: str
    section: Callable[[Secured], Section]
    kind: ProblemKind
    sentence: str
    looks_at: tuple[str, ...]

    def __str__(self) -> str:
        return self.name

    def assert_said(self, said: str, servers: str) -> None:
        """One sentence that names the broker, what is wrong, and what to look at."""
        assert said.startswith(f"{servers} can't be asked: {self.sentence}")
        assert "\n" not in said
        for name in self.looks_at:
            assert f"kafka.{name}" in said
        assert WRONG_PASSWORD not in said


REFUSALS = [
    Refusal(
        "wrong SCRAM-SHA-512 password",
        lambda secured: secured.login("SCRAM-SHA-512", WRONG_PASSWORD),
        ProblemKind.LOGIN_REFUSED,
        "it refuses the login (Authentication failed during authentication due to invalid "
        "credentials with SASL mechanism SCRAM-SHA-512); check ",
        ("sasl.username", "sasl.password", "sasl.mechanism"),
    ),
    Refusal(
        "wrong PLAIN password",
        lambda secured: secured.login("PLAIN", WRONG_PASSWORD),
        ProblemKind.LOGIN_REFUSED,
        "it refuses the login (Authentication failed: Invalid username or password); check ",
        ("sasl.username", "sasl.password", "sasl.mechanism"),
    ),
    Refusal(
        "expired",
        lambda secured: secured.tls("EXPIRED"),
        ProblemKind.EXPIRED,
        "its certificate has expired; renew it on the broker, or correct this host's clock",
        (),
    ),
    Refusal(
        "untrusted",
        lambda secured: secured.tls("TLS", ssl_ca_location=secured.other.certificate),
        ProblemKind.UNTRUSTED,
        "its certificate is not signed by an authority that is trusted here (",
        ("ssl.ca.location",),
    ),
    Refusal(
        "another host's",
        lambda secured: secured.tls("ELSEWHERE"),
        ProblemKind.WRONG_NAME,
        "its certificate is not made out to 127.0.0.1; use a name of the certificate in ",
        ("bootstrap.servers", "ssl.endpoint.identification.algorithm to none"),
    ),
    Refusal(
        "without the client's certificate",
        lambda secured: secured.tls("MTLS"),
        ProblemKind.CERTIFICATE_WANTED,
        "it wants a certificate of this client; set ",
        ("ssl.certificate.location", "ssl.key.location"),
    ),
    Refusal(
        "with a foreign client's certificate",
        lambda secured: secured.tls("MTLS", **shows(secured.foreign_client)),
        ProblemKind.REFUSED_CERTIFICATE,
        "it refuses this client's certificate (",
        ("ssl.certificate.location", "ssl.key.location"),
    ),
    Refusal(
        "a login where none is taken",
        lambda secured: {
            **secured.login("PLAIN"),
            "bootstrap.servers": secured.kafka.servers_of("TLS"),
        },
        ProblemKind.NO_LOGIN,
        "it takes no login; set ",
        ("security.protocol", "bootstrap.servers"),
    ),
]
