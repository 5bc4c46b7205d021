"""One ``kafka:`` section for two clients.

Every property is translated for both confluent-kafka (librdkafka's names, which are the
names of the file) and kafka-python. A property that would reach only one of them is refused,
because half a configuration means two different principals or half a TLS set-up.
"""

from __future__ import annotations

import difflib
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from retentiond.errors import ConfigError
from retentiond.formatting import HOST_RULE, is_host
from retentiond.kafka.remedies import SettingNames
from retentiond.kafka.settings import logins

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
DNS_LOOKUPS = ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")
SERVER = re.compile(r"([A-Z_]+://)?([^\s:/\[\]]+|\[[0-9a-fA-F:.%\w]+\])(?::(\d{1,5}))?")


LAST_PORT = 65_535


def _mechanism(value: str) -> str:
    """Its name to both clients."""
    name = _one_of(*logins.SASL_MECHANISMS)(value)
    return logins.TOKEN_MECHANISM if name == logins.AWS_MECHANISM else name


def _one_of(*allowed: str) -> Callable[[str], str]:
    def convert(value: str) -> str:
        if value.upper() not in allowed:
            raise ValueError(f"one of {', '.join(allowed)}")
        return value.upper()

    return convert


def _lookup(value: str) -> str:
    if value not in DNS_LOOKUPS:
        raise ValueError(" or ".join(DNS_LOOKUPS))
    return value


def _servers(value: str) -> str:
    expected = "host:port, separated by commas"
    for server in map(str.strip, value.split(",")):
        if not (match := SERVER.fullmatch(server)):
            raise ValueError(expected)
        _, host, port = match.groups()
        if not (host.startswith("[") or is_host(host)):
            raise ValueError(f"{expected}, and {host!a} is no host's name: {HOST_RULE}")
        if port is not None and not 1 <= int(port) <= LAST_PORT:
            raise ValueError(f"{expected}, and a port is a number from 1 to {LAST_PORT}: {server}")
    return value


def _checks_hostname(value: str) -> bool:
    if value not in ("https", "none"):
        raise ValueError("https or none")
    return value == "https"


def _in_flight(value: str) -> int:
    if not value.isdecimal() or not 1 <= int(value) <= 1000:
        raise ValueError("a whole number from 1 to 1000")
    return int(value)


def _address_family(value: str) -> socket.AddressFamily:
    if value not in ADDRESS_FAMILIES:
        raise ValueError(f"one of {', '.join(ADDRESS_FAMILIES)}")
    return ADDRESS_FAMILIES[value]


@dataclass(frozen=True, slots=True)
class Property:
    """How a property of the file is called in kafka-python, and how its value is read."""

    kafka_python: str
    convert: Callable[[str], Any] = str


PROPERTIES: dict[str, Property] = {
    "bootstrap.servers": Property("bootstrap_servers", _servers),
    "client.id": Property("client_id"),
    "client.dns.lookup": Property("client_dns_lookup", _lookup),
    "security.protocol": Property("security_protocol", _one_of(*SECURITY_PROTOCOLS)),
    "ssl.ca.location": Property("ssl_cafile"),
    "ssl.certificate.location": Property("ssl_certfile"),
    "ssl.key.location": Property("ssl_keyfile"),
    "ssl.key.password": Property("ssl_password"),
    "ssl.crl.location": Property("ssl_crlfile"),
    "ssl.endpoint.identification.algorithm": Property("ssl_check_hostname", _checks_hostname),
    "sasl.mechanism": Property("sasl_mechanism", _mechanism),
    "sasl.mechanisms": Property("sasl_mechanism", _mechanism),
    "sasl.username": Property("sasl_plain_username"),
    "sasl.password": Property("sasl_plain_password"),
    "socket.timeout.ms": Property("request_timeout_ms", int),
    "reconnect.backoff.ms": Property("reconnect_backoff_ms", int),
    "reconnect.backoff.max.ms": Property("reconnect_backoff_max_ms", int),
    "connections.max.idle.ms": Property("connections_max_idle_ms", int),
    "metadata.max.age.ms": Property("metadata_max_age_ms", int),
}
"""Properties that reach both clients."""

SCRAM = "SCRAM-"
"""How the names of the mechanisms begin in which a user's name is escaped."""

MECHANISM_NAMES = frozenset({"sasl.mechanism", "sasl.mechanisms"})

CONFLUENT_ONLY = ("debug",)
"""The documented exception: it changes what librdkafka logs, not what it may see."""

ADDRESS_FAMILY = "broker.address.family"
"""Which of a name's addresses count. retentiond looks names up itself for kafka-python."""

