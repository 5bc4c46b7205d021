"""The TLS settings as Python's ``ssl`` takes them, Kafka's PEM stores (KIP-651), and when the
clients' certificate expires."""

from __future__ import annotations

import os
import re
import ssl
import textwrap
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from retentiond.errors import ConfigError
from retentiond.kafka.settings.properties import ClientSettings

INLINE_TRUST, INLINE_KEY, INLINE_CERTIFICATE = "ssl.ca.pem", "ssl.key.pem", "ssl.certificate.pem"
"""librdkafka's properties for PEM that is no file."""


def speaks_tls(settings: ClientSettings) -> bool:
    return str(settings.kafka_python.get("security_protocol", "")).endswith("SSL")


class NoPassPhrase(OSError):
    """The client's key has a pass phrase, and the settings have none."""


class WrongPassPhrase(OSError):
    """The pass phrase of the settings is not the key's."""


CERTIFICATE_FILE = "ssl.certificate.location"

CERTIFICATE_FILES = (
    "ssl.ca.location",
    CERTIFICATE_FILE,
    "ssl.key.location",
    "ssl.crl.location",
)

FileStamps = tuple[tuple[int, int, int] | None, ...]


def file_stamps(settings: ClientSettings) -> FileStamps:
    """Stamps of the files that the settings name; they change when a file is renewed."""
    paths = [settings.confluent[name] for name in CERTIFICATE_FILES if name in settings.confluent]
    return tuple(map(_stamp, paths))


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def client_context(settings: ClientSettings) -> ssl.SSLContext:
    """A context like kafka-python's own, which reads the files for each connection, fails on
    a revocation list, and takes PEM only in files.

    Raises ``OSError`` for a file that can't be used; of the above, where it is the pass phrase.
    """
    options = settings.kafka_python
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = options.get("ssl_check_hostname", True)
    if INLINE_TRUST in settings.confluent:
        context.load_verify_locations(cadata=settings.confluent[INLINE_TRUST])
    elif "ssl_cafile" in options:
        context.load_verify_locations(options["ssl_cafile"])
    else:
        context.load_default_certs()
    if "ssl_crlfile" in options:
        context.load_verify_locations(options["ssl_crlfile"])
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    phrase = options.get("ssl_password", "")
    if INLINE_CERTIFICATE in settings.confluent:
        _load_inline(context, settings, phrase)
    elif "ssl_certfile" in options:
        _load_pair(context, options["ssl_certfile"], options.get("ssl_keyfile"), phrase)
    return context


def _load_inline(context: ssl.SSLContext, settings: ClientSettings, phrase: str) -> None:
    """Python reads a certificate and its key from files alone: this one is in memory."""
    pem = settings.confluent[INLINE_KEY] + settings.confluent[INLINE_CERTIFICATE]
    with open(os.memfd_create("retentiond-pem"), "w", encoding="ascii") as file:
        file.write(pem)
        file.flush()
        _load_pair(context, f"/proc/self/fd/{file.fileno()}", None, phrase)


def _load_pair(context: ssl.SSLContext, certificate: str, key: str | None, phrase: str) -> None:
    """Without a callback OpenSSL would ask for the pass phrase on the terminal."""
    was_asked = False

    def tell() -> str:
        nonlocal was_asked
        was_asked = True
        return phrase

    try:
        context.load_cert_chain(certificate, key, tell)
    except (ssl.SSLError, ValueError) as error:  # ValueError: longer than OpenSSL takes
        if not was_asked or getattr(error, "reason", None) == PAIR_MISMATCH:
            raise
        raise (WrongPassPhrase if phrase else NoPassPhrase) from error


PAIR_MISMATCH = "KEY_VALUES_MISMATCH"
"""OpenSSL's reason where a certificate and a key don't belong together."""


TRUST_PROPERTIES = ("ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.certificates")

KEY_PROPERTIES = (
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
)

KEY_PASSWORD = "ssl.key.password"

PROPERTIES = (*TRUST_PROPERTIES, *KEY_PROPERTIES, KEY_PASSWORD)

