"""The port's certificate, which is read again when its files have changed.

As with Prometheus exporters, whoever renews it need not tell the daemon.
"""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import structlog

from retentiond.errors import ConfigError
from retentiond.observe import events

Stamp = tuple[tuple[int, int, int], ...]


class Certificate:
    """``context`` is what a server listens with: each connection gets today's certificate."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Raises `ConfigError` where the two can't be used."""
        self._files = (certificate, key)
        self._log = structlog.get_logger()
        self._said = ""  # why the files of this moment can't be used
        for name, file in (("certificate", certificate), ("key", key)):
            try:
                file.read_bytes()
            except OSError as error:
                raise ConfigError(
                    f"{file} can't be read ({error.strerror})", path=f"http.tls.{name}"
                ) from error
        self._read = self._stamp()
        try:
            self._current = self._load()
            self.context = self._load()
        except ssl.SSLError as error:
            raise ConfigError(_why(error), path="http.tls") from error
        self.context.sni_callback = self._on_hello

    def _on_hello(self, connection: ssl.SSLObject, _name: str | None, _: ssl.SSLContext) -> None:
        """Called for every handshake, also of a client that names no host."""
        self._renew()
        connection.context = self._current

    def _renew(self) -> None:
        """A pair that does not fit may be half written: it is tried again, and said once."""
        try:
            stamp = self._stamp()
            if stamp == self._read:
                return
            self._current = self._load()
        except OSError as error:
            why = _why(error) if isinstance(error, ssl.SSLError) else str(error)
            if why != self._said:
                self._said = why
                self._log.warning(events.CERTIFICATE_REFUSED, error=f"http.tls: {why}")
            return
        self._read, self._said = stamp, ""
        self._log.info(events.CERTIFICATE_RENEWED, certificate=str(self._files[0]))

    def _stamp(self) -> Stamp:
        found = [os.stat(file) for file in self._files]
        return tuple((each.st_ino, each.st_mtime_ns, each.st_size) for each in found)

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # With a pass phrase of nothing: OpenSSL would ask the terminal for one.
        context.load_cert_chain(*self._files, password="")
        return context


def _why(error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the key does not belong to the certificate; give the pair that was made together"
    return (
        f"expected a certificate and its key, both as PEM and without a pass phrase"
        f" ({(error.reason or 'unreadable').lower().replace('_', ' ')})"
    )
