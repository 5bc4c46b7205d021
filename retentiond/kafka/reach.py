"""Tries by itself whether a broker can be reached, and tells exactly where that fails.

librdkafka has one error for every certificate that it does not accept, and a Kafka client that
talks to a port of the wrong kind just sees it close. So where a client could not connect, this
takes the same steps with the same settings: address, connection, TLS, one harmless request.
"""

from __future__ import annotations

import re
import socket
import ssl
import struct

from retentiond.kafka.properties import ClientSettings
from retentiond.kafka.tls import INLINE_CERTIFICATE, client_context
from retentiond.kafka.trouble import Kind, Trouble

WITH_PORT = re.compile(r"(.+):(\d{1,5})")

USUAL_PORT = 9092

TIMEOUT_S = 3.0
"""For each step."""

ALERT_S = 1.0
"""How soon after the handshake a broker tells that it refuses a certificate."""

API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""A Kafka request that every listener answers before any login: its length, ApiVersions' key and
version, correlation id 1 and no client id."""

NO_METADATA = struct.pack(">ihhihi", 14, 3, 1, 1, -1, 0)
"""The same for Metadata, of no topics at all."""

LONGEST_ANSWER = 1 << 20

VERIFICATION = {  # OpenSSL's X509_V_ERR_…
    9: Kind.NOT_YET_VALID,
    10: Kind.EXPIRED,
    23: Kind.REVOKED,
    62: Kind.WRONG_NAME,
    64: Kind.WRONG_NAME,
}

OF_THE_CLIENTS_CERTIFICATE = ("CERTIFICATE", "UNKNOWN_CA", "HANDSHAKE_FAILURE", "ACCESS_DENIED")
"""In the name of an alert by which a broker tells that it misses or refuses a certificate."""


def trouble_with(server: str, settings: ClientSettings) -> Trouble | None:
    """What keeps a broker from being reached; None: nothing that can be seen from here.

    ``server`` is as it stands in ``bootstrap.servers``.
    """
    host, port = address_of(server)
    try:
        with socket.create_connection((host, port), TIMEOUT_S) as connection:
            if settings.kafka_python.get("security_protocol", "").endswith("SSL"):
                return _trouble_with_tls(connection, host, settings)
            return _trouble_without_tls(connection, (host, port)) or _trouble_with_login(
                connection, settings
            )
    except socket.gaierror:
        return Trouble(Kind.NO_ADDRESS)
    except ConnectionRefusedError:
        return Trouble(Kind.NOBODY_LISTENS)
    except OSError as error:
        return Trouble(Kind.NO_ANSWER, error.strerror or "no answer in time")


def address_of(server: str) -> tuple[str, int]:
    """Of ``HOST:PORT``; ``SCHEME://`` may stand before it, and the port be Kafka's usual one."""
    place = server.strip().rpartition("://")[2]
    if found := WITH_PORT.fullmatch(place):
        return found[1].strip("[]"), int(found[2])
    return place.strip("[]"), USUAL_PORT


def _trouble_with_tls(
    connection: socket.socket, host: str, settings: ClientSettings
) -> Trouble | None:
    try:
        with client_context(settings).wrap_socket(connection, server_hostname=host) as secured:
            return _trouble_after_handshake(secured) or _trouble_with_login(secured, settings)
    except ssl.SSLCertVerificationError as error:
        kind = VERIFICATION.get(error.verify_code, Kind.UNTRUSTED)
        return Trouble(kind, error.verify_message if kind is Kind.UNTRUSTED else "")
    except (ssl.SSLEOFError, ConnectionError):
        return Trouble(Kind.NO_TLS)
    except ssl.SSLError as error:
        reason = error.reason or ""
        if "ALERT" not in reason:
            return Trouble(Kind.NO_TLS)
        if not any(word in reason for word in OF_THE_CLIENTS_CERTIFICATE):
            return None
        if INLINE_CERTIFICATE in settings.confluent:  # which could not be shown here
            return None
        if "ssl_certfile" in settings.kafka_python:
            return Trouble(Kind.REFUSED_CERTIFICATE, reason.lower().replace("_", " "))
        return Trouble(Kind.CERTIFICATE_WANTED)


def _trouble_after_handshake(secured: ssl.SSLSocket) -> Trouble | None:
    """With TLS 1.3 a certificate is refused only here: raises ``ssl.SSLError`` then.

    What is sent to a broker that hangs up would drive its alert away, so this listens first.
    """
    secured.settimeout(ALERT_S)
    try:
        is_closed = secured.recv(1) == b""
    except TimeoutError:
        secured.settimeout(TIMEOUT_S)
        is_closed = not _answers(secured, API_VERSIONS)
    except ConnectionError:
        is_closed = True
    return Trouble(Kind.NO_ANSWER, "it hangs up after the TLS handshake") if is_closed else None


def _trouble_with_login(connection: socket.socket, settings: ClientSettings) -> Trouble | None:
    """Before a login a broker hangs up on everything but ApiVersions, which went well."""
    logs_in = settings.kafka_python.get("security_protocol", "").startswith("SASL")
    if logs_in or _answers(connection, NO_METADATA):
        return None
    return Trouble(Kind.LOGIN_WANTED)


def _trouble_without_tls(connection: socket.socket, address: tuple[str, int]) -> Trouble | None:
    if _answers(connection, API_VERSIONS):
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # only whether it speaks TLS at all
    try:
        with (
            socket.create_connection(address, TIMEOUT_S) as second,
            context.wrap_socket(second) as secured,
        ):
            return Trouble(Kind.TLS_WANTED, secured.version() or "")
    except OSError:
        return Trouble(Kind.NO_ANSWER)


def _answers(connection: socket.socket, request: bytes) -> bool:
    """Whether it does, and like a broker. Raises ``ssl.SSLError`` where an alert comes instead."""
    try:
        connection.sendall(request)
        length, correlation = struct.unpack(">ii", _exactly(connection, 8))
        if correlation != 1 or not 4 <= length <= LONGEST_ANSWER:
            return False
        _exactly(connection, length - 4)
    except (EOFError, TimeoutError, ConnectionError):
        return False
    return True


def _exactly(connection: socket.socket, count: int) -> bytes:
    """So many bytes. Raises ``EOFError`` where the other side hangs up before."""
    received = b""
    while len(received) < count:
        if not (more := connection.recv(count - len(received))):
            raise EOFError
        received += more
    return received
