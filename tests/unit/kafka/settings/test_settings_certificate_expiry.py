"""When the clients' own certificate expires, from a file or from the configuration itself."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from retentiond.kafka.settings.tls import certificate_expiry_s
from tests.support.builders.daemons import settings
from tests.support.certificates import Authority

DAY_S = 86_400


def expiry_s(properties: dict[str, str]) -> float | None:
    servers = {"bootstrap.servers": "localhost:9092", "security.protocol": "SSL"}
    return certificate_expiry_s(settings(kafka=servers | properties).kafka)


@pytest.mark.parametrize("days", [10, -1, 365 * 60])  # from 2050 on the date is written differently
def test_a_certificate_tells_its_end_also_behind_its_key_and_before_its_issuer(
    tmp_path: Path, days: int
) -> None:
    authority = Authority(tmp_path / "ca")  # for two days
    issued = authority.issue("retentiond", days=days)
    chain = tmp_path / "chain.pem"
    chain.write_text(issued.both.read_text() + authority.certificate.read_text())
    for file in (issued.certificate, chain):
        found = expiry_s({"ssl.certificate.location": str(file)})
        assert found == pytest.approx(time.time() + days * DAY_S, abs=60)
        file.unlink()
        assert expiry_s({"ssl.certificate.location": str(file)}) is None


def test_without_a_certificate_there_is_no_end(tmp_path: Path) -> None:
    assert expiry_s({}) is None
    (tmp_path / "empty.pem").write_text(
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"
    )
    damaged = {"ssl.certificate.location": str(tmp_path / "empty.pem")}
    assert expiry_s(damaged) is None
