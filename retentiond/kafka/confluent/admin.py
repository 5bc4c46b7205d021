"""librdkafka's client: how it is made, what it says of its connections, what its errors mean."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from retentiond.errors import ConfigError, KafkaUnavailable, RetentiondError
from retentiond.kafka.errors.connection_check import (
    lasting_problem,
    problem_with,
    unavailable_at,
    usable_context,
)
from retentiond.kafka.errors.remedies import (
    ConnectionProblem,
    ProblemKind,
    no_answer_from,
    unavailable,
)
from retentiond.kafka.interface import NO_SUCH_TOPIC, DeleteFailure, RequestResult
from retentiond.kafka.settings.properties import ClientSettings
from retentiond.kafka.settings.tls import FileStamps, file_stamps, speaks_tls
from retentiond.model import Failure

if TYPE_CHECKING:
    from retentiond.kafka.settings.oauth import TokenSource


class Admin:
    """One AdminClient, and the explanation where it comes to no connection."""

    def __init__(self, settings: ClientSettings, tokens: TokenSource | None = None) -> None:
        """``tokens``: of another client with the same login. Raises `ConfigError` for a value that
        librdkafka refuses."""
        self._settings = settings
        self._connection_errors = ConnectionErrors()
        self._config: dict[str, Any] = {
            "log_level": 0,
            "error_cb": self._connection_errors.note,
            **settings.confluent,
        }
        self._tokens = tokens
        if settings.oauth and tokens is None:  # few do, and it brings kafka-python
            from retentiond.kafka.settings.oauth import TokenSource  # noqa: PLC0415 - as above

            self._tokens = TokenSource(settings.oauth)
        if self._tokens is not None:
            self._config["oauth_cb"] = self._tokens.for_confluent
        self._made: AdminClient | None = None
        self._stamps: FileStamps = ()
        self._making = threading.Lock()
        with contextlib.suppress(KafkaUnavailable):
            self.client()

    def of_servers(self, servers: str) -> Admin:
        """A new client that knows these brokers only."""
        confluent = {**self._settings.confluent, "bootstrap.servers": servers}
        settings = replace(self._settings, confluent=confluent, bootstrap_servers=servers)
        return Admin(settings, self._tokens)

    def client(self) -> AdminClient:
        """Made once, and again when a certificate or key was renewed: librdkafka reads them when it
        is made, and never again. A pair that doesn't fit may be half renewed: the old client stays.

        With OAUTHBEARER that needs a token, so it can fail and be tried again.
        """
        with self._making:
            stamps = file_stamps(self._settings)
            if self._made is None or stamps != self._stamps:
                try:
                    self._made, self._stamps = AdminClient(self._config), stamps
                except KafkaException as error:
                    if self._made is None:
                        raise self._not_made(error) from error
            return self._made

    def close(self) -> None:
        """Lets the client go; a further call would make another."""
        with self._making:
            self._made = None

    @contextlib.contextmanager
    def explaining(self) -> Iterator[None]:
        """Puts what librdkafka says of its connections in place of a `KafkaUnavailable` that
        tells less; it reports them to nobody who waits for an answer."""
        try:
            yield
        except KafkaUnavailable as error:
            explained = self._explained() if error.kind is None else None
            self._connection_errors.clear()
            try:
                if explained is None:
                    raise
                raise explained from error
            finally:
                del explained  # else it would keep itself, and with it the client
        self._listen()
        self._connection_errors.clear()

    def unavailable(self, reason: object) -> KafkaUnavailable:
        """The error to raise where nothing could be read; ``reason`` if nothing says more."""
        return self._explained() or no_answer_from(
            self._settings.bootstrap_servers, reason, self._settings.words
        )

    def raise_if_final(self, reason: object) -> None:
        """Ends the waiting where every broker has said no for good, or is none."""
        self._listen()
        if self._connection_errors.is_final():
            raise self.unavailable(reason)
        if wrong := lasting_problem(self._settings):
            raise wrong

    @property
    def is_refused(self) -> bool:
        """Whether all brokers have refused the connection, or hung up."""
        return self._connection_errors.all_down

    def _explained(self) -> KafkaUnavailable | None:
        self._listen()
        return self._connection_errors.explained(self._settings)

    def _listen(self) -> None:
        """Has librdkafka report what there is; it waits for nothing."""
        if self._made is not None:
            self._made.poll(0)

    def _not_made(self, error: KafkaException) -> Exception:
        if speaks_tls(self._settings):
            try:
                usable_context(self._settings)
            except KafkaUnavailable as unusable:
                if not isinstance(unusable.__cause__, FileNotFoundError):  # librdkafka names it
                    return unusable
        if self._tokens is None or self._tokens.failure is None:
            return error_of_client(self._settings, error)
        problem = ConnectionProblem(ProblemKind.NO_TOKEN, self._tokens.failure)
        return unavailable(self._settings.bootstrap_servers, problem, self._settings.words)


SERVER = re.compile(r"(?:\w+://)?([^/\s]+:\d+)/\w+: (.*)", re.DOTALL)
"""How it begins a sentence about a broker: ``sasl_ssl://HOST:PORT/bootstrap: …``"""

