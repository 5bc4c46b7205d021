"""Tries by itself whether a broker can be reached, and tells exactly where that fails.

librdkafka tells no caller why it comes to no connection, and a Kafka client that talks to a port of
the wrong kind just sees it close. So where a client could not connect, this takes the same steps
with the same settings: address, connection, TLS, one harmless request.
"""

from __future__ import annotations

import re
import socket
import ssl
import struct

from retentiond.errors import KafkaUnavailable
from retentiond.kafka.connecting import addresses_of
from retentiond.kafka.remedies import PASSING, ConnectionProblem, ProblemKind, unavailable
from retentiond.kafka.settings.properties import ClientSettings
from retentiond.kafka.settings.tls import (
    INLINE_CERTIFICATE,
    PAIR_MISMATCH,
    NoPassPhrase,
    WrongPassPhrase,
    client_context,
    speaks_tls,
)

WITH_PORT = re.compile(r"(.+):(\d{1,5})")

USUAL_PORT = 9092

TIMEOUT_S = 3.0
"""How long each step may take."""

ALERT_TIMEOUT_S = 1.0
"""How soon after the handshake a broker tells that it refuses a certificate."""

API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""A request that every listener answers before any login: its length, the key and version of
ApiVersions, correlation id 1 and no client id. It is written by hand because no client that comes
to no connection can send it."""

METADATA = 3
"""The key of Metadata. A controller answers ApiVersions, and does not take this request."""

NO_METADATA = struct.pack(">ihhihi", 14, METADATA, 1, 1, -1, 0)
"""A Metadata request about no topics at all, made in the same way."""

LONGEST_ANSWER = 1 << 20

VERIFICATION = {  # OpenSSL's X509_V_ERR_…
    9: ProblemKind.NOT_YET_VALID,
    10: ProblemKind.EXPIRED,
    23: ProblemKind.REVOKED,
    62: ProblemKind.WRONG_NAME,
    64: ProblemKind.WRONG_NAME,
}

CLIENT_CERTIFICATE_ALERTS = ("CERTIFICATE", "UNKNOWN_CA", "HANDSHAKE_FAILURE", "ACCESS_DENIED")
"""In the name of an alert by which a broker tells that it misses or refuses a certificate."""


class NotKafka(Exception):
    """What was asked answers something else."""


def lasting_problem(settings: ClientSettings) -> KafkaUnavailable | None:
    """What to raise where something is wrong with each server to start from, and won't pass."""
    first_problem: KafkaUnavailable | None = None
    for server in settings.bootstrap_servers.split(","):
        problem = problem_with(server, settings)
        if problem is None or problem.kind in PASSING:
            return None
        first_problem = first_problem or unavailable(server.strip(), problem, settings.words)
    return first_problem


def unavailable_at(
    server: str, problem: ConnectionProblem, settings: ClientSettings
) -> KafkaUnavailable:
    """What to raise. Nobody has typed an address that brokers sent this client to, so that the
    sentence names theirs too."""
    named = {address_of(address) for address in settings.bootstrap_servers.split(",")}
    named_by = None if address_of(server) in named else settings.bootstrap_servers
    return unavailable(server, problem, settings.words, named_by=named_by)


def usable_context(settings: ClientSettings) -> ssl.SSLContext:
    """The client's own certificates and whom it trusts. Raises `KafkaUnavailable` if the files
    can't be used: half of a pair may be renewed yet."""
    try:
        return client_context(settings)
    except OSError as error:
        problem = _problem_with_files(error)
        raise unavailable(settings.bootstrap_servers, problem, settings.words) from error


def _problem_with_files(error: OSError) -> ConnectionProblem:
    if isinstance(error, NoPassPhrase):
        return ConnectionProblem(ProblemKind.NO_PASS_PHRASE)
    if isinstance(error, WrongPassPhrase):
        return ConnectionProblem(ProblemKind.WRONG_PASS_PHRASE)
    reason = str(getattr(error, "reason", None) or error.strerror or "")
    kind = ProblemKind.UNMATCHED_PAIR if reason == PAIR_MISMATCH else ProblemKind.UNUSABLE_FILES
    return ConnectionProblem(kind, reason.lower().replace("_", " "))


def problem_with(server: str, settings: ClientSettings) -> ConnectionProblem | None:
    """What keeps a broker from being reached; None: nothing that can be seen from here.

    ``server`` is as it stands in ``bootstrap.servers``.
    """
    host, port = address_of(server)
    try:
        with _connected(host, port, settings) as connection:
            if speaks_tls(settings):
                return _problem_with_tls(connection, host, settings)
            return _problem_without_tls(connection, (host, port), settings)
    except (socket.gaierror, ValueError):  # the latter: it is no name at all
        return ConnectionProblem(ProblemKind.NO_ADDRESS)
    except ConnectionRefusedError:
        return ConnectionProblem(ProblemKind.NOBODY_LISTENS)
    except OSError as error:
        return ConnectionProblem(ProblemKind.NO_ANSWER, error.strerror or "no answer in time")


def _connected(host: str, port: int, settings: ClientSettings) -> socket.socket:
    """To the first of the name's addresses that takes it; each has its share of the time."""
    addresses = addresses_of((host, port, settings.address_family))
    failure: OSError = socket.gaierror(socket.EAI_NONAME, "no address")
    for family, kind, protocol, _, address in addresses:
        connection = socket.socket(family, kind, protocol)
        connection.settimeout(TIMEOUT_S / len(addresses))
        try:
            connection.connect(address)
        except OSError as error:
            connection.close()
            failure = error
        else:
            connection.settimeout(TIMEOUT_S)
            return connection
    raise failure


