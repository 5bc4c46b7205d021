"""One live client: its requests, as coroutines on its I/O thread.

This file, and `attempts.py` for what a failed connection says, touch what is private to
kafka-python's clients; its version is pinned for that reason.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from kafka import KafkaAdminClient
from kafka.errors import KafkaError
from kafka.protocol.metadata import MetadataRequest

T = TypeVar("T")

FRESH_S = 5.0
"""How long what the metadata said is believed: for one reading."""

LATER_S = 0.01
"""So that kafka-python has noticed, too, that the time is up."""

OFFSETS_TOPIC = "__consumer_offsets"

WITH_RIGHTS = 10
"""The last version of Metadata that tells what the principal may do with the cluster; later ones
leave that to a request of its own (KIP-700)."""


def metadata_request(names: Iterable[str] | None, **more: Any) -> Any:
    """Asks a broker about topics, None: all that are visible; and who the brokers are.

    One that is asked for by its name is answered with an error where it may not be seen; a
    listing leaves it out without a word.
    """
    topics = (
        None
        if names is None
        else [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    )
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False, **more)


def offsets_topic_request() -> Any:
    """Asks a broker who leads ``__consumer_offsets``, and what this principal may do with the
    cluster: ``authorized_operations``, None where the broker is too old to tell."""
    return metadata_request(
        [OFFSETS_TOPIC], include_cluster_authorized_operations=True, max_version=WITH_RIGHTS
    )


Throttled = Callable[[float], None]
"""Told how many seconds a request waits because of a broker's quota."""


def unheard(_: float) -> None: ...


class Link:
    """One live client, as the coroutines see it that `Connection.run` runs on its I/O thread."""

    def __init__(
        self, admin: KafkaAdminClient, max_in_flight: int, throttled: Throttled = unheard
    ) -> None:
        self._admin = admin
        self._manager = admin._manager
        self._max_in_flight = max_in_flight
        self._throttled = throttled
        self._learnt_at = -math.inf
        self._listed_by: Mapping[str, int] = {}
        self._listed_at = -math.inf

    async def send(self, request: Any, node_id: int | None = None) -> Any:
        """One request to a broker; its decoded response.

        By default to any, and to all of them if that one does not answer: it may have died a
        moment ago.
        """
        await self._wait_for_quota(node_id)
        try:
            return await self._manager.send(request, node_id=node_id)
        except (KafkaError, OSError):
            nodes = self.known_brokers() if node_id is None else []
            for answer in await self.send_all([(node, request) for node in nodes]):
                if not isinstance(answer, Exception):
                    return answer
            raise

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
                window, rest = positions[: self._max_in_flight], positions[self._max_in_flight :]
                await self._wait_for_quota(node)
                for position in window:
                    try:
                        future = self._manager.send(requests[position][1], node_id=node)
                    except KafkaError as error:  # a broker that the metadata does not know
                        answers[position] = error
                    else:
                        sent.append((position, future))
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
        metadata = await self.send(offsets_topic_request())
        self.learn(metadata)
        return metadata

    async def topics(self, names: Iterable[str] | None) -> Any:
        """Fresh metadata of those topics, None: all that are visible; the client learns today's
        brokers from it."""
        metadata = await self.send(metadata_request(names))
        self.learn(metadata)
        return metadata

    def learn(self, metadata: Any) -> None:
        """Today's brokers, from any answer that shows them."""
        self._manager.cluster.update_metadata(metadata)
        self._learnt_at = time.monotonic()

    async def brokers(self) -> list[int]:
        """The living brokers; asks for them unless it has learnt of them a moment ago."""
        if time.monotonic() - self._learnt_at > FRESH_S:
            await self.offsets_topic()
        return self.known_brokers()

    def forget_brokers(self) -> None:
        """Whatever it has learnt of them is asked for anew."""
        self._learnt_at = -math.inf

    def learn_listing(self, listed_by: Mapping[str, int]) -> None:
        """Which broker has listed each group, just now."""
        self._listed_by = listed_by
        self._listed_at = time.monotonic()

    def listed_by(self) -> Mapping[str, int]:
        """Which broker listed each group a moment ago; nothing where that is longer ago."""
        return self._listed_by if time.monotonic() - self._listed_at <= FRESH_S else {}

    async def describe_cluster(self) -> dict[str, Any]:
        await self._wait_for_quota(None)
        try:
            described: dict[str, Any] = await self._admin._describe_cluster()
        except (KafkaError, OSError):  # the broker may just have died; then another one is asked
            described = await self._admin._describe_cluster()
        return described

    async def coordinator_of(self, group: str) -> int:
        """The coordinator's node, asked for one group, as brokers before 3.0 need it."""
        node: int = await self._admin._find_coordinator_id(group)
        return node

    async def _wait_for_quota(self, node_id: int | None) -> None:
        """For as long as the broker has asked to be left alone (``throttle_time_ms``, KIP-219);
        None: until one of them has not. Until then kafka-python fails every request to it."""
        nodes = self.known_brokers() if node_id is None else [node_id]
        connections = [self._manager._conns.get(node) for node in nodes]
        until = min((each._throttle_time if each else 0.0 for each in connections), default=0.0)
        seconds = until - time.monotonic()
        if seconds > 0:
            self._throttled(seconds)
            await self._manager._net.sleep(seconds + LATER_S)

    def known_brokers(self) -> list[int]:
        """As the metadata showed them that the client has last seen."""
        return [broker.node_id for broker in self._manager.cluster.brokers()]

    def forget_coordinators(self) -> None:
        """kafka-python never invalidates its coordinator cache."""
        self._manager.cluster._coordinators.clear()

    def version_of(self, request: Any) -> int:
        """The highest version of a request that both sides speak.

        Raises `kafka.errors.IncompatibleBrokerVersion` if there is none.
        """
        version: int = self._manager.broker_version_data.api_version(request)
        return version

    def run(self, request: Callable[[Link], Awaitable[T]]) -> T:
        """Blocks until the coroutine has ended on the I/O thread."""
        return self._manager.run(request, self)  # type: ignore[no-any-return]  # untyped

    def close(self) -> None:
        self._admin.close()
