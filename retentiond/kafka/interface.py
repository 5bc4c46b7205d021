"""What retentiond asks of a Kafka cluster: the one seam between the product and its clients.

`retentiond.kafka.cluster.KafkaCluster` implements it with confluent-kafka and kafka-python,
`tests.support.fakes.FakeCluster` in memory; the same contract suite runs on both. Whatever fails
for one topic, partition or group comes back as a `Failure` in its place and never vanishes; only
when nothing can be read is `KafkaUnavailable` raised. All answers are of one cluster: once another
one has answered, every call raises `retentiond.errors.OtherCluster`, for good.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal, NamedTuple, Protocol, TypeAlias

from retentiond.model import Commit, Failure, GroupKind, TopicPartition

LOOK_TO_REQUEST = "look_to_request"
"""Told in place of an api: from the answer of the look before a deletion until DeleteRecords was
handed over. A topic that is recreated in that time can't be told."""

THROTTLED = "throttled"
"""Told in place of an api: how long a request waits because of a broker's quota, before it goes
out."""

OFFSETS_TOPIC = "__consumer_offsets"

INTERNAL_TOPICS = frozenset(
    {
        OFFSETS_TOPIC,
        "__transaction_state",
        "__share_group_state",
        "__cluster_metadata",
        "__remote_log_metadata",
    }
)
"""Kafka's own topics, also those that its metadata doesn't mark as internal."""


NOT_ANSWERED = Failure("NOT_ANSWERED", "Kafka's answer does not mention it")
"""Stands for a topic, partition or group that was asked about."""

TOLD_TWICE = Failure("TOLD_TWICE", "Kafka's answer mentions it, or a part of it, twice")
"""Stands for a topic, partition or group: which of the two is right is not known."""

NO_SUCH_TOPIC = "UNKNOWN_TOPIC_OR_PARTITION"
"""The code of a `Failure` about a topic or partition that doesn't exist, from either client."""


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """``topic_id`` is Kafka's, base64 as its tools print it; None in a cluster that gives none
    (``inter.broker.protocol.version`` before 2.8)."""

    name: str
    topic_id: str | None
    is_internal: bool
    partitions: tuple[int, ...]  # ascending


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """``segment_*`` say when a partition's active segment is closed and a new one begun."""

    cleanup_policy: frozenset[str]
    retention_ms: int | None  # None is unlimited
    retention_bytes: int | None = None  # of each replica; None is unlimited
    segment_bytes: int | None = None  # None where it is not known
    segment_ms: int | None = None  # None where it is not known
    remote_storage: bool = False  # closed segments are copied to remote storage (KIP-405)


class EpochEnd(NamedTuple):
    """What a leader says of an earlier leader epoch: ``known_epoch`` is that one, or the last one
    before it that its log knows, and its records end below ``end_offset`` (KIP-101). Both are None
    where it knows neither.
    """

    known_epoch: int | None
    end_offset: int | None

    def contradiction(
        self, committed: int, leader_epoch: int, *, is_records_epoch: bool = True
    ) -> str | None:
        """Why the reader that committed this offset, in the leader epoch that the answer is about,
        has read other records than the log has now; None if nothing says so.

        In the present log the epoch, or the last known one before it, must not end below the
        offset. If the log knows only an earlier epoch, that must not end above the offset either,
        unless the commit's epoch is not that of a record (``is_records_epoch``).
        """
        if self.end_offset is None or self.known_epoch is None:
            return "which the log does not know"
        if self.end_offset < committed:
            return f"and the log knows it up to {self.end_offset} only"
        is_other = is_records_epoch and self.known_epoch != leader_epoch
        if self.end_offset > committed and is_other:
            return f"and the log was written in epoch {self.known_epoch} there"
        return None


class PartitionEpoch(NamedTuple):
    at: TopicPartition
    leader_epoch: int


class OffsetBound(Enum):
    LOG_START = "log_start"
    HIGH_WATERMARK = "high_watermark"
    LAST_STABLE = "last_stable"
    LOCAL_START = "local_start"  # of what is on the leader's disk (KIP-405, Kafka 3.6)


AGE_NOT_YET_KNOWN = "AGE_NOT_YET_KNOWN"

AGE_UNKNOWN = Failure(
    "AGE_UNKNOWN",
    "nobody knows how old the records are: the first or the last of those that could be deleted "
    "has no timestamp, or one before 1970; it ends when Kafka's own retention has removed such "
    "records (message.timestamp.type=LogAppendTime gives later ones a timestamp)",
)
"""Stands for the offset by time of a partition."""


class LogRange(NamedTuple):
    """What a consumer could read of a log when it was asked."""

    start: int
    end: int


