"""Who writes and who reads: topics and groups, their kinds and their habits."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

Partition = tuple[str, int]
"""Topic and partition number."""

RECORD_BYTES = 512

# What a killed member of a share group held comes back to the others after this.
BROKER_CONFIG: Mapping[str, str] = {
    "group.share.record.lock.duration.ms": "5000",
    "group.share.min.record.lock.duration.ms": "5000",
    "group.share.delivery.count.limit": "10",
    # A group that has neither members nor commits is gone soon.
    "offsets.retention.check.interval.ms": "3000",
}
THREE_BROKERS_CONFIG: Mapping[str, str] = {**BROKER_CONFIG, "min.insync.replicas": "2"}

TOPIC_CONFIG: Mapping[str, str] = {
    "segment.bytes": "1048576",  # Kafka's minimum
    "retention.ms": "-1",  # nobody but retentiond deletes
    "retention.bytes": "-1",
    "file.delete.delay.ms": "500",
}

TIERED_CONFIG: Mapping[str, str] = {
    "remote.storage.enable": "true",  # KIP-405
    "segment.ms": "5000",
    "local.retention.ms": "1000",  # what is older is in remote storage alone
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


class Return(StrEnum):
    """Where a member goes on whose group has no commit."""

    EARLIEST = "earliest"
    LATEST = "latest"  # it gives up what lies before
    OWN = "own position"  # which it keeps by itself
    TIME = "time"  # that of the last record that it has processed


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    partitions: int
    writing: Writing
    records_per_second: int
    tiered: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """``topics`` are all that it may read; ``pattern`` is how it subscribes, if not by name.

    ``changes``: each life of it subscribes to some of them, and may end before a commit.
    ``freezes``: a member stands still for a while, so that a rebalance waits for it.
    ``slow``: it stays far behind.
    """

    name: str
    topics: tuple[Topic, ...]
    protocol: Protocol
    members: int = 1
    rewinds: bool = False
    pattern: str | None = None
    changes: bool = False
    freezes: bool = False
    slow: bool = False

    @property
    def partitions(self) -> list[Partition]:
        return [(each.name, number) for each in self.topics for number in range(each.partitions)]


PLAIN = Topic("ledger.plain", 1, Writing.PLAIN, 60)
IDEMPOTENT = Topic("ledger.idempotent", 4, Writing.IDEMPOTENT, 80)
TRANSACTIONAL = Topic("ledger.transactional", 3, Writing.TRANSACTIONAL, 80)
SHARED = Topic("ledger.shared", 2, Writing.IDEMPOTENT, 40)
VISITED = Topic("ledger.visited", 2, Writing.PLAIN, 40)
RENEWED = Topic("ledger.renewed", 2, Writing.PLAIN, 40)
"""Deleted and created again, under its producers and consumers."""

TIERED = Topic("ledger.tiered", 2, Writing.IDEMPOTENT, 20, tiered=True)
"""Its slow group reads it from remote storage, and keeps it there."""

RELAXED = (IDEMPOTENT, RENEWED)
"""Their consumed records stay a while, but go at once under disk pressure."""

RELAXED_MS = 20_000

BELOW_FREE, UNTIL_FREE = 0.2, 0.25
"""Parts of the brokers' disk: under pressure from the first on, until the second is free."""

TOPICS = (PLAIN, IDEMPOTENT, TRANSACTIONAL, SHARED, VISITED, RENEWED, TIERED)

PATTERN = r"^ledger\.(renewed|visited)$"

GROUPS = (
    Group("plain-classic", (PLAIN,), Protocol.CLASSIC, rewinds=True),
    Group("plain-consumer", (PLAIN,), Protocol.CONSUMER),
    Group(
        "idempotent-classic",
        (IDEMPOTENT,),
        Protocol.CLASSIC,
        members=2,
        rewinds=True,
        freezes=True,
    ),
    Group("idempotent-consumer", (IDEMPOTENT,), Protocol.CONSUMER),
    Group("transactional-classic", (TRANSACTIONAL,), Protocol.CLASSIC),
    Group("transactional-consumer", (TRANSACTIONAL,), Protocol.CONSUMER, rewinds=True),
    Group("shared-share", (SHARED,), Protocol.SHARE, members=2),
    Group("shared-classic", (SHARED,), Protocol.CLASSIC, rewinds=True),
    Group("visited-consumer", (VISITED,), Protocol.CONSUMER),
    Group("renewed-classic", (RENEWED,), Protocol.CLASSIC),
    Group("tiered-classic", (TIERED,), Protocol.CLASSIC, rewinds=True),
    Group("tiered-consumer", (TIERED,), Protocol.CONSUMER, slow=True),
    Group("pattern-classic", (RENEWED, VISITED), Protocol.CLASSIC, pattern=PATTERN),
    Group("pattern-consumer", (RENEWED, VISITED), Protocol.CONSUMER, pattern=PATTERN),
)

# They join while everything is at work, and stay.
LATE_GROUPS = (
    Group("late-transactional", (TRANSACTIONAL,), Protocol.CLASSIC, rewinds=True),
    Group("changing", (PLAIN, VISITED, RENEWED), Protocol.CLASSIC, changes=True),
    Group("late-plain", (PLAIN,), Protocol.CONSUMER),
)

# They come, crash before their first commit, come back, commit, and are let go of; another
# one follows, with a name of its own.
GUESTS = (
    Group("guest-classic", (VISITED,), Protocol.CLASSIC),
    Group("guest-consumer", (VISITED,), Protocol.CONSUMER),
)

# The second cluster has topics of the same names, and groups of the same names.
OTHER_TOPICS = (PLAIN, IDEMPOTENT)
OTHER_HEAD_START = 3000  # records of each partition that the first cluster has not
OTHER_GROUPS = (
    Group("plain-classic", (PLAIN,), Protocol.CLASSIC, slow=True),
    Group("idempotent-classic", (IDEMPOTENT,), Protocol.CLASSIC, slow=True),
)