ADDRESS_FAMILIES = {
    "any": socket.AF_UNSPEC,
    "v4": socket.AF_INET,
    "v6": socket.AF_INET6,
}

LIBRDKAFKAS = frozenset({*PROPERTIES, *CONFLUENT_ONLY, ADDRESS_FAMILY})
"""What librdkafka knows by the file's own names."""

MAX_IN_FLIGHT = "max_in_flight"
"""retentiond's own: how many requests may wait for one broker's answer at a time."""

USUAL_IN_FLIGHT = 8

READ: dict[str, Callable[[str], Any]] = {
    **{name: told.convert for name, told in PROPERTIES.items()},
    MAX_IN_FLIGHT: _in_flight,
    ADDRESS_FAMILY: _address_family,
}
"""How values are read that are not taken as they are."""

NAMES = (*PROPERTIES, MAX_IN_FLIGHT, ADDRESS_FAMILY, *logins.TOKEN_PROPERTIES, *CONFLUENT_ONLY)

CLIENT_ID = "retentiond"
"""How both clients call themselves, in the brokers' logs and for quotas, unless ``client.id`` says
otherwise."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Both clients' settings. They hold secrets, so neither shows in ``repr``."""

    confluent: Mapping[str, Any] = field(repr=False)
    kafka_python: Mapping[str, Any] = field(repr=False)
    oauth: Mapping[str, str] = field(repr=False)  # `token_settings`
    bootstrap_servers: str
    request_timeout_s: float
    words: SettingNames = field(default_factory=SettingNames)
    max_in_flight: int = USUAL_IN_FLIGHT
    address_family: socket.AddressFamily = socket.AF_UNSPEC


def translate(properties: Mapping[str, str]) -> ClientSettings:
    """The ``kafka:`` section for both clients. Raises `ConfigError` naming the property."""
    values = {name: _read(name, value) for name, value in properties.items()}
    confluent: dict[str, Any] = {
        name: value for name, value in properties.items() if name in LIBRDKAFKAS
    }
    if MAX_IN_FLIGHT in values:
        confluent["max.in.flight.requests.per.connection"] = values[MAX_IN_FLIGHT]
    kafka_python = {
        PROPERTIES[name].kafka_python: value for name, value in values.items() if name in PROPERTIES
    }
    logins.refuse_contradictions(properties)
    if (logins.mechanism_of(properties) or "").startswith(SCRAM):
        name = PROPERTIES["sasl.username"].kafka_python
        # As SCRAM sends it (RFC 5802, 5.1). librdkafka encodes it, kafka-python doesn't.
        kafka_python[name] = kafka_python[name].replace("=", "=3D").replace(",", "=2C")
    tokens = logins.token_settings(properties)
    if logins.mechanism_of(properties) == logins.AWS_MECHANISM:
        logins.require_signer()
        confluent |= dict.fromkeys(MECHANISM_NAMES & confluent.keys(), logins.TOKEN_MECHANISM)
    return ClientSettings(
        confluent=confluent,
        kafka_python=kafka_python,
        oauth=tokens,
        bootstrap_servers=properties["bootstrap.servers"],
        request_timeout_s=kafka_python.get("request_timeout_ms", 30_000) / 1000,
        words=logins.words_for(tokens),
        max_in_flight=values.get(MAX_IN_FLIGHT, USUAL_IN_FLIGHT),
        address_family=values.get(ADDRESS_FAMILY, socket.AF_UNSPEC),
    )


def refuse_wrong(properties: Mapping[str, str | None]) -> None:
    """Refuses a property that `translate` takes with no value, or not with this one. None: the
    value is not known. Raises `ConfigError` naming the property."""
    for name, value in properties.items():
        _read(name, value)


def _read(name: str, value: str | None) -> Any:
    """The property's value for kafka-python, or for retentiond; of any other the text."""
    if name not in NAMES:
        raise ConfigError(_unknown(name), path=f"kafka.{name}")
    if value is None or name not in READ:
        return value
    if name in MECHANISM_NAMES and value.upper() == logins.KERBEROS:
        raise ConfigError(logins.NO_KERBEROS, path=f"kafka.{name}")
    convert = READ[name]
    try:
        return convert(value)
    except ValueError as error:
        expected = "a whole number" if convert is int else str(error)
        # From nothing: Python's own error shows the value, and so would a traceback.
        raise ConfigError(f"expected {expected}", path=f"kafka.{name}") from None


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, NAMES, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    if name.startswith("sasl.kerberos."):
        hint = f"; {logins.NO_KERBEROS}"
    return (
        "expected a property that reaches both of retentiond's Kafka clients, as "
        f"docs/configuration.md lists them; this one would not reach both{hint}"
    )