def address_of(server: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``; ``SCHEME://`` may precede it, and the port may be missing."""
    place = server.strip().rpartition("://")[2]
    if match := WITH_PORT.fullmatch(place):
        return match[1].strip("[]"), int(match[2])
    return place.strip("[]"), USUAL_PORT


def _problem_with_tls(
    connection: socket.socket, host: str, settings: ClientSettings
) -> ConnectionProblem | None:
    try:
        context = client_context(settings)
    except OSError as error:
        return _problem_with_files(error)
    try:
        with context.wrap_socket(connection, server_hostname=host) as secured:
            return _problem_after_handshake(secured, settings)
    except ssl.SSLCertVerificationError as error:
        kind = VERIFICATION.get(error.verify_code, ProblemKind.UNTRUSTED)
        return ConnectionProblem(
            kind, error.verify_message if kind is ProblemKind.UNTRUSTED else ""
        )
    except (ssl.SSLEOFError, ConnectionError):
        return ConnectionProblem(ProblemKind.NO_TLS)
    except ssl.SSLError as error:
        reason = error.reason or ""
        if "ALERT" not in reason:
            return ConnectionProblem(ProblemKind.NO_TLS)
        if not any(word in reason for word in CLIENT_CERTIFICATE_ALERTS):
            return None
        if "ssl_certfile" in settings.kafka_python or INLINE_CERTIFICATE in settings.confluent:
            return ConnectionProblem(
                ProblemKind.REFUSED_CERTIFICATE, reason.lower().replace("_", " ")
            )
        return ConnectionProblem(ProblemKind.CERTIFICATE_WANTED)


def _problem_after_handshake(
    secured: ssl.SSLSocket, settings: ClientSettings
) -> ConnectionProblem | None:
    """With TLS 1.3 a certificate is refused only here: raises ``ssl.SSLError`` then.

    What is sent to a broker that hangs up would drive its alert away, so this listens first.
    """
    secured.settimeout(ALERT_TIMEOUT_S)
    try:
        if secured.recv(1):
            return ConnectionProblem(ProblemKind.NOT_KAFKA)
    except TimeoutError:
        secured.settimeout(TIMEOUT_S)
        try:
            return _problem_of_kind(_answer(secured, API_VERSIONS), secured, settings)
        except NotKafka:
            return ConnectionProblem(ProblemKind.NOT_KAFKA)
        except NO_ANSWER_ERRORS:
            pass
    except ConnectionError:
        pass
    return ConnectionProblem(ProblemKind.NO_ANSWER, "it hangs up after the TLS handshake")


def _problem_of_kind(
    versions: bytes, connection: socket.socket, settings: ClientSettings
) -> ConnectionProblem | None:
    """``versions``: what ApiVersions was answered with. Before a login a broker hangs up on
    everything else."""
    error, _ = struct.unpack_from(">hi", versions)  # and how many requests it takes
    taken = {key for key, _, _ in struct.iter_unpack(">hhh", versions[6:])}
    if not error and METADATA not in taken:
        return ConnectionProblem(ProblemKind.CONTROLLER)
    if settings.kafka_python.get("security_protocol", "").startswith("SASL"):
        return None
    try:
        _answer(connection, NO_METADATA)
    except (NotKafka, *NO_ANSWER_ERRORS):
        return ConnectionProblem(ProblemKind.LOGIN_WANTED)
    return None


def _problem_without_tls(
    connection: socket.socket, address: tuple[str, int], settings: ClientSettings
) -> ConnectionProblem | None:
    otherwise = ConnectionProblem(ProblemKind.NO_ANSWER)
    try:
        return _problem_of_kind(_answer(connection, API_VERSIONS), connection, settings)
    except TimeoutError:  # what speaks TLS refuses such a beginning at once
        return otherwise
    except NotKafka:
        otherwise = ConnectionProblem(ProblemKind.NOT_KAFKA)
    except (EOFError, ConnectionError):
        pass
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # only whether it speaks TLS at all
    try:
        with (
            _connected(*address, settings) as second,
            context.wrap_socket(second) as secured,
        ):
            return ConnectionProblem(ProblemKind.TLS_WANTED, secured.version() or "")
    except OSError:
        return otherwise


NO_ANSWER_ERRORS = (EOFError, TimeoutError, ConnectionError)
"""Raised where there is no answer to a request."""


def _answer(connection: socket.socket, request: bytes) -> bytes:
    """What comes after the correlation id.

    Raises `NotKafka`, one of `NO_ANSWER_ERRORS`, or ``ssl.SSLError`` where an alert comes instead.
    """
    connection.sendall(request)
    length, correlation = struct.unpack(">ii", _exactly(connection, 8))
    if correlation != 1 or not 4 <= length <= LONGEST_ANSWER:
        raise NotKafka
    return _exactly(connection, length - 4)


def _exactly(connection: socket.socket, count: int) -> bytes:
    """Reads so many bytes. Raises ``EOFError`` if the other side hangs up before."""
    received = b""
    while len(received) < count:
        if not (more := connection.recv(count - len(received))):
            raise EOFError
        received += more
    return received
