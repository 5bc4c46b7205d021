"""Everything that happens to a cluster but for what retentiond does: the hand of the test."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from retentiond.kafka.interface import Replica
from retentiond.model import Failure, GroupKind, TopicPartition
from tests.support.fakes.broker import BrokerState
from tests.support.fakes.groups import FakeGroup, FakeMember
from tests.support.fakes.log import FakePartition, Record, Transaction

OFFSETS_TOPIC = "__consumer_offsets"

WEEK_MS = 7 * 24 * 3_600_000

GIB = 2**30

RECORD_BYTES = 100
"""What each record takes on disk."""


@dataclass
class FakeTopic:
    topic_id: str
    partitions: list[FakePartition]
    config: dict[str, str] = field(default_factory=dict)
    internal: bool = False

    @property
    def cleanup_policy(self) -> str:
        return self.config.get("cleanup.policy", "delete")

    @property
    def retention_ms(self) -> int | None:
        retention_ms = int(self.config.get("retention.ms", WEEK_MS))
        return None if retention_ms < 0 else retention_ms

    @property
    def retention_bytes(self) -> int | None:
        retention_bytes = int(self.config.get("retention.bytes", -1))
        return None if retention_bytes < 0 else retention_bytes


class World:
    """The cluster's state and what may be done to it. Nothing moves unless it is told to.

    Brokers are numbered from 1; ``now_ms`` is the clock of brokers and producers.
    """

    def __init__(
        self, *, brokers: int = 1, offsets_partitions: int = 4, now_ms: int = 1_700_000_000_000
    ) -> None:
        self.now_ms = now_ms
        self.brokers = dict.fromkeys(range(1, brokers + 1), BrokerState.UP)
        self.topics: dict[str, FakeTopic] = {}
        self.groups: dict[str, FakeGroup] = {}
        self.hidden_groups: set[str] = set()
        """Left out of the listing without an error: their coordinator migrates, or ACLs."""
        self.not_at_work: set[int] = set()
        """Partitions of the offsets topic whose leader is not at work as a coordinator yet."""
        self.behind: set[int] = set()
        """Partitions of the offsets topic whose leader has not caught up since it leads."""
        self.orphans: dict[int, list[Replica]] = {}
        """Folders that a broker shows and no metadata account for."""
        self.usable_bytes: dict[int, int] = {}
        """Of a terabyte, by broker; a tenth of it where it has none here."""
        self.may_describe_cluster = True
        self.may_describe_offsets = True
        self._failures: dict[tuple[str, Hashable], Failure] = {}
        self._topic_ids = 0
        self.create_topic(
            OFFSETS_TOPIC, offsets_partitions, {"cleanup.policy": "compact"}, internal=True
        )

    def advance(self, ms: int) -> None:
        self.now_ms += ms

    # Topics and records

    def number_topics_from(self, number: int) -> None:
        """So that topics of two clusters have different ids."""
        self._topic_ids = number

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
        *,
        replication_factor: int = 1,
        internal: bool = False,
    ) -> FakeTopic:
        """A new one with a new id; partition p has its first replica on broker 1 + p mod n."""
        if name in self.topics:
            raise ValueError(f"topic {name} exists")
        brokers = len(self.brokers)
        replicas = [
            tuple(1 + (partition + at) % brokers for at in range(replication_factor))
            for partition in range(partitions)
        ]
        self._topic_ids += 1
        topic_id = base64.urlsafe_b64encode(self._topic_ids.to_bytes(16, "big")).decode()[:22]
        logs = [FakePartition(on, on[0]) for on in replicas]
        self.topics[name] = FakeTopic(topic_id, logs, dict(config or {}), internal)
        return self.topics[name]

    def delete_topic(self, name: str) -> None:
        """Its commits go with it; the groups stay."""
        del self.topics[name]
        for group in self.groups.values():
            group.commits = {at: to for at, to in group.commits.items() if at.topic != name}

    def partition(self, topic: str, partition: int = 0) -> FakePartition:
        return self.topics[topic].partitions[partition]

    def produce(
        self,
        topic: str,
        partition: int = 0,
        count: int = 1,
        *,
        timestamp_ms: int | None = None,
        transaction: Transaction | None = None,
    ) -> None:
        timestamp = self.now_ms if timestamp_ms is None else timestamp_ms
        for _ in range(count):
            self.partition(topic, partition).append(timestamp, transaction)

    def end(self, transaction: Transaction) -> None:
        """Commit or abort: either leaves a marker, which takes an offset of its own."""
        transaction.open = False
        for partition in transaction.partitions:
            partition.records.append(Record(self.now_ms, None, is_marker=True))

    # Groups

    def commit(
        self,
        group: str,
        offsets: Mapping[tuple[str, int], int | None],
        kind: GroupKind = GroupKind.CLASSIC,
        *,
        leader_epoch: int | None = None,
    ) -> None:
        """None: a commit that can't be read. The broker takes any offset, beyond the end too."""
        commits = {TopicPartition(*at): offset for at, offset in offsets.items()}
        of_group = self._group(group, kind)
        of_group.commits.update(commits)
        for at in commits:
            of_group.leader_epochs.pop(at, None)
            if leader_epoch is not None:
                of_group.leader_epochs[at] = leader_epoch

    def join(
        self,
        group: str,
        topics: Iterable[str] = (),
        patterns: Iterable[str] = (),
        kind: GroupKind = GroupKind.CLASSIC,
        *,
        member: str = "member-1",
    ) -> FakeGroup:
        joined = self._group(group, kind)
        joined.simple = False
        joined.members[member] = FakeMember(frozenset(topics), frozenset(patterns))
        if kind is GroupKind.STREAMS:
            joined.topology = frozenset(topics)
        return joined

    def leave(self, group: str, member: str = "member-1") -> None:
        del self.groups[group].members[member]

    def delete_group(self, group: str) -> None:
        """Also what becomes of an empty group whose commits have expired."""
        del self.groups[group]

    def coordinator(self, group: str) -> tuple[int, FakePartition]:
        """The group's partition of ``__consumer_offsets`` and that partition's number."""
        partitions = self.topics[OFFSETS_TOPIC].partitions
        number = zlib.crc32(group.encode()) % len(partitions)
        return number, partitions[number]

    def _group(self, name: str, kind: GroupKind) -> FakeGroup:
        return self.groups.setdefault(name, FakeGroup(name, kind))

    # Brokers and failures

    def kill_broker(self, broker: int) -> None:
        """From now on it doesn't answer; the cluster notices with `fence_broker`."""
        self.brokers[broker] = BrokerState.DEAD

    def fence_broker(self, broker: int) -> None:
        """Its leaderships go to other replicas that are up; without one there is no leader."""
        self.brokers[broker] = BrokerState.FENCED
        for partition in self._partitions():
            if partition.leader == broker:
                partition.elect(next(filter(self._is_up, partition.replicas), None))

    def start_broker(self, broker: int) -> None:
        """It leads again where there was no leader."""
        self.brokers[broker] = BrokerState.UP
        for partition in self._partitions():
            if partition.leader is None and broker in partition.replicas:
                partition.elect(broker)

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        """On ``__consumer_offsets``: the coordinator of the partition's groups moves."""
        self.partition(topic, partition).elect(to)

    def fail(self, api: str, key: Hashable, failure: Failure) -> None:
        """From now on ``api`` answers ``failure`` for ``key``: a topic, a group, a partition, or
        for `offsets` also a (partition, bound)."""
        self._failures[api, key] = failure

    def mend(self, api: str, key: Hashable) -> None:
        del self._failures[api, key]

    def _failure(self, api: str, *keys: Hashable) -> Failure | None:
        return next(
            (self._failures[api, key] for key in keys if (api, key) in self._failures), None
        )

    def _is_up(self, broker: int | None) -> bool:
        return broker is not None and self.brokers[broker] is BrokerState.UP

    def _partitions(self) -> list[FakePartition]:
        return [each for topic in self.topics.values() for each in topic.partitions]
