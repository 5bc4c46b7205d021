"""How librdkafka's client is made, and what its errors mean."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from retentiond.config.values import is_unknown
from retentiond.errors import ConfigError, KafkaUnavailable
from retentiond.kafka.broker_errors import BY_CODE, BrokerError
from retentiond.kafka.connection_check import problem_with, unavailable_at, usable_context
from retentiond.kafka.interface import DeleteFailure, RequestResult
from retentiond.kafka.remedies import ConnectionProblem, ProblemKind, no_answer_from, unavailable
from retentiond.kafka.settings.properties import (
    CLIENT_ID,
    LIBRDKAFKAS,
    ClientSettings,
    refuse_wrong,
    translate,
)
from retentiond.kafka.settings.tls import speaks_tls
from retentiond.model import Failure

if TYPE_CHECKING:
    from retentiond.kafka.settings.oauth import TokenSource


SETUP_MS = 4_000
"""How long librdkafka may take for a connection, TLS and login included, before it goes on to the
next address of the name: seven round trips of half a second. By itself it takes 30 s."""

ADDRESSES_KEPT_MS = 10_000
"""How long it goes by one look-up. After the second that is usual it would look the name up again,
and begin with an address at random, which may be the same one."""


def new_client(settings: ClientSettings, tokens: TokenSource | None) -> AdminClient:
    """A client that connects to the settings' brokers. It reads certificates and keys now, and
    never again.

    Raises `ConfigError` for a value that librdkafka refuses, and `KafkaUnavailable` where a file or
    a token is not to be had.
    """
    config: dict[str, Any] = {
        "client.id": CLIENT_ID,
        "log_level": 0,
        "socket.connection.setup.timeout.ms": SETUP_MS,
        "api.version.request.timeout.ms": SETUP_MS,  # which the other leaves out
        "broker.address.ttl": ADDRESSES_KEPT_MS,
        **settings.confluent,
    }
    if tokens is not None:
        config["oauth_cb"] = tokens.for_confluent
    try:
        return AdminClient(config)
    except KafkaException as error:
        raise _not_made(settings, tokens, error) from error


FILES_AND_LOGINS = ("ssl.", "sasl.", "security.protocol", "bootstrap.servers")
"""What a client can only be tried with where the files, tokens and brokers are. It is read and
checked one by one."""


def refuse_properties(properties: Mapping[str, str]) -> None:
    """Refuses what no client can be made of. It reads no certificate and connects to no broker.
    Raises `ConfigError` naming the property."""
    values = {name: value for name, value in properties.items() if not is_unknown(value)}
    refuse_wrong({name: values.get(name) for name in properties})
    if len(values) == len(properties):
        values = dict(translate(properties).confluent)
    tried = {
        name: value
        for name, value in values.items()
        if name in LIBRDKAFKAS and not name.startswith(FILES_AND_LOGINS)
    }
    try:
        AdminClient({**tried, "log_level": 0})
    except KafkaException as error:
        said = error.args[0].str().strip()
        named = next((name for name in properties if f'"{name}"' in said), None)
        raise ConfigError(
            f"Kafka's client refuses this: {said}", path=f"kafka.{named}" if named else "kafka"
        ) from None


def _not_made(
    settings: ClientSettings, tokens: TokenSource | None, error: KafkaException
) -> Exception:
    if speaks_tls(settings):
        try:
            usable_context(settings)
        except KafkaUnavailable as unusable:
            if not isinstance(unusable.__cause__, FileNotFoundError):  # librdkafka names it
                return unusable
    if tokens is not None and tokens.failure is not None:
        problem = ConnectionProblem(ProblemKind.NO_TOKEN, tokens.failure)
        return unavailable(settings.bootstrap_servers, problem, settings.words)
    cause: KafkaError = error.args[0]
    if cause.code() == BrokerError._INVALID_ARG.code:
        return ConfigError(f"Kafka's client refuses this: {cause.str().strip()}", path="kafka")
    return _no_answer(settings, error)


@contextlib.contextmanager
def explained(settings: ClientSettings) -> Iterator[None]:
    """Raises `KafkaUnavailable` in place of an error of librdkafka's, which reports to nobody who
    waits for an answer why it comes to no connection."""
    try:
        yield
    except (KafkaException, TimeoutError) as error:
        for server in settings.bootstrap_servers.split(","):
            if problem := problem_with(server, settings):
                raise unavailable_at(server, problem, settings) from error
        raise _no_answer(settings, error) from error


def _no_answer(settings: ClientSettings, error: BaseException) -> KafkaUnavailable:
    return no_answer_from(settings.bootstrap_servers, failure_of_error(error), settings.words)


CALLED_OTHERWISE = {
    error.code: error.name
    for error in (BrokerError.UNKNOWN_TOPIC_OR_PARTITION, BrokerError.INVALID_TOPIC_EXCEPTION)
}
"""Names that others ask for, where librdkafka has others."""


def failure_of_error(error: BaseException) -> Failure:
    """A confluent-kafka exception, or a future's time-out, as a value."""
    if isinstance(error, KafkaException):
        cause: KafkaError = error.args[0]
        return Failure(CALLED_OTHERWISE.get(cause.code(), cause.name()), cause.str())
    if isinstance(error, TimeoutError):
        return Failure("_TIMED_OUT", "the client did not answer in time")
    return Failure(type(error).__name__, str(error))


def failure_of_deletion(error: BaseException) -> DeleteFailure:
    """What a failed DeleteRecords proves. Anything not known to be a refusal proves nothing."""
    code = error.args[0].code() if isinstance(error, KafkaException) else None
    entry = None if code is None else BY_CODE.get(code)
    result = RequestResult.UNKNOWN if entry is None else entry.deletion
    return DeleteFailure(result, failure_of_error(error))
