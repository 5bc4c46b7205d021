"""What became of kafka-python's connections, which it tells its log and no caller.

While it looks for a first broker it takes a refused login or a bad certificate for something
that passes, tries again until its time is up, and then says that it could not bootstrap. And it
throws away what a broker has said right before it hung up, as one does that refuses a login.
This file wraps two methods of its connection manager, one of them private; see `connection`.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from functools import partial
from typing import Any

from kafka.errors import (
    IllegalSaslStateError,
    KafkaTimeoutError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)

from retentiond.errors import KafkaUnavailable
from retentiond.kafka import failures
from retentiond.kafka.oauth import NoToken
from retentiond.kafka.properties import ClientSettings
from retentiond.kafka.reach import trouble_with
from retentiond.kafka.trouble import Kind, Trouble, unavailable

Received = tuple[bytes, BaseException | None]

OF_THE_LOGIN = {
    IllegalSaslStateError: Kind.NO_LOGIN,
    NoToken: Kind.NO_TOKEN,
    SaslAuthenticationFailedError: Kind.LOGIN_REFUSED,
    UnsupportedSaslMechanismError: Kind.OTHER_MECHANISM,
}


class Attempts:
    """Knows for each broker how the last connection to it failed, if it did."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._failed: dict[object, BaseException] = {}  # by node id
        self._servers: dict[object, str] = {}

    def watch(self, manager: Any) -> None:
        """Sees to it that no connection of this new client goes unnoticed.

        Once every broker to start from has failed for good, its next attempt raises how. What
        befell an earlier client is forgotten: somebody may have mended it.
        """
        self._failed.clear()
        connect, build_transport = manager.get_connection, manager._build_transport

        def get_connection(node_id: object, **options: Any) -> Any:
            if not manager.bootstrapped and self._is_hopeless(manager):
                raise next(iter(self._failed.values()))
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
            if trouble := _of_login(failure) or trouble_with(server, self._settings):
                return unavailable(server, trouble, self._settings.words)
        if isinstance(error, KafkaTimeoutError) and not at_fault:  # connected, and then hung up
            server = self._settings.bootstrap_servers.split(",")[0]
            if trouble := trouble_with(server, self._settings):
                return unavailable(server, trouble, self._settings.words)
        return failures.unavailable(self._settings.bootstrap_servers, error)

    def _is_hopeless(self, manager: Any) -> bool:
        starting = [broker.node_id for broker in manager.cluster.bootstrap_brokers()]
        return all(node in self._failed and is_final(self._failed[node]) for node in starting)

    def _succeeded(self, node_id: object, _: object) -> None:
        self._failed.pop(node_id, None)

    def _note(self, manager: Any, node_id: object, error: BaseException) -> None:
        broker = manager.cluster.broker_metadata(node_id)
        if broker is not None:
            self._servers[node_id] = f"{broker.host}:{broker.port}"
            self._failed[node_id] = error


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


def _of_login(error: BaseException) -> Trouble | None:
    for kind, trouble in OF_THE_LOGIN.items():
        if isinstance(error, kind):
            return Trouble(trouble, _words(error))
    return None


def _words(error: BaseException) -> str:
    """The broker's own, on one line."""
    said = " ".join(str(each) for each in error.args)
    return " ".join(said.removeprefix(f"{type(error).__name__}: ").split())