Target: TypeAlias = int | Literal[OffsetBound.HIGH_WATERMARK]
"""First offset that is kept, or all that is below the high watermark when the leader is asked."""

KAFKAS_HIGH_WATERMARK = -1
"""The same in DeleteRecords and in Kafka's offsets file. No other method takes it."""


@dataclass(frozen=True, slots=True)
class CoordinatorState:
    """What must not change while groups are listed, and who may see them.

    ``leaders`` holds (partition, leader, leader epoch) of every partition of
    ``__consumer_offsets``, more than one of a partition where brokers don't agree; it is empty
    before any group ever committed, and where the principal may not see that topic: then
    ``may_describe_offsets`` is False. ``not_at_work`` are the partitions whose coordinator does not
    answer when it is asked, ascending; a principal that may not ask about every group
    (``may_ask``) can't know. ``behind`` are those whose leader is not known to have caught up since
    it leads, ascending: its coordinator may hide groups and commits (KIP-207).
    """

    cluster_id: str
    leaders: frozenset[tuple[int, int, int]]
    leaderless: tuple[int, ...]
    may_describe_cluster: bool
    may_describe_offsets: bool = True
    not_at_work: tuple[int, ...] = ()
    may_ask: bool = True
    behind: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ListedGroup:
    group_id: str
    kind: GroupKind
    state: str
    protocol_type: str


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """What live members are subscribed or assigned to.

    ``patterns`` are subscriptions by regular expression, which the coordinator matches to
    topics (KIP-848). ``changelogs`` are the topics that a streams group restores its state from
    (KIP-1071), its sources among them where it keeps no other changelog. ``is_streams_classic``:
    the members of a classic group are threads of Kafka Streams; then nothing tells its changelogs.
    """

    topics: frozenset[str]
    patterns: tuple[str, ...] = ()
    changelogs: frozenset[str] = frozenset()
    is_streams_classic: bool = False


class RequestResult(Enum):
    """What a refused or lost DeleteRecords means for the caller."""

    REFUSED = "refused"  # the broker said no: nothing was moved
    MOVED = "moved"  # asked a broker that no longer leads: ask again, it may have been applied
    NOT_SENT = "not_sent"  # it was too late for it, or the leader silent: nothing went out
    UNKNOWN = "unknown"  # no answer, or an answer that doesn't rule out that it was applied


@dataclass(frozen=True, slots=True)
class DeleteFailure:
    result: RequestResult
    failure: Failure


DeleteAnswer: TypeAlias = int | DeleteFailure
"""A partition's low watermark, or why there is none."""


class Replica(NamedTuple):
    """One partition's folder on a broker's disk, as DescribeLogDirs shows it.

    ``size_bytes`` counts its segments, less those that are renamed for deletion. ``is_future``: a
    move to this folder is under way and this copy will replace the current one. ``is_orphan``: no
    metadata place it here.
    """

    topic: str
    partition: int
    size_bytes: int
    is_future: bool = False
    is_orphan: bool = False


@dataclass(frozen=True, slots=True)
class LogDir:
    """One of a broker's log directories. With a ``failure`` it is offline, and shows nothing.

    ``total_bytes`` and ``usable_bytes`` are of its volume; None before Kafka 3.3.
    """

    path: str
    replicas: tuple[Replica, ...] = ()
    total_bytes: int | None = None
    usable_bytes: int | None = None
    failure: Failure | None = None


class KeyedRecord(NamedTuple):
    """The last record of a key in a partition; without a value it says that there is nothing."""

    partition: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class LogDirs:
    """``brokers``: each that the metadata show, by its id. ``assigned``: the brokers that are to
    hold each partition, among them those that a reassignment under way adds or removes (KIP-455).
    """

    brokers: Mapping[int, Sequence[LogDir] | Failure]
    assigned: Mapping[TopicPartition, tuple[int, ...]]


