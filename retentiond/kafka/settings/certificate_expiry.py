"""When the certificate expires that the clients show to the brokers."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

CERTIFICATE_FILE = "ssl.certificate.location"

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
    found = CERTIFICATE.search(pem)
    if found is None:
        raise ValueError("no certificate")
    (certificate,) = _values(ssl.PEM_cert_to_DER_cert(found.group()))
    signed = next(_values(certificate[1]))
    fields = [each for each in _values(signed[1]) if each[0] != VERSION]
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
