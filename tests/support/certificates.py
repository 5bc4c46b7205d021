"""Certificates for tests, made with OpenSSL's program, which Java's packages bring along."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

LOOPBACK = "IP:127.0.0.1,DNS:localhost"

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


class Issued(NamedTuple):
    """Files: a certificate, its key, and both in one, as Kafka's PEM stores want them."""

    certificate: Path
    key: Path
    both: Path


class Authority:
    """Signs what it is asked to. ``certificate`` is what those trust who trust it.

    ``extensions``: the lines of its certificate's, by default those that OpenSSL gives it.
    """

    def __init__(self, folder: Path, extensions: str | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.certificate = folder / "ca.pem"
        self._key = folder / "ca.key"
        own: tuple[object, ...] = ()
        if extensions is not None:
            settings = folder / "authority.cnf"
            settings.write_text(
                f"[req]\ndistinguished_name=name\nx509_extensions=own\n[name]\n[own]\n{extensions}\n"
            )
            own = ("-config", settings)
        openssl(
            *("req", "-x509", *KEY, "-subj", "/CN=authority", "-days", "2", *own),
            *("-keyout", self._key, "-out", self.certificate),
        )

    def issue(self, name: str, alternatives: str = LOOPBACK, days: int = 2) -> Issued:
        """For a host or a client called ``name``; with negative ``days`` it has expired."""
        request, extensions = self._folder / f"{name}.csr", self._folder / f"{name}.ext"
        issued = Issued(*(self._folder / f"{name}.{kind}" for kind in ("pem", "key", "both")))
        openssl("req", *KEY, "-subj", f"/CN={name}", "-keyout", issued.key, "-out", request)
        extensions.write_text(f"subjectAltName={alternatives}\n")
        openssl(
            *("x509", "-req", "-in", request, "-extfile", extensions, "-days", days),
            *("-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial"),
            *("-out", issued.certificate),
        )
        issued.both.write_bytes(issued.key.read_bytes() + issued.certificate.read_bytes())
        return issued

    def lock(self, issued: Issued, phrase: str) -> Issued:
        """The same with a pass phrase on its key."""
        key = issued.key.with_suffix(".locked")
        openssl("pkcs8", "-topk8", "-in", issued.key, "-out", key, "-passout", f"pass:{phrase}")
        both = issued.both.with_suffix(".locked-both")
        both.write_bytes(key.read_bytes() + issued.certificate.read_bytes())
        return Issued(issued.certificate, key, both)

    def revoke(self, issued: Issued) -> Path:
        """The list of what it has revoked: this one."""
        database, settings = self._folder / "index.txt", self._folder / "ca.cnf"
        database.touch()
        settings.write_text(
            f"[ca]\ndefault_ca=own\n[own]\ndatabase={database}\ndefault_md=sha256\n"
            "default_crl_days=2\n"
        )
        own = ("-config", settings, "-cert", self.certificate, "-keyfile", self._key)
        openssl("ca", *own, "-revoke", issued.certificate)
        revoked = self._folder / "crl.pem"
        openssl("ca", *own, "-gencrl", "-out", revoked)
        return revoked


def openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=60)
