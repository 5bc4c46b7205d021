"""Who writes and who reads: topics and groups, their kinds and their habits."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

Partition = tuple[str, int]
"""Topic and partition number."""

RECORD_BYTES = 512

BROKER_CONFIG: Mapping[str, str] = {
    "min.insync.replicas": "2",
    # What a killed member of a share group held comes back to the others after this.
    "group.share.record.lock.duration.ms": "5000",
    "group.share.min.record.lock.duration.ms": "5000",
    "group.share.delivery.count.limit": "10",
}

TOPIC_CONFIG: Mapping[str, str] = {
    "segment.bytes": "1048576",  # Kafka's minimum
    "retention.ms": "-1",  # nobody but retentiond deletes
    "retention.bytes": "-1",
    "file.delete.delay.ms": "500",
}


class Writing(StrEnum):
    PLAIN = "plain"  # acks=all, retries may write a record twice
    IDEMPOTENT = "idempotent"
    TRANSACTIONAL = "transactional"


class Protocol(StrEnum):
    CLASSIC = "classic"
    CONSUMER = "consumer"  # KIP-848
    SHARE = "share"  # KIP-932


class Habit(StrEnum):
    """What a member of a classic or consumer group does now and then."""

    LAG = "lag"
    STOP = "stop"
    CRASH = "crash"  # it leaves without a commit
    REWIND = "rewind"  # it commits an offset that lies behind it, and reads on there


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    partitions: int
    writing: Writing
    records_per_second: int

    @property
    def all_partitions(self) -> list[Partition]:
        return [(self.name, number) for number in range(self.partitions)]


@dataclass(frozen=True, slots=True)
class Group:
    """``rewinds``: that habit is among those of its members."""

    name: str
    topic: Topic
    protocol: Protocol
    members: int = 1
    rewinds: bool = False


PLAIN = Topic("ledger.plain", 1, Writing.PLAIN, 60)
IDEMPOTENT = Topic("ledger.idempotent", 6, Writing.IDEMPOTENT, 120)
TRANSACTIONAL = Topic("ledger.transactional", 3, Writing.TRANSACTIONAL, 80)
SHARED = Topic("ledger.shared", 2, Writing.IDEMPOTENT, 60)

TOPICS = (PLAIN, IDEMPOTENT, TRANSACTIONAL, SHARED)

GROUPS = (
    Group("plain-classic", PLAIN, Protocol.CLASSIC, rewinds=True),
    Group("plain-consumer", PLAIN, Protocol.CONSUMER),
    Group("idempotent-classic", IDEMPOTENT, Protocol.CLASSIC, members=2, rewinds=True),
    Group("idempotent-consumer", IDEMPOTENT, Protocol.CONSUMER, members=2),
    Group("transactional-classic", TRANSACTIONAL, Protocol.CLASSIC),
    Group("transactional-consumer", TRANSACTIONAL, Protocol.CONSUMER, rewinds=True),
    Group("shared-share", SHARED, Protocol.SHARE, members=2),
    Group("shared-classic", SHARED, Protocol.CLASSIC, rewinds=True),
)

# They join while everything is at work, and stay.
LATE_GROUPS = (
    Group("late-transactional", TRANSACTIONAL, Protocol.CLASSIC, rewinds=True),
    Group("late-plain", PLAIN, Protocol.CONSUMER),
    Group("late-shared", SHARED, Protocol.CONSUMER, rewinds=True),
    Group("late-idempotent", IDEMPOTENT, Protocol.CLASSIC),
)
