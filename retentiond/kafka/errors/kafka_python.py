"""What kafka-python's errors mean, and how its connections failed.

It tells the latter its log and no caller. While it looks for a first broker it takes a refused
login or a bad certificate for something that passes, tries again until its time is up, and then
says that it could not bootstrap. And it throws away what a broker has said right before it hung
up, as one does that refuses a login. It picks at random among the servers to start from, and waits
for one that is frozen for as long as there is time. `FailedConnections` wraps two methods of its
connection manager, one of them private.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import kafka.errors as kp_errors
from kafka.errors import (
    IllegalSaslStateError,
    KafkaTimeoutError,
    NodeNotReadyError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)

from retentiond.errors import KafkaUnavailable
from retentiond.kafka.errors.connection_check import lasting_problem, problem_with
from retentiond.kafka.errors.remedies import (
    ConnectionProblem,
    ProblemKind,
    no_answer_from,
    unavailable,
)
from retentiond.kafka.settings.oauth import NoToken
from retentiond.kafka.settings.properties import ClientSettings
from retentiond.model import Failure

Received = tuple[bytes, BaseException | None]


def failure_of_exception(error: BaseException) -> Failure:
    """A kafka-python exception as a value; its class name is the code."""
    if isinstance(error, kp_errors.BrokerResponseError):
        return Failure(error.message or type(error).__name__, error.description or str(error))
    return Failure(type(error).__name__, str(error))


def failure_of_code(code: int, message: str | None = None) -> Failure:
    """A protocol error code as a value, with the message the broker sent, if any."""
    if code not in kp_errors.kafka_errors:
        return Failure(f"ERROR_{code}", message or "this version does not know that error")
    error = kp_errors.for_code(code)
    return Failure(error.message or error.__name__, message or error.description or "")


FIRST_TRY_MS = 2_000
"""For each server to start from, before it is looked what is wrong with them."""

PATIENCE_S = 2.0
"""For servers that all refuse at once: one of them may just be starting."""

AT_ONCE_S = 0.5
"""An attempt that fails so soon was refused."""

OF_THE_LOGIN = {
    IllegalSaslStateError: ProblemKind.NO_LOGIN,
    NoToken: ProblemKind.NO_TOKEN,
    SaslAuthenticationFailedError: ProblemKind.LOGIN_REFUSED,
    UnsupportedSaslMechanismError: ProblemKind.OTHER_MECHANISM,
}


class FailedConnections:
    """Knows for each broker how the last connection to it failed, if it did."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._failed: dict[object, BaseException] = {}  # by node id
        self._servers: dict[object, str] = {}
        self._start()

    def _start(self) -> None:
        """Looks for a first broker from now on."""
        self._since = time.monotonic()
        self._tried_at: dict[object, float] = {}
        self._refused: set[object] = set()
        self._has_looked = False

    def watch(self, manager: Any) -> None:
        """Sees to it that no connection of this new client goes unnoticed.

        Once every broker to start from has failed for good, its next attempt raises how. What
        befell an earlier client is forgotten: somebody may have mended it.
        """
        self._failed.clear()
        self._start()
        connect, build_transport = manager.get_connection, manager._build_transport

        def get_connection(node_id: object, **options: Any) -> Any:
            if not manager.bootstrapped and "timeout_ms" in options:  # it looks for a first broker
                options["timeout_ms"] = self._turn(manager, node_id, options["timeout_ms"])
            made = connect(node_id, **options)
            if made.initializing:
                made.init_future.add_callback(partial(self._succeeded, node_id))
                made.init_future.add_errback(partial(self._note, manager, node_id))
            return made

        async def attentive_transport(*node: Any, **options: Any) -> Any:
            transport = await build_transport(*node, **options)
            transport._sock_recv = partial(last_words, transport._sock_recv)
            return transport

        manager.get_connection = get_connection
        manager._build_transport = attentive_transport

    def explained(self, error: BaseException) -> KafkaUnavailable:
        """What to raise for a request that failed with ``error``."""
        at_fault = sorted(self._failed.items(), key=lambda each: not is_final(each[1]))
        for node_id, failure in at_fault[:1]:
            server = self._servers[node_id]
            if problem := _of_login(failure) or problem_with(server, self._settings):
                return unavailable(server, problem, self._settings.words)
        if isinstance(error, KafkaTimeoutError) and not at_fault:  # connected, and then hung up
            server = self._settings.bootstrap_servers.split(",")[0]
            if problem := problem_with(server, self._settings):
                return unavailable(server, problem, self._settings.words)
        return no_answer_from(self._settings.bootstrap_servers, error, self._settings.words)

    def _turn(self, manager: Any, node_id: object, timeout_ms: float) -> float:
        """How long this server to start from may take. None is tried twice before each was once:
        raises `NodeNotReadyError`, upon which the next is picked, or what is wrong with all."""
        starting = {broker.node_id for broker in manager.cluster.bootstrap_brokers()}
        until = time.monotonic() + timeout_ms / 1000
        if starting <= self._tried_at.keys():
            self._raise_if_in_vain(starting)
        elif node_id in self._tried_at:
            raise NodeNotReadyError(node_id)
        now = self._tried_at[node_id] = time.monotonic()
        if now >= until:  # looking took all that there was
            raise KafkaTimeoutError("none of the servers to start from has answered in time")
        left_ms = 1000 * (until - now)
        return left_ms if self._has_looked else min(left_ms, FIRST_TRY_MS)

    def _raise_if_in_vain(self, starting: set[object]) -> None:
        if all(is_final(self._failed.get(node)) for node in starting):
            raise next(iter(self._failed.values()))
        if not self._has_looked:
            self._has_looked = True
            if wrong := lasting_problem(self._settings):
                raise wrong
        if starting <= self._refused and time.monotonic() - self._since > PATIENCE_S:
            raise KafkaTimeoutError("none of the servers to start from answers")

    def _succeeded(self, node_id: object, _: object) -> None:
        self._failed.pop(node_id, None)

    def _note(self, manager: Any, node_id: object, error: BaseException) -> None:
        broker = manager.cluster.broker_metadata(node_id)
        if broker is not None:
            self._servers[node_id] = f"{broker.host}:{broker.port}"
            self._failed[node_id] = error
        if time.monotonic() - self._tried_at.get(node_id, 0.0) < AT_ONCE_S:
            self._refused.add(node_id)
        else:
            self._refused.discard(node_id)


def is_final(error: BaseException | None) -> bool:
    """Whether the next attempt would end in the same way: it is about a login or a certificate."""
    if isinstance(error, (*OF_THE_LOGIN, ssl.SSLError)):
        return True
    causes = () if error is None else (error.__context__, *error.args)
    return any(isinstance(cause, BaseException) and is_final(cause) for cause in causes)


def last_words(receive: Callable[[], Received]) -> Received:
    """What was received, and why there will be no more: the end comes again when asked again."""
    data, end = receive()
    return (data, None) if data else (data, end)


def _of_login(error: BaseException) -> ConnectionProblem | None:
    for kind, problem in OF_THE_LOGIN.items():
        if isinstance(error, kind):
            return ConnectionProblem(problem, _words(error))
    return None


def _words(error: BaseException) -> str:
    """The broker's own, on one line."""
    said = " ".join(str(each) for each in error.args)
    return " ".join(said.removeprefix(f"{type(error).__name__}: ").split())
