"""kafka-python's client, for requests that its public methods can't express.

The public methods raise on the first error of a batch, cache coordinators for ever and list
groups from a broker list that may be minutes old. So retentiond sends the protocol's requests
itself, over a `retentiond.kafka.network_client.NetworkClient`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from kafka import KafkaAdminClient
from kafka.errors import KafkaError
from kafka.net.compat import KafkaNetClient

from retentiond.errors import KafkaUnavailable, OtherCluster
from retentiond.kafka.cluster_identity import ClusterIdentity
from retentiond.kafka.errors.kafka_python import FailedConnections
from retentiond.kafka.network_client import (
    NetworkClient,
    Throttled,
    ignore_throttling,
    prove_connections,
)
from retentiond.kafka.settings.oauth import TokenSource
from retentiond.kafka.settings.properties import ClientSettings
from retentiond.kafka.settings.tls import (
    FileStamps,
    client_context,
    file_stamps,
    has_own_context,
)

T = TypeVar("T")

CONNECT_TIMEOUT_MS = 10_000
"""How long to try to reach any broker."""

RECONNECT_MS = 1_000
"""The longest pause before a broker is tried again, as with Kafka's own clients, unless the
settings name another."""


class Client:
    """A kafka-python client, made when first needed and anew after it broke.

    One request at a time: a client that broke is closed under nobody's feet.
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
        self._stamps: FileStamps = ()
        self._failed = FailedConnections(settings)
        self._lock = threading.Lock()

    def run(self, request: Callable[[NetworkClient], Awaitable[T]]) -> T:
        """Runs a coroutine function on the client's I/O thread.

        Raises `KafkaUnavailable` where it raises an error of the client or of the protocol, and
        `OtherCluster` for good once a broker of another cluster has answered any of the clients.
        """
        with self._lock:
            self._identity.raise_if_two()
            try:
                answer = self._live().run(request)
            except (KafkaUnavailable, OtherCluster):  # a broker said no; the client is sound
                raise
            except (KafkaError, OSError) as error:
                self._drop()
                self._identity.raise_if_two()
                raise self._failed.explained(error) from error
            except BaseException:
                self._drop()
                raise
            self._identity.raise_if_two()
            return answer

    def close(self) -> None:
        """Waits for a request under way."""
        with self._lock:
            self._drop()

    def _live(self) -> NetworkClient:
        stamps = file_stamps(self._settings) if has_own_context(self._settings) else ()
        if stamps != self._stamps and self._is_usable():
            self._drop()  # kafka-python itself reads them for each connection
        if self._network is None:
            self._stamps = stamps
            admin = _connect(self._settings, self._failed, self._identity)
            self._network = NetworkClient(
                admin, self._settings.max_in_flight, self._identity, self._throttled
            )
        return self._network

    def _is_usable(self) -> bool:
        """Whether the certificate fits its key: half of a pair may be renewed yet."""
        try:
            client_context(self._settings)
        except OSError:
            return False
        return True

    def _drop(self) -> None:
        network, self._network = self._network, None
        if network is not None:
            network.close()


def _connect(
    settings: ClientSettings, failed: FailedConnections, identity: ClusterIdentity
) -> KafkaAdminClient:
    """A client that has seen the cluster. One that has not leaves no thread and no socket."""
    for name in SECRETIVE:
        logging.getLogger(name).addFilter(_is_no_debugging)
    options = {"reconnect_backoff_max_ms": RECONNECT_MS, **settings.kafka_python}
    if settings.oauth:
        options["sasl_oauth_token_provider"] = TokenSource(settings.oauth)
    if has_own_context(settings):
        options["ssl_context"] = client_context(settings)
    clients: list[KafkaNetClient] = []

    def make(**config: Any) -> KafkaNetClient:
        clients.append(KafkaNetClient(**config))
        failed.watch(clients[-1]._manager)
        prove_connections(clients[-1]._manager, identity)
        return clients[-1]

    try:
        return KafkaAdminClient(
            bootstrap_timeout_ms=CONNECT_TIMEOUT_MS,
            max_in_flight_requests_per_connection=2 * settings.max_in_flight,
            kafka_client=make,
            **options,
        )
    except BaseException:
        for client in clients:  # its constructor starts a thread, and leaves it when it raises
            client.close()
        raise


SECRETIVE = ("kafka.admin.client", "kafka.net.connection", "kafka.protocol.parser")
"""kafka-python's loggers that print the configuration and SASL tokens when debugging."""


def _is_no_debugging(record: logging.LogRecord) -> bool:
    return record.levelno > logging.DEBUG