class Kafka(Protocol):
    def cluster_id(self) -> str: ...

    def cluster_time(self) -> int | Failure | None:
        """The cluster's clock, epoch milliseconds; None where it does not tell."""

    def topic_names(self) -> frozenset[str]:
        """All topics that the principal may see."""

    def describe_topics(
        self, names: Collection[str]
    ) -> Mapping[str, TopicDescription | Failure]: ...

    def topic_configs(self, names: Collection[str]) -> Mapping[str, TopicConfig | Failure]: ...

    def broker_configs(self, names: Collection[str]) -> Mapping[int, Mapping[str, str] | Failure]:
        """Those settings of each live broker itself; one that has no value is left out."""

    def offsets(
        self, partitions: Collection[TopicPartition], bound: OffsetBound
    ) -> Mapping[TopicPartition, int | Failure]: ...

    def offsets_at(
        self,
        timestamps_ms: Mapping[TopicPartition, int],
        logs: Mapping[TopicPartition, LogRange] | None = None,
        now_ms: int | None = None,
    ) -> Mapping[TopicPartition, int | Failure | None]:
        """First offset whose record is at or after the timestamp; None: none is (Kafka's -1).

        ``logs``, read before: of these partitions the answer tells how old the records in front of
        it are, at ``now_ms`` (None: by the host's clock). It is `AGE_UNKNOWN` where that can't be
        known, because some have no timestamp.

        Of a topic whose configuration was told to have remote storage it may be a lower offset,
        below which all is surely older; and a `Failure` with `AGE_NOT_YET_KNOWN` where a further
        call goes on with it.
        """

    def next_records(
        self, offsets: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int | Failure | None]:
        """The first record at or behind each offset that a reader of committed records gets; None:
        what is left of the log has none. It takes READ on the topic."""

    def epoch_ends(
        self, epochs: Collection[PartitionEpoch]
    ) -> Mapping[PartitionEpoch, EpochEnd | Failure | None]:
        """What the leaders say of those epochs; None: it is the one in which it leads now, and
        which has not ended."""

    def log_dirs(self, give_up: Callable[[], bool] = lambda: False) -> LogDirs:
        """Waits for no other request, nor they for it. Who is to hold what is as `topic_names` has
        just read it; that listing serves once.

        A broker that does not answer, or not this principal, is a `Failure`, and so is one that has
        not answered when ``give_up`` says so; a cluster that does not raises `KafkaUnavailable`.
        """

    def coordinator_state(self, earlier: CoordinatorState | None = None) -> CoordinatorState:
        """With an ``earlier`` state, those that led then are asked whether they are at work; that
        is a request less, and where another one leads now, both states show it."""

    def coordinators_since(self, earlier: CoordinatorState) -> CoordinatorState:
        """Where nothing has changed since ``earlier``, leader epochs included, they are not asked
        whether they are at work."""

    def list_groups(self) -> Sequence[ListedGroup]:
        """Groups of all kinds. Raises `KafkaUnavailable` if a broker did not answer."""

    def commits(
        self, groups: Collection[str], on: Collection[TopicPartition] | None = None
    ) -> Mapping[str, Sequence[Commit] | Failure]:
        """All commits of each group, or those ``on`` some partitions, of which none is named twice.
        Of these alone, a commit of offset -1 can't be told from none.

        A real cluster's are `CommitColumns`, a sequence for a million of them. It has a file of its
        own, `retentiond.kafka.groups.commit_columns`, so that only who reads commits loads numpy.
        """

    def share_offsets(self, groups: Collection[str]) -> Mapping[str, Sequence[Commit] | Failure]:
        """The start offset of every share-partition of share groups, as commits (KIP-932): one that
        isn't known yet, or couldn't be read, is a commit without offset."""

    def members(self, groups: Collection[ListedGroup]) -> Mapping[str, GroupMembers | Failure]:
        """A kind of group that can't be described is a `Failure`."""

    def last_records(
        self, topic: str, elsewhere: Mapping[str, str] | None = None
    ) -> Sequence[KeyedRecord] | Failure:
        """The last record of each key in each partition of a topic, as of now, without those of
        undecided and aborted transactions.

        ``elsewhere``: client properties of another cluster that has it; what goes wrong with that
        one is a `Failure`.
        """

    def get_ready(self, partitions: Collection[TopicPartition]) -> float:
        """Connects to all brokers and to the leaders of these partitions, so that nothing but the
        questions themselves is left to do. Returns how many seconds the slowest broker takes to
        answer one.

        Raises `OtherCluster` where a broker belongs to another cluster, `KafkaUnavailable` where
        none answers.
        """

    def look_before_deleting(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[str, str | Failure]:
        """Each topic's id, by its name, through the very client that the next `delete_records` goes
        out by, connected to the leaders and proven to belong to this cluster: after `get_ready`, in
        one round trip.

        Raises `OtherCluster` where it does not, `KafkaUnavailable` where it can't ask.
        """

    def delete_records(
        self, cutoffs: Mapping[TopicPartition, int], *, not_after: float = math.inf
    ) -> Mapping[TopicPartition, DeleteAnswer]:
        """DeleteRecords (KIP-107); the low watermark, or why not. Offsets must be positive.

        It goes by name: `look_before_deleting` tells whose name that is. ``not_after``, in
        `retentiond.clock.seconds_since_boot`, is looked at right before the request is handed over.
        """

    def close(self) -> None: ...