PEM_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----([A-Za-z0-9+/=\s]+)(-----END \1-----)")

INLINE = {
    INLINE_TRUST: "ssl.truststore.certificates",
    INLINE_KEY: "ssl.keystore.key",
    INLINE_CERTIFICATE: "ssl.keystore.certificate.chain",
}
"""librdkafka's properties for PEM that is no file, and Kafka's."""

Translated = tuple[dict[str, str], dict[str, str]]
"""Properties for both clients, and PEM by librdkafka's names, which `client_context` reads too."""


def stores(properties: Mapping[str, str]) -> Translated:
    """``properties``: those of `PROPERTIES` that are set. Raises `ConfigError` naming one."""
    both, inline = _trust_store(properties)
    more, more_inline = _key_store(properties)
    if KEY_PASSWORD in properties:
        more[KEY_PASSWORD] = properties[KEY_PASSWORD]
    return both | more, inline | more_inline


def _trust_store(properties: Mapping[str, str]) -> Translated:
    kind, location, certificates = TRUST_PROPERTIES
    _require_pem(properties, kind, (location, certificates))
    if location in properties and certificates in properties:
        raise ConfigError(f"set either this or {location}", path=certificates)
    if certificates in properties:
        return {}, {INLINE_TRUST: _wrapped(properties, certificates)}
    return ({"ssl.ca.location": properties[location]} if location in properties else {}), {}


def _key_store(properties: Mapping[str, str]) -> Translated:
    kind, location, key, chain = KEY_PROPERTIES
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
            INLINE_KEY: _wrapped(properties, key),
            INLINE_CERTIFICATE: _wrapped(properties, chain),
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
    """PEM in the lines that OpenSSL needs; Kafka also takes it in one line."""
    blocks = [
        "\n".join([f"-----BEGIN {what}-----", *textwrap.wrap("".join(body.split()), 64), end, ""])
        for what, body, end in PEM_BLOCK.findall(properties[name])
    ]
    if not blocks:
        raise ConfigError("expected PEM, as in -----BEGIN …----- … -----END …-----", path=name)
    return "".join(blocks)


CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)

UTC_TIME, VERSION = 0x17, 0xA0
"""Tags of DER. The version comes first in a certificate, and may be left out."""


def certificate_expiry_s(properties: Mapping[str, str]) -> float | None:
    """Epoch seconds, by the ``kafka:`` section; None if there is no certificate, or it can't be
    read now. The file is read each time, because it may be renewed."""
    try:
        return expiry_s(Path(properties[CERTIFICATE_FILE]).read_text("ascii", "replace"))
    except (KeyError, OSError, ValueError, IndexError):
        return None


def expiry_s(pem: str) -> float:
    """Of the first certificate in the text: the client's own comes before its issuers. Raises
    ``ValueError`` or ``IndexError`` where there is none."""
    match = CERTIFICATE.search(pem)
    if match is None:
        raise ValueError("no certificate")
    (certificate,) = _values(ssl.PEM_cert_to_DER_cert(match.group()))
    signed = next(_values(certificate[1]))
    fields = [field for field in _values(signed[1]) if field[0] != VERSION]
    _serial, _algorithm, _issuer, validity, *_ = fields
    _begins, (tag, written) = _values(validity[1])
    text = written.decode("ascii").removesuffix("Z")
    if tag == UTC_TIME:  # two digits of the year: 50 to 99 are the last century's (RFC 5280)
        text = f"{'19' if text >= '5' else '20'}{text}"
    return datetime.strptime(text, "%Y%m%d%H%M%S").replace(tzinfo=UTC).timestamp()


def _values(der: bytes) -> Iterator[tuple[int, bytes]]:
    """The tags and contents of the values one after the other."""
    at = 0
    while at < len(der):
        tag, length, at = der[at], der[at + 1], at + 2
        if length & 0x80:
            digits = length & 0x7F
            length, at = int.from_bytes(der[at : at + digits], "big"), at + digits
        yield tag, der[at : at + length]
        at += length
