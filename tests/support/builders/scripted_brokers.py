"""Brokers behind a real `NetworkClient`: what they answer is a test's, when is the driver's."""

from __future__ import annotations

import io
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable
from types import SimpleNamespace
from typing import Any, TypeVar

from kafka.future import Future
from kafka.protocol.consumer import OffsetFetchResponse
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

from retentiond.kafka.client import Client
from retentiond.kafka.cluster_identity import ClusterIdentity
from retentiond.kafka.network_client import NetworkClient
from retentiond.kafka.settings.properties import USUAL_IN_FLIGHT
from retentiond.kafka.wire.by_hand import BATCHED_OFFSETS, BatchedOffsetFetchRequest

T = TypeVar("T")

PAUSE, NO_ANSWER = object(), object()

Answer = Callable[[Any, int | None], Any]
"""Of (request, node): the response, or the error that comes instead of one, or `NO_ANSWER`."""


class Brokers:
    """Stands in for kafka-python's connection manager: one answer at a time, the last sent first.

    ``requests``: every (node, request) that went out; ``most_in_flight``: of each node.
    """

    def __init__(
        self,
        answer: Answer,
        versions: dict[type, int] | None = None,
        nodes: Iterable[int] = (),
    ) -> None:
        self.requests: list[tuple[int | None, Any]] = []
        self.most_in_flight: Counter[int | None] = Counter()
        self._nodes = list(nodes)
        self.cluster = SimpleNamespace(
            update_metadata=self._learn,
            brokers=lambda: [SimpleNamespace(node_id=node) for node in self._nodes],
        )
        self.broker_version_data = SimpleNamespace(api_version=self._version)
        self._conns: dict[int, Any] = {}
        self._net = SimpleNamespace(sleep=lambda _seconds: self.send(PAUSE))
        self._answer = answer
        self._versions = versions or {}
        self._waiting: deque[tuple[int | None, Any, Future]] = deque()

    def send(self, request: Any, node_id: int | None = None) -> Future:
        future = Future()
        if request is PAUSE:  # ends when nothing else is left to be answered
            self._waiting.appendleft((node_id, request, future))
            return future
        self.requests.append((node_id, request))
        self._waiting.append((node_id, request, future))
        in_flight = sum(node == node_id for node, _, _ in self._waiting)
        self.most_in_flight[node_id] = max(self.most_in_flight[node_id], in_flight)
        return future

    def run(self, coroutine: Awaitable[T]) -> T:
        """To its end, answering whenever it can't go on without an answer."""
        steps = coroutine.__await__()
        try:
            while True:
                awaited = next(steps)
                while not awaited.is_done:
                    self._answer_one()
        except StopIteration as end:
            answer: T = end.value
            return answer

    def sent(self, kind: type) -> list[Any]:
        return [request for _, request in self.requests if isinstance(request, kind)]

    def _answer_one(self) -> None:
        node, request, future = self._waiting.pop()
        answer = None if request is PAUSE else self._answer(request, node)
        if answer is NO_ANSWER:
            return
        if isinstance(answer, OffsetFetchResponse) and isinstance(
            request, BatchedOffsetFetchRequest
        ):
            answer = request.response.decode(io.BytesIO(answer.encode(version=BATCHED_OFFSETS)))
        if isinstance(answer, Exception):
            future.failure(answer)
        else:
            future.success(answer)

    def _learn(self, metadata: Any) -> None:
        self._nodes = [each.node_id for each in getattr(metadata, "brokers", ())] or self._nodes

    def _version(self, request: type) -> int:
        return self._versions.get(request, 9)


class BrokersClient(Client):
    """Runs a request on the brokers, as the real one does on its I/O thread."""

    def __init__(self, brokers: Brokers) -> None:
        self.brokers = brokers
        admin: Any = SimpleNamespace(_manager=brokers)
        self._one_network = NetworkClient(admin, USUAL_IN_FLIGHT, ClusterIdentity())

    def run(self, request: Callable[[NetworkClient], Awaitable[T]]) -> T:
        return self.brokers.run(request(self._one_network))


def make(message: Any, **fields: Any) -> Any:
    """A message of kafka-python's, whose parts are dicts; what is left out has its default."""

    def part(name: str, value: Any) -> Any:
        if isinstance(value, list):
            return [part(name, each) for each in value]
        return make(message.fields[name].data_class, **value) if isinstance(value, dict) else value

    return message(**{name: part(name, value) for name, value in fields.items()})


def found(request: FindCoordinatorRequest, node_of: Callable[[str], int]) -> Any:
    """FindCoordinator's answer; a negative node is an error code."""
    return make(
        FindCoordinatorResponse,
        coordinators=[
            {"key": key, "node_id": max(node_of(key), -1), "error_code": max(0, -node_of(key))}
            for key in request.coordinator_keys
        ],
    )


def names(prefix: str, numbers: Iterable[int]) -> list[str]:
    return [f"{prefix}-{number:03}" for number in numbers]
