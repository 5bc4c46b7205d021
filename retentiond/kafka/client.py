"""kafka-python's client, for requests that its public methods can't express, and how it fails.

The public methods raise on the first error of a batch, cache coordinators for ever and list
groups from a broker list that may be minutes old. So retentiond sends the protocol's requests
itself, over a `retentiond.kafka.network_client.NetworkClient`.

kafka-python writes how a connection failed to its log, and tells no caller. While it looks for a
first broker it takes a refused login or a bad certificate for something that passes, tries again
until its time is up, and then says that it could not bootstrap. It throws away what a broker has
said right before it hung up, as one does that refuses a login. It picks at random among the servers
to start from, and waits for one that is frozen for as long as there is time. So `FailedConnections`
wraps two methods of its connection manager, one of them private.
"""

from __future__ import annotations

import logging
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from kafka import KafkaAdminClient
from kafka.errors import (
    IllegalSaslStateError,
    KafkaError,
    KafkaTimeoutError,
    NodeNotReadyError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from kafka.net.compat import KafkaNetClient

from retentiond.errors import KafkaUnavailable, OtherCluster
from retentiond.kafka.cluster_identity import ClusterIdentity
from retentiond.kafka.connecting import Sockets
from retentiond.kafka.connection_check import (
    lasting_problem,
    problem_with,
    unavailable_at,
    usable_context,
)
from retentiond.kafka.network_client import (
    NetworkClient,
    Throttled,
    ignore_throttling,
    prove_connections,
)
from retentiond.kafka.remedies import ConnectionProblem, ProblemKind, no_answer_from
from retentiond.kafka.settings.oauth import NoToken, TokenSource
from retentiond.kafka.settings.properties import CLIENT_ID, ClientSettings
from retentiond.kafka.settings.tls import FileStamps, file_stamps, speaks_tls

T = TypeVar("T")

Received = tuple[bytes, BaseException | None]

CONNECT_TIMEOUT_MS = 20_000
"""How long to try to reach any broker."""

CALLS_AT_ONCE = 4
"""How many requests of one client are under way at a time, each with as many of Kafka's as the
settings allow."""

RECONNECT_MS = 1_000
"""The longest pause before a broker is tried again, as with Kafka's own clients, unless the
settings name another."""


class Client:
    """A kafka-python client, made when first needed and again after it broke. Thread-safe.

    One that broke is closed by the last request that uses it.
    """

    def __init__(
        self,
        settings: ClientSettings,
        throttled: Throttled = ignore_throttling,
        identity: ClusterIdentity | None = None,
    ) -> None:
        """``identity``: of the cluster, where other clients share it."""
        self._settings = settings
        self._identity = identity or ClusterIdentity(settings.words.servers)
        self._throttled = throttled
        self._network: NetworkClient | None = None
        self._users: Counter[NetworkClient] = Counter()
        self._context: ssl.SSLContext | None = None
        self._stamps: FileStamps | None = None  # of the files that it was made of
        self._failed = FailedConnections(settings)
        self._lock = threading.Lock()
        self._calls = threading.BoundedSemaphore(CALLS_AT_ONCE)

    def run(self, request: Callable[[NetworkClient], Awaitable[T]]) -> T:
        """Runs a coroutine function on the client's I/O thread.

        Raises `KafkaUnavailable` where it raises an error of the client or of the protocol, and
        `OtherCluster` for good once a broker of another cluster has answered any of the clients.
        """
        with self._calls:
            self._identity.raise_if_two()
            try:
                answer = self._run(request)
            except (KafkaError, OSError) as error:
                self._identity.raise_if_two()
                raise self._failed.explained(error) from error
            self._identity.raise_if_two()
            return answer

    def close(self) -> None:
        """Waits for requests under way."""
        for _ in range(CALLS_AT_ONCE):
            self._calls.acquire()
        with self._lock:
            self._replace()
        self._calls.release(CALLS_AT_ONCE)

    def _run(self, request: Callable[[NetworkClient], Awaitable[T]]) -> T:
        with self._lock:
            network = self._usable_network()
            self._users[network] += 1
        try:
            return network.run(request)
        except (KafkaUnavailable, OtherCluster):  # a broker said no; the client is sound
            raise
        except BaseException:
            with self._lock:
                if network is self._network:
                    self._replace()
            raise
        finally:
            with self._lock:
                self._users[network] -= 1
                self._close_unused(network)

    def _usable_network(self) -> NetworkClient:
        if speaks_tls(self._settings):
            self._renew_certificates()
        if self._network is None:
            admin = _connect(self._settings, self._failed, self._identity, self._context)
            self._network = NetworkClient(
                admin,
                self._settings.max_in_flight,
                self._identity,
                self._throttled,
                self._settings.address_family,
            )
        return self._network

    def _renew_certificates(self) -> None:
        """A new client for renewed files. Until both of a pair are renewed, the old one serves."""
        stamps = file_stamps(self._settings)
        if stamps == self._stamps:
            return
        try:
            self._context = usable_context(self._settings)
        except KafkaUnavailable:
            if self._context is None:
                raise
        else:
            self._stamps = stamps
            self._replace()

    def _replace(self) -> None:
        """The next request makes another client; those under way go on with this one."""
        network, self._network = self._network, None
        if network is not None:
            self._close_unused(network)

    def _close_unused(self, network: NetworkClient) -> None:
        if network is not self._network and not self._users[network]:
            del self._users[network]
            network.close()


def _connect(
    settings: ClientSettings,
    failed: FailedConnections,
    identity: ClusterIdentity,
    context: ssl.SSLContext | None,
) -> KafkaAdminClient:
    """A client that has seen the cluster."""
    for name in LOGGERS_THAT_SHOW_SECRETS:
        logging.getLogger(name).addFilter(_is_no_debugging)
    options = {
        "client_id": CLIENT_ID,
        "reconnect_backoff_max_ms": RECONNECT_MS,
        **settings.kafka_python,
    }
    if settings.oauth:
        options["sasl_oauth_token_provider"] = TokenSource(settings.oauth)
    if context is not None:
        options["ssl_context"] = context
    clients: list[KafkaNetClient] = []

    def make(**config: Any) -> KafkaNetClient:
        clients.append(_ClosingClient(settings.address_family, **config))
        failed.watch(clients[-1]._manager)
        prove_connections(clients[-1]._manager, identity)
        return clients[-1]

    try:
        return KafkaAdminClient(
            bootstrap_timeout_ms=CONNECT_TIMEOUT_MS,
            max_in_flight_requests_per_connection=2 * CALLS_AT_ONCE * settings.max_in_flight,
            kafka_client=make,
            **options,
        )
    except BaseException:
        for client in clients:  # its constructor starts a thread, and leaves it when it raises
            client.close()
        raise


class _ClosingClient(KafkaNetClient):  # type: ignore[misc]  # untyped
    def __init__(self, family: socket.AddressFamily, **config: Any) -> None:
        super().__init__(**config)
        self._sockets = Sockets(self._manager, family)

    def close(self, node_id: object = None) -> None:
        super().close(node_id)
        if node_id is None:
            self._sockets.close()


LOGGERS_THAT_SHOW_SECRETS = ("kafka.admin.client", "kafka.net.connection", "kafka.protocol.parser")
"""kafka-python's loggers that print the configuration and SASL tokens when debugging."""


def _is_no_debugging(record: logging.LogRecord) -> bool:
    return record.levelno > logging.DEBUG


FIRST_TRY_MS = 2_000
"""How long each server is tried before retentiond looks what is wrong with them. Each further time
it is twice as long: one that is far away needs seven round trips."""

ALL_REFUSED_S = 2.0
"""How long to go on if all servers refuse at once: one of them may just be starting."""

REFUSED_WITHIN_S = 0.5
"""An attempt that fails so soon was refused."""

LOGIN_PROBLEMS = {
    IllegalSaslStateError: ProblemKind.NO_LOGIN,
    NoToken: ProblemKind.NO_TOKEN,
    SaslAuthenticationFailedError: ProblemKind.LOGIN_REFUSED,
    UnsupportedSaslMechanismError: ProblemKind.OTHER_MECHANISM,
}


class FailedConnections:
    """How the last connection to each broker failed, if it did."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._servers: dict[object, str] = {}  # by node id
        self._start()

    def _start(self) -> None:
        """Looks for a first broker from now on. What befell an earlier client is forgotten:
        somebody may have fixed it."""
        self._failed: dict[object, BaseException] = {}
        self._since = time.monotonic()
        self._tried_at: dict[object, float] = {}
        self._try_ms = FIRST_TRY_MS
        self._turns: set[object] = set()  # who was tried in this round
        self._refused: set[object] = set()
        self._has_looked = False

    def watch(self, manager: Any) -> None:
        """Sees to it that no connection of this new client goes unnoticed.

        Once every broker to start from has failed for good, its next attempt raises how.
        """
        self._start()
        connect, build_transport = manager.get_connection, manager._build_transport

        def get_connection(node_id: object, **options: Any) -> Any:
            if not manager.bootstrapped and "timeout_ms" in options:  # it looks for a first broker
                options["timeout_ms"] = self._turn(manager, node_id, options["timeout_ms"])
            made = connect(node_id, **options)
            if made.initializing:
                made.init_future.add_callback(lambda _: self._failed.pop(node_id, None))
                made.init_future.add_errback(partial(self._note, manager, node_id))
            return made

        async def attentive_transport(*node: Any, **options: Any) -> Any:
            transport = await build_transport(*node, **options)
            transport._sock_recv = partial(data_before_end, transport._sock_recv)
            return transport

        manager.get_connection = get_connection
        manager._build_transport = attentive_transport

    def explained(self, error: BaseException) -> KafkaUnavailable:
        """What to raise for a request that failed with ``error``."""
        at_fault = sorted(self._failed.items(), key=lambda failure: not is_final(failure[1]))
        for node_id, failure in at_fault[:1]:
            server = self._servers[node_id]
            if problem := _of_login(failure) or problem_with(server, self._settings):
                return unavailable_at(server, problem, self._settings)
        if isinstance(error, KafkaTimeoutError) and not at_fault:  # connected, and then hung up
            server = self._settings.bootstrap_servers.split(",")[0]
            if problem := problem_with(server, self._settings):
                return unavailable_at(server, problem, self._settings)
        return no_answer_from(self._settings.bootstrap_servers, error, self._settings.words)

    def _turn(self, manager: Any, node_id: object, timeout_ms: float) -> float:
        """How long this bootstrap server may take. None is tried again before all had their turn.
        Raises `NodeNotReadyError`, so that the next is picked, or what is wrong with all."""
        starting = {broker.node_id for broker in manager.cluster.bootstrap_brokers()}
        until = time.monotonic() + timeout_ms / 1000
        if starting <= self._turns:
            self._raise_if_in_vain(starting)
            self._turns.clear()
            self._try_ms *= 2
        elif node_id in self._turns:
            raise NodeNotReadyError(node_id)
        now = self._tried_at[node_id] = time.monotonic()
        self._turns.add(node_id)
        if now >= until:  # looking took all that there was
            raise KafkaTimeoutError("none of the servers to start from has answered in time")
        return min(1000 * (until - now), self._try_ms)

    def _raise_if_in_vain(self, starting: set[object]) -> None:
        if all(is_final(self._failed.get(node)) for node in starting):
            raise next(iter(self._failed.values()))
        if not self._has_looked:
            self._has_looked = True
            if wrong := lasting_problem(self._settings):
                raise wrong
        if starting <= self._refused and time.monotonic() - self._since > ALL_REFUSED_S:
            raise KafkaTimeoutError("none of the servers to start from answers")

    def _note(self, manager: Any, node_id: object, error: BaseException) -> None:
        broker = manager.cluster.broker_metadata(node_id)
        if broker is not None:
            self._servers[node_id] = f"{broker.host}:{broker.port}"
            self._failed[node_id] = error
        if time.monotonic() - self._tried_at.get(node_id, 0.0) < REFUSED_WITHIN_S:
            self._refused.add(node_id)
        else:
            self._refused.discard(node_id)


def is_final(error: BaseException | None) -> bool:
    """Whether the next attempt would end in the same way: it is about a login or a certificate."""
    if isinstance(error, (*LOGIN_PROBLEMS, ssl.SSLError)):
        return True
    causes = () if error is None else (error.__context__, *error.args)
    return any(isinstance(cause, BaseException) and is_final(cause) for cause in causes)


def data_before_end(receive: Callable[[], Received]) -> Received:
    """What was received, and why there will be no more: the end comes again when asked again."""
    data, end = receive()
    return (data, None) if data else (data, end)


def _of_login(error: BaseException) -> ConnectionProblem | None:
    for kind, problem in LOGIN_PROBLEMS.items():
        if isinstance(error, kind):
            said = " ".join(str(argument) for argument in error.args)
            said = said.removeprefix(f"{type(error).__name__}: ")
            return ConnectionProblem(problem, " ".join(said.split()))
    return None
