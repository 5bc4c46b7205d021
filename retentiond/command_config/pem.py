"""Kafka's TLS stores as PEM (KIP-651), for OpenSSL. Stores of other types can't be read."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping

from retentiond.errors import ConfigError

TRUST = ("ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.certificates")

KEYS = (
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
)

KEY_PASSWORD = "ssl.key.password"

PROPERTIES = (*TRUST, *KEYS, KEY_PASSWORD)

BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----([A-Za-z0-9+/=\s]+)(-----END \1-----)")

INLINE = {
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.key.pem": "ssl.keystore.key",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
}
"""librdkafka's properties for PEM that is no file, and Kafka's."""

Translated = tuple[dict[str, str], dict[str, str]]
"""Properties for both clients, and for librdkafka alone: kafka-python takes no PEM but in files."""


def stores(properties: Mapping[str, str]) -> Translated:
    """``properties``: those of `PROPERTIES` that are set. Raises `ConfigError` naming one."""
    both, inline = _trust_store(properties)
    more, more_inline = _key_store(properties)
    if KEY_PASSWORD in properties:
        more[KEY_PASSWORD] = properties[KEY_PASSWORD]
    return both | more, inline | more_inline


def _trust_store(properties: Mapping[str, str]) -> Translated:
    kind, location, certificates = TRUST
    _require_pem(properties, kind, (location, certificates))
    if location in properties and certificates in properties:
        raise ConfigError(f"set either this or {location}", path=certificates)
    if certificates in properties:
        return {}, {"ssl.ca.pem": _wrapped(properties, certificates)}
    return ({"ssl.ca.location": properties[location]} if location in properties else {}), {}


def _key_store(properties: Mapping[str, str]) -> Translated:
    kind, location, key, chain = KEYS
    _require_pem(properties, kind, (location, key, chain))
    if location in properties:
        for other in (key, chain):
            if other in properties:
                raise ConfigError(f"set either this or {location}", path=other)
        both = (properties[location], properties[location])  # one file with both in it
        return dict(zip(("ssl.certificate.location", "ssl.key.location"), both, strict=True)), {}
    if (key in properties) != (chain in properties):
        raise ConfigError(f"{key} and {chain} go together", path=key)
    if key in properties:
        return {}, {
            "ssl.key.pem": _wrapped(properties, key),
            "ssl.certificate.pem": _wrapped(properties, chain),
        }
    return {}, {}


def _require_pem(properties: Mapping[str, str], kind: str, parts: tuple[str, ...]) -> None:
    """Where Kafka is told no type, it takes a store for one of Java's own (JKS)."""
    named = properties.get(kind, "JKS")
    for part in parts:
        if part in properties and named.upper() != "PEM":
            raise ConfigError(
                f"a {named} store can't be read: write its contents as PEM "
                f"(keytool -importkeystore to PKCS12, then openssl pkcs12) and set {kind}=PEM",
                path=part,
            )
    if kind in properties and named.upper() != "PEM":
        raise ConfigError(f"expected PEM, not {named}", path=kind)


def _wrapped(properties: Mapping[str, str], name: str) -> str:
    """As OpenSSL reads PEM, which Kafka also takes when it stands in one line."""
    blocks = [
        "\n".join([f"-----BEGIN {what}-----", *textwrap.wrap("".join(body.split()), 64), end, ""])
        for what, body, end in BLOCK.findall(properties[name])
    ]
    if not blocks:
        raise ConfigError("expected PEM, as in -----BEGIN …----- … -----END …-----", path=name)
    return "".join(blocks)
