"""The cluster as `retentiond.orphans.look.Cluster`."""

from __future__ import annotations

from collections.abc import Collection

from retentiond.kafka import clock, replicas
from retentiond.kafka.connection import Connection
from retentiond.kafka.properties import ClientSettings
from retentiond.kafka.replicas import ClusterView
from retentiond.model import Failure


class KafkaReplicas:
    def __init__(self, settings: ClientSettings) -> None:
        self._connection = Connection(settings)

    def replicas(self, topics: Collection[str]) -> ClusterView:
        return replicas.read_replicas(self._connection, topics)

    def retention_ms(self, broker: int) -> int | Failure | None:
        return replicas.read_retention_ms(self._connection, broker)

    def time_ms(self) -> int | Failure | None:
        return clock.cluster_time(self._connection)

    def close(self) -> None:
        self._connection.close()
