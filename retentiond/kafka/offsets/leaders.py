"""Who leads each partition, remembered for a while.

Kafka makes that safe: a request names the leader epoch that it believes in (KIP-320), and a broker
that leads no more, or again, says so instead of answering. One that was cut off and does not know
yet that it leads no more answers with offsets that were true: lower ones.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from retentiond.kafka.errors.kafka_python import failure_of_code
from retentiond.kafka.network_client import FRESH_S, NetworkClient
from retentiond.model import Failure, TopicPartition

NO_LEADER = Failure("LEADER_NOT_AVAILABLE", "nobody leads the partition")

NO_PARTITION = Failure("UNKNOWN_TOPIC_OR_PART", "there is no such partition")


class Leader(NamedTuple):
    node: int
    epoch: int


class Leaders:
    """Of all partitions that were asked about; for coroutines of one `Client`."""

    def __init__(self) -> None:
        self._topics: dict[str, dict[int, Leader | Failure] | Failure] = {}
        self._read_at: dict[str, float] = {}
        self._ids: dict[str, object] = {}
        self._listed: frozenset[str] | None = None  # since then, all topics

    async def of(
        self, network: NetworkClient, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Leader | Failure]:
        """Raises an error of the client where no broker tells."""
        self._drop_unlisted()
        asked = list(partitions)
        since = time.monotonic() - FRESH_S
        topics = {partition.topic for partition in asked}
        stale = {name for name in topics if self._read_at.get(name, -math.inf) < since}
        if stale:
            await self.read(network, stale)
        return {partition: self._leader(partition) for partition in asked}

    async def read(self, network: NetworkClient, topics: Collection[str]) -> Any:
        """Anew, whatever is remembered; the metadata of those topics."""
        read_at = time.monotonic()
        metadata = await network.topics(topics)
        self._read_at |= dict.fromkeys(topics, read_at)
        self._topics |= dict.fromkeys(topics, NO_PARTITION)
        self._topics |= {topic.name: _leaders(topic) for topic in metadata.topics}
        self._ids |= {topic.name: topic.topic_id for topic in metadata.topics}
        return metadata

    def topic_id(self, topic: str) -> object:
        """As the metadata showed it that were read last."""
        return self._ids.get(topic)

    def forget(self) -> None:
        """Whoever led may lead no more. From any thread."""
        self._read_at = {}

    def keep(self, listed: Collection[str]) -> None:
        """Nothing is remembered of other topics, from the next question on. From any thread."""
        self._listed = frozenset(listed)

    def _drop_unlisted(self) -> None:
        listed, self._listed = self._listed, None
        if listed is not None:
            for remembered in (self._topics, self._read_at, self._ids):
                for name in remembered.keys() - listed:
                    del remembered[name]

    def _leader(self, partition: TopicPartition) -> Leader | Failure:
        topic = self._topics[partition.topic]
        return topic if isinstance(topic, Failure) else topic.get(partition.partition, NO_PARTITION)


def _leaders(topic: Any) -> dict[int, Leader | Failure] | Failure:
    if topic.error_code:
        return failure_of_code(topic.error_code)
    return {
        each.partition_index: NO_LEADER
        if each.leader_id < 0
        else Leader(each.leader_id, each.leader_epoch)
        for each in topic.partitions
    }
