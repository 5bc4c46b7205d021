"""Drives the fake cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from retentiond.model import GroupKind
from tests.support.fakes import FakeCluster, Transaction


@dataclass
class FakeTransaction:
    cluster: FakeCluster
    transaction: Transaction = field(default_factory=Transaction)

    def commit(self) -> None:
        self.cluster.end(self.transaction)

    def abort(self) -> None:
        self.transaction.is_aborted = True
        self.cluster.end(self.transaction)


class FakeDriver:
    tells_time = tells_local_starts = True

    def __init__(self) -> None:
        self.kafka = FakeCluster()

    @property
    def now_ms(self) -> int:
        return self.kafka.now_ms

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        self.kafka.create_topic(name, partitions, config)

    def delete_topic(self, name: str) -> None:
        self.kafka.delete_topic(name)

    def produce(self, topic: str, timestamps_ms: Sequence[int], partition: int = 0) -> None:
        for timestamp_ms in timestamps_ms:
            self.kafka.produce(topic, partition, timestamp_ms=timestamp_ms)

    def begin(self, topic: str, count: int) -> FakeTransaction:
        begun = FakeTransaction(self.kafka)
        self.kafka.produce(topic, count=count, transaction=begun.transaction)
        return begun

    def commit(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        self.kafka.commit(group, offsets)

    @contextmanager
    def subscribed(
        self, group: str, kind: GroupKind, topics: Sequence[str] = (), pattern: str | None = None
    ) -> Iterator[None]:
        self.kafka.join(group, topics, [] if pattern is None else [pattern], kind)
        yield
        self.kafka.leave(group)

    @contextmanager
    def assigned(self, group: str, topic: str) -> Iterator[None]:
        self.kafka.commit(group, {(topic, 0): 1})
        yield

    def delete_group(self, group: str) -> None:
        self.kafka.delete_group(group)
