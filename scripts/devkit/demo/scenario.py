"""What the demo shows: topics, their rates, and the groups that read them.

``config/demo.yaml`` is the daemon's side of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

RECORD_BYTES = 4096

TOPIC_CONFIG: Mapping[str, str] = {
    "segment.bytes": "1048576",  # Kafka's minimum: disk is freed by whole segments
    "file.delete.delay.ms": "500",
}


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group. It reads a record once that is ``behind_seconds`` old; one that
    ``leaves`` is stopped half-way and comes back at the end."""

    name: str
    behind_seconds: float = 0.0
    leaves: bool = False


@dataclass(frozen=True, slots=True)
class Topic:
    """``emptied``: in the end its records go, as all of them are read and old enough."""

    name: str
    partitions: int
    records_per_second: int
    groups: tuple[Group, ...]
    emptied: bool


# 3 MB/s in all: enough to see disk grow and shrink, and two cores still have time for Spark.
TOPICS = (
    Topic(
        "demo.orders.enriched",
        partitions=3,
        records_per_second=360,
        groups=(Group("billing"), Group("search", behind_seconds=8)),
        emptied=True,
    ),
    Topic(
        "demo.payments",
        partitions=2,
        records_per_second=180,
        groups=(Group("fraud"), Group("ledger", leaves=True)),
        emptied=True,
    ),
    Topic(
        "demo.clicks",
        partitions=2,
        records_per_second=90,
        groups=(Group("sessions"),),
        emptied=False,
    ),
    Topic(
        "demo.archive",
        partitions=1,
        records_per_second=90,
        groups=(Group("reports"),),
        emptied=False,
    ),
)
