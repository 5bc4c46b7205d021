"""What a contract test may do to a cluster, be it real or fake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from retentiond.kafka.interface import Kafka
from retentiond.model import GroupKind


class OpenTransaction(Protocol):
    """Records of it are in the log, undecided."""

    def commit(self) -> None: ...

    def abort(self) -> None: ...


class Driver(Protocol):
    """Everything has happened, and shows, when a method returns.

    ``tells_time``: only KRaft does (Kafka 3.3). ``tells_local_starts``: since KIP-405 (Kafka 3.6).
    """

    tells_time: bool
    tells_local_starts: bool

    @property
    def kafka(self) -> Kafka:
        """The interface under test."""

    @property
    def now_ms(self) -> int:
        """The brokers' clock."""

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> None: ...

    def delete_topic(self, name: str) -> None: ...

    def produce(self, topic: str, timestamps_ms: Sequence[int], partition: int = 0) -> None:
        """One record for each timestamp, in that order."""

    def begin(self, topic: str, count: int) -> OpenTransaction:
        """A transaction with ``count`` records in partition 0."""

    def commit(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """From outside, as a tool does: the group has no member."""

    def subscribed(
        self, group: str, kind: GroupKind, topics: Sequence[str] = (), pattern: str | None = None
    ) -> AbstractContextManager[None]:
        """A member that has joined; it leaves at the end of the block."""

    def assigned(self, group: str, topic: str) -> AbstractContextManager[None]:
        """A consumer that took partition 0 by itself and commits offset 1."""

    def delete_group(self, group: str) -> None: ...
