"""kafka-python's own connection, for requests that its public methods can't express.

The public methods raise on the first error of a batch, cache coordinators for ever and list
groups from a broker list that may be minutes old. So retentiond sends the protocol's requests
itself. This is the one file that touches kafka-python's private attributes; its version is
pinned for that reason.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from kafka import KafkaAdminClient
from kafka.errors import KafkaError
from kafka.protocol.metadata import MetadataRequest

from retentiond.errors import KafkaUnavailable
from retentiond.kafka.oauth import TokenSource
from retentiond.kafka.properties import ClientSettings

T = TypeVar("T")

CONNECT_TIMEOUT_MS = 10_000

MAX_IN_FLIGHT = 8
"""Requests waiting for one broker's answer at a time."""

OFFSETS_TOPIC = "__consumer_offsets"


class Connection:
    """A kafka-python admin client, made when first needed and anew after it broke."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._admin: KafkaAdminClient | None = None
        self._lock = threading.Lock()

    def run(self, request: Callable[[], Awaitable[T]]) -> T:
        """Runs a coroutine function on the client's I/O thread.

        Raises `KafkaUnavailable` where it raises an error of the client or of the protocol.
        """
        try:
            return self._open()._manager.run(request)  # type: ignore[no-any-return]  # untyped
        except (KafkaError, OSError, asyncio.CancelledError) as error:
            self.close()
            raise KafkaUnavailable(
                f"{self._settings.bootstrap_servers} can't be asked: {error}; "
                "check kafka.bootstrap.servers, the network and the credentials"
            ) from error

    async def send(self, request: Any, node_id: int | None = None) -> Any:
        """One request to a broker (any, by default); its decoded response."""
        return await self._open()._manager.send(request, node_id=node_id)

    async def send_all(self, requests: Sequence[tuple[int, Any]]) -> list[Any]:
        """Requests to (node, request) at once, a bounded number in flight for each node.

        Returns, in order, each response, or the error that came instead of it.
        """
        answers: list[Any] = [None] * len(requests)
        waiting: dict[int, list[int]] = {}
        for position, (node, _) in enumerate(requests):
            waiting.setdefault(node, []).append(position)
        while waiting:
            sent: list[tuple[int, Any]] = []
            for node, positions in list(waiting.items()):
                window, rest = positions[:MAX_IN_FLIGHT], positions[MAX_IN_FLIGHT:]
                for position in window:
                    request = requests[position][1]
                    sent.append((position, self._open()._manager.send(request, node_id=node)))
                if rest:
                    waiting[node] = rest
                else:
                    del waiting[node]
            for position, future in sent:
                try:
                    answers[position] = await future
                except (KafkaError, OSError) as error:
                    answers[position] = error
        return answers

    async def offsets_topic(self) -> Any:
        """Fresh metadata of ``__consumer_offsets``; the client learns today's brokers from it."""
        topic = MetadataRequest.MetadataRequestTopic(name=OFFSETS_TOPIC)
        metadata = await self.send(MetadataRequest(topics=[topic], allow_auto_topic_creation=False))
        self._open()._manager.cluster.update_metadata(metadata)
        return metadata

    async def describe_cluster(self) -> dict[str, Any]:
        described: dict[str, Any] = await self._open()._describe_cluster()
        return described

    async def coordinator_of(self, group: str) -> int:
        """The coordinator's node, asked for one group, as brokers before 3.0 need it."""
        node: int = await self._open()._find_coordinator_id(group)
        return node

    def forget_coordinators(self) -> None:
        """kafka-python never invalidates its coordinator cache."""
        self._open()._manager.cluster._coordinators.clear()

    def version_of(self, request: Any) -> int:
        """The highest version of a request that both sides speak.

        Raises `kafka.errors.IncompatibleBrokerVersion` if there is none.
        """
        version: int = self._open()._manager.broker_version_data.api_version(request)
        return version

    def close(self) -> None:
        with self._lock:
            admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()

    def _open(self) -> KafkaAdminClient:
        with self._lock:
            if self._admin is None:
                settings = dict(self._settings.kafka_python)
                if self._settings.oauth:
                    settings["sasl_oauth_token_provider"] = TokenSource(self._settings.oauth)
                self._admin = KafkaAdminClient(
                    bootstrap_timeout_ms=CONNECT_TIMEOUT_MS,
                    max_in_flight_requests_per_connection=2 * MAX_IN_FLIGHT,
                    **settings,
                )
            return self._admin
