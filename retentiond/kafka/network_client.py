"""Sends requests to brokers and awaits their answers, on the I/O thread of one live client.

This file, and `retentiond.kafka.client` for what a failed connection says, touch what is private to
kafka-python's clients; its version is pinned for that reason.
"""

from __future__ import annotations

import contextlib
import math
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import kafka.errors as kp_errors
from kafka import KafkaAdminClient
from kafka.admin import ACLOperation
from kafka.errors import KafkaError
from kafka.protocol.admin import DescribeClusterRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.schemas.fields.codecs import UnsignedVarInt32
from kafka.protocol.schemas.fields.codecs.tagged_fields import TaggedFields

from retentiond.kafka.broker_errors import BY_CODE, BrokerError
from retentiond.kafka.cluster_identity import ClusterIdentity
from retentiond.kafka.connecting import look_up
from retentiond.kafka.interface import OFFSETS_TOPIC
from retentiond.model import Failure

T = TypeVar("T")


def _read_empty_tags(_cls: type[TaggedFields], data: Any) -> None:
    """kafka-python reads them inside of an ``assert``, so with PYTHONOPTIMIZE it reads on at the
    wrong byte, and takes a healthy broker for one that does not answer."""
    if UnsignedVarInt32.decode(data) != 0:
        raise ValueError("tagged fields where the schema has none")


TaggedFields.decode_empty = classmethod(_read_empty_tags)

METADATA_FRESH_S = 5.0
"""How long what the metadata said is believed: for one reading."""

AFTER_TIMEOUT_S = 0.01
"""So that kafka-python has noticed, too, that the time is up."""

POLL_S = 0.02
"""How often it asks whether to give up."""

PROOF_S = 1.0
"""How long right before a request a broker may take to tell which cluster it belongs to."""

NO_ERROR = BrokerError.NO_ERROR.code
UNKNOWN_TOPIC = BrokerError.UNKNOWN_TOPIC_OR_PARTITION.code

LAST_METADATA_WITH_RIGHTS = 10
"""The last version of Metadata that tells what the principal may do with the cluster; later ones
leave that to a request of its own (KIP-700)."""


def failure_of_exception(error: BaseException) -> Failure:
    """Of an exception that Kafka's protocol does not have, the class name is the code."""
    if isinstance(error, kp_errors.BrokerResponseError):
        return Failure(error.message or type(error).__name__, error.description or str(error))
    return Failure(type(error).__name__, str(error))


def failure_of_code(code: int, message: str | None = None) -> Failure:
    """``message``: the broker's, if it sent one."""
    entry = BY_CODE.get(code)
    if entry is None:
        return Failure(f"ERROR_{code}", message or "this version does not know that error")
    described = kp_errors.for_code(code).description if code in kp_errors.kafka_errors else None
    return Failure(entry.name, message or described or "")


def metadata_request(names: Iterable[str] | None, **more: Any) -> Any:
    """Who the brokers are, and those topics; None: all that are visible.

    A topic that may not be seen is answered with an error if it is asked for by its name; a listing
    leaves it out silently.
    """
    topics = (
        None
        if names is None
        else [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    )
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False, **more)


def offsets_topic_request() -> Any:
    """Who leads ``__consumer_offsets``, and what this principal may do with the cluster:
    ``authorized_operations``, None where the broker is too old to tell."""
    return metadata_request(
        [OFFSETS_TOPIC],
        include_cluster_authorized_operations=True,
        max_version=LAST_METADATA_WITH_RIGHTS,
    )


OPERATIONS = {operation.value: operation.name for operation in ACLOperation}


def operations_in(answer: Any) -> frozenset[str] | None:
    """What this principal may do: ``DESCRIBE``, ``DELETE``, …; None where the broker doesn't tell.
    Without an authorizer everything is allowed."""
    told = answer.authorized_operations
    return (
        None if told is None else frozenset(OPERATIONS[code] for code in told if code in OPERATIONS)
    )


Throttled = Callable[[float], None]
"""Told how many seconds a request waits because of a broker's quota."""


def ignore_throttling(_: float) -> None: ...


def prove_connections(manager: Any, identity: ClusterIdentity) -> None:
    """Has each connection of a new client ask for the cluster id before it carries anything else,
    and compares what the client learns of the cluster by itself.

    A connection that another cluster answers never opens: what waits for it fails.
    """
    connect, update_metadata = manager._connect, manager.cluster.update_metadata

    async def proven_connect(node: Any, connection: Any, **options: Any) -> None:
        _ask_first(connection, identity)
        await connect(node, connection, **options)

    def compared_update(metadata: Any) -> None:
        endpoints = [(node, host, port) for node, host, port, *_ in metadata.brokers]
        identity.learn(metadata.cluster_id, endpoints)
        update_metadata(metadata)

    manager._connect = proven_connect
    manager.cluster.update_metadata = compared_update