STATE_SUFFIX = re.compile(r" \(after \d+ms in state \w+[^)]*\)")

OFFERED_MECHANISMS = re.compile("broker's supported mechanisms: (.+)")

CONNECTION_ERROR_CODES = (KafkaError._TRANSPORT, KafkaError._SSL, KafkaError._RESOLVE)

FINAL_ERRORS = (KafkaError._AUTHENTICATION, KafkaError._SSL)

TLS_ALERT = "SSL alert number"
"""With TLS 1.3 a client learns only after the handshake that its certificate was refused."""


@dataclass(slots=True)
class ConnectionErrors:
    """Errors of connections since it was last cleared, one of each kind for a broker."""

    errors: dict[tuple[str, int], str] = field(default_factory=dict)
    all_down: bool = False

    def note(self, error: KafkaError) -> None:
        """librdkafka's ``error_cb``; called on the thread that polls the client."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.all_down = True
        elif found := SERVER.match(error.str()):
            server, said = found.groups()
            self.errors.setdefault(
                (server, error.code()), " ".join(STATE_SUFFIX.sub("", said).split())
            )

    def clear(self) -> None:
        self.errors.clear()
        self.all_down = False

    def is_final(self) -> bool:
        """Whether the next attempt would end in the same way, at every broker."""
        errors = list(self.errors.items())  # a copy: another thread may be told of more
        return self.all_down and any(
            code in FINAL_ERRORS or TLS_ALERT in said for (_, code), said in errors
        )

    def explained(self, settings: ClientSettings) -> KafkaUnavailable | None:
        """What to raise, if one of the errors explains why nothing could be asked."""
        errors = list(self.errors.items())
        for (server, code), said in errors:
            if code == KafkaError._AUTHENTICATION:
                return unavailable_at(server, _login_of_line(said), settings)
        servers = [server for (server, code), _ in errors if code in CONNECTION_ERROR_CODES]
        if not servers and self.all_down:  # of some broker it says no more than that
            servers = settings.bootstrap_servers.split(",")
        for server in servers[:1]:
            if problem := problem_with(server, settings):
                return unavailable_at(server, problem, settings)
        return None


def _login_of_line(said: str) -> ConnectionProblem:
    if "not valid in current SASL state" in said:
        return ConnectionProblem(ProblemKind.NO_LOGIN)
    if found := OFFERED_MECHANISMS.search(said):
        return ConnectionProblem(ProblemKind.OTHER_MECHANISM, f"but {found[1]}")
    return ConnectionProblem(
        ProblemKind.LOGIN_REFUSED, said.removeprefix("SASL authentication error: ")
    )


LEADER_MOVED = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError._NOENT,  # librdkafka found no leader at all, and asked nobody
    }
)
"""Answers that a metadata refresh and a second request fix, whatever ``retriable()`` says."""

REFUSED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError.INVALID_REQUEST,
        KafkaError._INVALID_ARG,  # these are librdkafka's own: nothing went out
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._AUTHENTICATION,
        KafkaError._UNSUPPORTED_FEATURE,
    }
)
"""Answers of DeleteRecords that prove that no log start offset was moved.

UNKNOWN_TOPIC_OR_PARTITION is none: a broker whose replica is taken from it while it waits for its
followers answers so after it has moved the log start.
"""


KAFKAS_NAMES = {
    "UNKNOWN_TOPIC_OR_PART": NO_SUCH_TOPIC,
    "TOPIC_EXCEPTION": "INVALID_TOPIC_EXCEPTION",
}
"""Names of errors as Kafka's protocol guide has them, where librdkafka has others."""


def failure_of_error(error: BaseException) -> Failure:
    """A confluent-kafka exception, or a future's time-out, as a value."""
    if isinstance(error, KafkaException):
        cause: KafkaError = error.args[0]
        return Failure(KAFKAS_NAMES.get(cause.name(), cause.name()), cause.str())
    if isinstance(error, TimeoutError):
        return Failure("_TIMED_OUT", "the client did not answer in time")
    return Failure(type(error).__name__, str(error))


def error_of_client(settings: ClientSettings, error: KafkaException) -> RetentiondError:
    """The error to raise where librdkafka made no client: it refused a value, or lacks a token."""
    cause: KafkaError = error.args[0]
    if cause.code() == KafkaError._INVALID_ARG:
        return ConfigError(f"Kafka's client refuses this: {cause.str().strip()}", path="kafka")
    return no_answer_from(settings.bootstrap_servers, failure_of_error(error), settings.words)


def failure_of_deletion(error: BaseException) -> DeleteFailure:
    """What a failed DeleteRecords proves. Anything not known to be a refusal proves nothing."""
    code = error.args[0].code() if isinstance(error, KafkaException) else None
    result = RequestResult.UNKNOWN
    if code in LEADER_MOVED:
        result = RequestResult.MOVED
    elif code in REFUSED:
        result = RequestResult.REFUSED
    return DeleteFailure(result, failure_of_error(error))
