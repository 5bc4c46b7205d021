"""What time it is for the age of records: the earlier of the host's time and the cluster's.

A clock that is ahead makes records look older than they are; one that is behind only keeps
them longer. So of two clocks the earlier one is a bound that neither can spoil.
"""

from __future__ import annotations

from typing import NamedTuple

from retentiond.kafka.port import Kafka
from retentiond.model import Failure


class Time(NamedTuple):
    """``now_ms``: epoch milliseconds. ``problems``: why it can't be relied on, a sentence each."""

    now_ms: int
    problems: tuple[str, ...] = ()


def earlier_time(kafka: Kafka, host_ms: int) -> Time:
    """The host's time alone where the cluster does not tell its own (Kafka before 3.3)."""
    cluster_ms = kafka.cluster_time()
    if isinstance(cluster_ms, Failure):
        return Time(host_ms, (f"the cluster's clock could not be read ({cluster_ms})",))
    return Time(host_ms if cluster_ms is None else min(host_ms, cluster_ms))