def _ask_first(connection: Any, identity: ClusterIdentity) -> None:
    """The last step of its opening is followed by one request about no topic."""
    last = "_sasl_authenticate" if connection.sasl_enabled else "_get_api_versions"
    step = getattr(connection, last)

    async def step_and_proof(timeout_at: float | None = None) -> None:
        await step(timeout_at)
        setattr(connection, last, step)  # a login is renewed over a connection that is proven
        metadata = await connection._send_request(metadata_request(()), timeout_at=timeout_at)
        identity.check(metadata.cluster_id)
        # The answer may have used a quota up; whatever is sent before that is over would fail.
        throttled_s = connection._throttle_time - time.monotonic()
        if throttled_s > 0:
            await connection.net.sleep(throttled_s + AFTER_TIMEOUT_S)

    setattr(connection, last, step_and_proof)


def _throttled_until(connections: Iterable[Any]) -> float:
    return min(
        (connection._throttle_time if connection else 0.0 for connection in connections),
        default=0.0,
    )


class NetworkClient:
    """One live client, as the coroutines see it that `Client.run` runs on its I/O thread."""

    def __init__(
        self,
        admin: KafkaAdminClient,
        max_in_flight: int,
        identity: ClusterIdentity,
        throttled: Throttled = ignore_throttling,
        family: socket.AddressFamily = socket.AddressFamily.AF_UNSPEC,
    ) -> None:
        self._admin = admin
        self._family = family
        self._identity = identity
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
            return self._compared(await self._manager.send(request, node_id=node_id))
        except (KafkaError, OSError):
            nodes = self.known_brokers() if node_id is None else []
            for answer in await self.send_all([(node, request) for node in nodes]):
                if not isinstance(answer, Exception):
                    return answer
            raise

    async def send_all(
        self,
        requests: Sequence[tuple[int, Any]],
        in_flight: int | None = None,
        give_up: Callable[[], bool] | None = None,
    ) -> list[Any]:
        """``requests``: (node, request). Returns, in order, each response, or the error that came
        instead of it; None for what was not answered when ``give_up`` said so. ``in_flight``: at
        most so many at once for each node."""
        at_once = in_flight or self._max_in_flight
        answers: list[Any] = [None] * len(requests)
        waiting: dict[int, list[int]] = {}
        for position, (node, _) in enumerate(requests):
            waiting.setdefault(node, []).append(position)
        while waiting:
            sent: list[tuple[int, Any]] = []
            for node, positions in list(waiting.items()):
                window, rest = positions[:at_once], positions[at_once:]
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
                while give_up and not future.is_done and not give_up():
                    await self._manager._net.sleep(POLL_S)
                if give_up and not future.is_done:
                    continue
                try:
                    answers[position] = self._compared(await future)
                except (KafkaError, OSError) as error:
                    answers[position] = error
        return answers

    async def send_batches(
        self,
        by_node: Mapping[int, Sequence[T]],
        size: int,
        request: Callable[[Sequence[T]], Any],
        in_flight: int | None = None,
    ) -> list[tuple[Sequence[T], Any]]:
        """``by_node``: what each node is asked about, at most ``size`` in a request. Returns each
        batch with its response, or with the error that came instead of it."""
        batches = [
            (node, items[start : start + size])
            for node, items in by_node.items()
            for start in range(0, len(items), size)
        ]
        requests = [(node, request(batch)) for node, batch in batches]
        answers = await self.send_all(requests, in_flight)
        return [(batch, answer) for (_, batch), answer in zip(batches, answers, strict=True)]

    def _compared(self, answer: Any) -> Any:
        """Raises `OtherCluster` where the answer tells that it is another cluster's."""
        self._identity.check(getattr(answer, "cluster_id", None))
        return answer

    async def offsets_topic(self) -> Any:
        """Fresh metadata of ``__consumer_offsets``; the client learns today's brokers from it."""
        metadata = await self.send(offsets_topic_request())
        self.learn(metadata)
        return metadata

    async def topics(self, names: Iterable[str] | None) -> Any:
        """As `offsets_topic`, of those topics; None: of all that are visible."""
        metadata = await self.send(metadata_request(names))
        self.learn(metadata)
        return metadata

    def learn(self, metadata: Any) -> None:
        self._manager.cluster.update_metadata(metadata)
        self._learnt_at = time.monotonic()

    async def brokers(self) -> list[int]:
        """The living brokers; asks for them unless it has learnt of them a moment ago."""
        if time.monotonic() - self._learnt_at > METADATA_FRESH_S:
            await self.offsets_topic()
        return self.known_brokers()

    def forget_brokers(self) -> None:
        self._learnt_at = -math.inf

    def learn_listing(self, listed_by: Mapping[str, int]) -> None:
        """Which broker has listed each group, just now."""
        self._listed_by = listed_by
        self._listed_at = time.monotonic()

    def listed_by(self) -> Mapping[str, int]:
        """Which broker listed each group a moment ago; nothing where that is longer ago."""
        return self._listed_by if time.monotonic() - self._listed_at <= METADATA_FRESH_S else {}

    async def describe_cluster(self) -> dict[str, Any]:
        """``cluster_id``; ``brokers``, each with its ``broker_id`` and, from Kafka 4.0 on,
        ``is_fenced``; ``authorized_operations``, as in `operations_in`.

        kafka-python's own trips over the answer of a broker before 3.7.
        """
        answer = await self.send(
            DescribeClusterRequest(
                include_cluster_authorized_operations=True, include_fenced_brokers=True
            )
        )
        if answer.error_code:
            raise kp_errors.for_code(answer.error_code)(answer.error_message)
        described: dict[str, Any] = answer.to_dict()
        return described | {"authorized_operations": operations_in(answer)}

    async def _wait_for_quota(self, node_id: int | None) -> None:
        """Waits as long as the broker has asked (``throttle_time_ms``, KIP-219); for None, until a
        known broker is free. Until then kafka-python fails every request to it."""
        nodes = self.known_brokers() if node_id is None else [node_id]
        connections = [self._manager._conns.get(node) for node in nodes]
        while (seconds := _throttled_until(connections) - time.monotonic()) > 0:
            self._throttled(seconds)
            await self._manager._net.sleep(seconds + AFTER_TIMEOUT_S)

    async def round_trip_s(self) -> float:
        """How long the slowest broker takes to answer next to nothing, once it is connected to."""
        await self.brokers()
        await self.answer_times()
        return max((await self.answer_times()).values(), default=0.0)

    async def answer_times(self) -> dict[int, float]:
        """After how many seconds each known broker has answered next to nothing; all are asked at
        once. One that does not answer is left out."""
        nodes = self.known_brokers()
        began = time.monotonic()
        seconds: dict[int, float] = {}

        def note(node: int, _answer: object) -> None:
            seconds[node] = time.monotonic() - began

        futures = [self._manager.send(metadata_request(()), node_id=node) for node in nodes]
        for node, future in zip(nodes, futures, strict=True):
            future.add_callback(partial(note, node))
        for future in futures:
            with contextlib.suppress(KafkaError, OSError):
                await future
        return seconds

    async def proven_brokers(self) -> frozenset[int]:
        """The known brokers that have told within `PROOF_S` that they belong to this cluster."""
        give_up_at = time.monotonic() + PROOF_S
        nodes = self.known_brokers()
        answers = await self.send_all(
            [(node, metadata_request(())) for node in nodes],
            give_up=lambda: time.monotonic() > give_up_at,
        )
        return frozenset(
            node
            for node, answer in zip(nodes, answers, strict=True)
            if getattr(answer, "cluster_id", None) is not None
        )

    async def look_up_times(self) -> dict[int, float]:
        """After how many seconds the name of each known broker is looked up; the next connections
        go by the answers."""
        began = time.monotonic()
        seconds: dict[int, float] = {}

        def note(node: int, _addresses: object) -> None:
            seconds[node] = time.monotonic() - began

        brokers = {broker.node_id: broker for broker in self._manager.cluster.brokers()}
        for node, broker in brokers.items():
            name = (broker.host, broker.port, self._family)
            look_up(name, anew=True).add_done_callback(partial(note, node))
        while seconds.keys() < brokers.keys():
            await self._manager._net.sleep(POLL_S)
        return seconds

    def disconnect(self) -> None:
        for node in self.known_brokers():
            self._manager.close(node)

    def known_brokers(self) -> list[int]:
        """By the last metadata."""
        return [broker.node_id for broker in self._manager.cluster.brokers()]

    def version_of(self, request: Any) -> int:
        """The highest version of a request that both sides speak.

        Raises `kafka.errors.IncompatibleBrokerVersion` if there is none.
        """
        version: int = self._manager.broker_version_data.api_version(request)
        return version

    def run(self, request: Callable[[NetworkClient], Awaitable[T]]) -> T:
        """Blocks until the coroutine has ended on the I/O thread."""
        return self._manager.run(request, self)  # type: ignore[no-any-return]  # untyped

    def close(self) -> None:
        self._admin.close()
