"""kafka-python's own connection, for requests that its public methods can't express.

The public methods raise on the first error of a batch, cache coordinators for ever and list
groups from a broker list that may be minutes old. So retentiond sends the protocol's requests
itself, over a `retentiond.kafka.link.Link`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from kafka import KafkaAdminClient
from kafka.errors import KafkaError
from kafka.net.compat import KafkaNetClient

from retentiond.errors import KafkaUnavailable
from retentiond.kafka.attempts import Attempts
from retentiond.kafka.link import Link, Throttled, unheard
from retentiond.kafka.oauth import TokenSource
from retentiond.kafka.properties import ClientSettings
from retentiond.kafka.tls import client_context

T = TypeVar("T")

CONNECT_TIMEOUT_MS = 10_000
"""How long to try to reach any broker."""

RECONNECT_MS = 1_000
"""The longest pause before a broker is tried again, as with Kafka's own clients, unless the
settings name another."""


class Connection:
    """A kafka-python client, made when first needed and anew after it broke.

    One request at a time: a client that broke is closed under nobody's feet.
    """

    def __init__(self, settings: ClientSettings, throttled: Throttled = unheard) -> None:
        self._settings = settings
        self._throttled = throttled
        self._link: Link | None = None
        self._attempts = Attempts(settings)
        self._lock = threading.Lock()

    def run(self, request: Callable[[Link], Awaitable[T]]) -> T:
        """Runs a coroutine function on the client's I/O thread.

        Raises `KafkaUnavailable` where it raises an error of the client or of the protocol.
        """
        with self._lock:
            try:
                if self._link is None:
                    admin = _connect(self._settings, self._attempts)
                    self._link = Link(admin, self._settings.max_in_flight, self._throttled)
                return self._link.run(request)
            except KafkaUnavailable:  # a broker said no; the client is sound
                raise
            except (KafkaError, OSError) as error:
                self._drop()
                raise self._attempts.explained(error) from error
            except BaseException:
                self._drop()
                raise

    def close(self) -> None:
        """Waits for a request under way."""
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()


def _connect(settings: ClientSettings, attempts: Attempts) -> KafkaAdminClient:
    """A client that has seen the cluster. One that has not leaves no thread and no socket."""
    for name in SECRETIVE:
        logging.getLogger(name).addFilter(_is_no_debugging)
    options = {"reconnect_backoff_max_ms": RECONNECT_MS, **settings.kafka_python}
    if settings.oauth:
        options["sasl_oauth_token_provider"] = TokenSource(settings.oauth)
    if "ssl_crlfile" in options:  # its own way of loading one is a TypeError
        options["ssl_context"] = client_context(settings)
    clients: list[KafkaNetClient] = []

    def make(**config: Any) -> KafkaNetClient:
        clients.append(KafkaNetClient(**config))
        attempts.watch(clients[-1]._manager)
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
