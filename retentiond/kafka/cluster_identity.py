"""Which cluster this is: one answer for all clients, on every connection.

Kafka's requests go by name, and most answers do not say whose they are. So each of kafka-python's
connections proves its cluster id before anything else is asked over it, every answer that tells
one is compared, and so is what librdkafka is told.

Invariant: once two ids were seen, every request fails for as long as this object lives. Which of
the two clusters is meant is for an operator to settle.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from retentiond.errors import OtherCluster

Endpoint = tuple[str, int]
"""Host and port that a broker advertises."""


class ClusterIdentity:
    """The first cluster id that was told, and where that cluster's brokers are. Thread-safe.

    ``setting``: where an operator says which cluster is meant.
    """

    def __init__(self, setting: str = "kafka.bootstrap.servers") -> None:
        self._setting = setting
        self._lock = threading.Lock()
        self._cluster_id: str | None = None
        self._other_id: str | None = None
        self._endpoints: Mapping[int, Endpoint] = MappingProxyType({})

    @property
    def endpoints(self) -> Mapping[int, Endpoint]:
        """By broker, as the cluster last told them."""
        return self._endpoints

    @property
    def servers(self) -> str:
        """The addresses in the form of ``bootstrap.servers``; empty before anything was learnt."""
        return ",".join(address(*endpoint) for endpoint in sorted(self._endpoints.values()))

    def check(self, cluster_id: str | None) -> None:
        """Compares what a broker told; None: it told nothing. Raises `OtherCluster`."""
        with self._lock:
            if cluster_id is not None:
                if self._cluster_id is None:
                    self._cluster_id = cluster_id
                elif cluster_id != self._cluster_id:
                    self._other_id = cluster_id
        self.raise_if_two()

    def learn(self, cluster_id: str | None, endpoints: Iterable[tuple[int, str, int]]) -> None:
        """As `check`; the brokers by id, host and port are of the same answer."""
        self.check(cluster_id)
        told = {node: (host, port) for node, host, port in endpoints}
        if told:
            self._endpoints = MappingProxyType(told)

    def raise_if_two(self) -> None:
        if self._other_id is not None:
            raise OtherCluster(
                f"two clusters answer: retentiond works on cluster {self._cluster_id}, and a "
                f"broker says that it belongs to cluster {self._other_id}; nothing is deleted "
                f"until retentiond is restarted: see that {self._setting}, and every address "
                "that those brokers advertise, lead to one cluster only"
            )


def address(host: str, port: int) -> str:
    """The address as clients write it; an IPv6 address goes in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
