"""`retentiond.kafka.interface` on a world in memory, with a script of what goes wrong."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Concatenate, Literal, ParamSpec, TypeVar

from retentiond.clock import seconds_since_boot
from retentiond.errors import KafkaUnavailable, OtherCluster
from retentiond.kafka.interface import (
    AGE_UNKNOWN,
    CoordinatorState,
    DeleteFailure,
    EpochEnd,
    GroupMembers,
    KeyedRecord,
    ListedGroup,
    LogDir,
    LogDirs,
    LogRange,
    OffsetBound,
    PartitionEpoch,
    Replica,
    RequestResult,
    TopicConfig,
    TopicDescription,
)
from retentiond.model import Commit, Failure, GroupKind, TopicPartition
from tests.support.fakes import deletions
from tests.support.fakes.broker import BrokerState
from tests.support.fakes.deletions import HowDeletionEnds
from tests.support.fakes.log import FakePartition
from tests.support.fakes.script import Script
from tests.support.fakes.world import GIB, OFFSETS_TOPIC, RECORD_BYTES, WEEK_MS, World

T = TypeVar("T")
P = ParamSpec("P")

DELETE_DELAY_MS = 1_000

BROKER_CONFIG = {
    "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": str(DELETE_DELAY_MS),
}
"""What the real brokers of the tests are started with, too."""

UNKNOWN_TOPIC = Failure("UNKNOWN_TOPIC_OR_PARTITION", "Broker: Unknown topic or partition")
UNKNOWN_PARTITION = Failure("_UNKNOWN_PARTITION", "Local: Unknown partition")
NO_TOPIC_ID = Failure("NO_TOPIC_ID", "the cluster gives no topic ids")
NO_LEADER = Failure("LEADER_NOT_AVAILABLE", "the partition's leader does not answer")
NO_COORDINATOR = Failure("COORDINATOR_NOT_AVAILABLE", "no broker coordinates the group")


def _call(
    method: Callable[Concatenate[FakeCluster, P], T],
) -> Callable[Concatenate[FakeCluster, P], T]:
    """One call at a time, noted in the script, which may make it fail or change the world."""

    def called(self: FakeCluster, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._lock, self.script.around(method.__name__, args):
            self._compare_identity()
            return method(self, *args, **kwargs)

    return called


class FakeCluster(World):
    """Implements `retentiond.kafka.interface.Kafka`; deterministic, safe to use from threads."""

    def __init__(
        self, *, brokers: int = 1, offsets_partitions: int = 4, now_ms: int = 1_700_000_000_000
    ) -> None:
        super().__init__(brokers=brokers, offsets_partitions=offsets_partitions, now_ms=now_ms)
        self.script = Script()
        self.id = "KfakefakefakefakefakeQ"
        self._ids: tuple[str, ...] = ()
        self.deletions: list[Mapping[TopicPartition, int]] = []
        """Every request of DeleteRecords that went out."""
        self.cluster_clock: int | Failure | Literal[True] | None = True
        """What the cluster says of its time; True: what it is."""
        self.broker_config = dict(BROKER_CONFIG)
        """What every broker says of itself."""
        self.last: dict[str, Sequence[KeyedRecord] | Failure] = {}
        """The last records of topics that hold some program's state."""
        self._lock = threading.RLock()
        self._endings: dict[TopicPartition, HowDeletionEnds] = {}
        self._late: list[tuple[FakePartition, int]] = []
        self._silent: frozenset[TopicPartition] = frozenset()  # their leaders, at the last look

    # How deletions end

    def next_deletion(self, topic: str, partition: int, ends: HowDeletionEnds) -> None:
        self._endings[TopicPartition(topic, partition)] = ends

    def apply_late(self) -> None:
        """The frozen leaders thaw and apply what they were asked long ago."""
        for partition, offset in self._late:
            partition.delete_to(offset)
        self._late.clear()

    # The interface

    @_call
    def cluster_id(self) -> str:
        self._need_a_broker()
        return self.id

    @_call
    def cluster_time(self) -> int | Failure | None:
        self._need_a_broker()
        return self.cluster_clock if self.cluster_clock is not True else self.now_ms

    @_call
    def topic_names(self) -> frozenset[str]:
        self._need_a_broker()
        for partition in self._partitions():
            partition.moved = False
        return frozenset(self.topics)

    @_call
    def describe_topics(self, names: Collection[str]) -> Mapping[str, TopicDescription | Failure]:
        return {name: self._described(name) for name in names}

    @_call
    def topic_configs(self, names: Collection[str]) -> Mapping[str, TopicConfig | Failure]:
        return {name: self._configured(name) for name in names}

    @_call
    def broker_configs(self, names: Collection[str]) -> Mapping[int, Mapping[str, str] | Failure]:
        self._need_a_broker()
        told = {name: self.broker_config[name] for name in names if name in self.broker_config}
        return {
            broker: self._failure("broker_configs", broker) or told
            for broker in self.brokers
            if self._is_up(broker)
        }

    @_call
    def offsets(
        self, partitions: Collection[TopicPartition], bound: OffsetBound
    ) -> Mapping[TopicPartition, int | Failure]:
        answers: dict[TopicPartition, int | Failure] = {}
        for at in partitions:
            log = self._log(at)
            failure = self._failure("offsets", (at, bound), at)
            answers[at] = failure or (log if isinstance(log, Failure) else _offset(log, bound))
        return answers

    @_call
    def offsets_at(
        self,
        timestamps_ms: Mapping[TopicPartition, int],
        logs: Mapping[TopicPartition, LogRange] | None = None,
        now_ms: int | None = None,
    ) -> Mapping[TopicPartition, int | Failure | None]:
        answers: dict[TopicPartition, int | Failure | None] = {}
        for at, timestamp in timestamps_ms.items():
            log = self._log(at)
            failure = self._failure("offsets_at", at)
            if failure is not None:
                answers[at] = failure
                continue
            if isinstance(log, Failure):
                answers[at] = log
                continue
            answers[at] = young = log.first_at(timestamp)
            known = (logs or {}).get(at, LogRange(0, 0))
            last = (known.end if young is None else min(young, known.end)) - 1
            if known.start <= last and not (log.is_dated(known.start) and log.is_dated(last)):
                answers[at] = AGE_UNKNOWN
        return answers

    @_call
    def next_records(
        self, offsets: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int | Failure | None]:
        answers: dict[TopicPartition, int | Failure | None] = {}
        for at, offset in offsets.items():
            log, failure = self._log(at), self._failure("next_records", at)
            answers[at] = failure or (log if isinstance(log, Failure) else log.first_record(offset))
        return answers

    def epoch_ends(
        self, epochs: Collection[PartitionEpoch]
    ) -> Mapping[PartitionEpoch, EpochEnd | Failure | None]:
        answers: dict[PartitionEpoch, EpochEnd | Failure | None] = {}
        for each in epochs:
            log = self._log(each.at)
            failure = self._failure("epoch_ends", each.at)
            if failure is not None:
                answers[each] = failure
            elif isinstance(log, Failure):
                answers[each] = log
            elif each.leader_epoch == log.epoch:
                answers[each] = None
            else:
                answers[each] = EpochEnd(*log.epoch_end(each.leader_epoch))
        return answers

    @_call
    def log_dirs(self, _give_up: Callable[[], bool] = lambda: False) -> LogDirs:
        self._need_a_broker()
        shown = {b: s for b, s in self.brokers.items() if s is not BrokerState.FENCED}
        return LogDirs({broker: self._disk(broker) for broker in shown}, self._assigned())

    @_call
    def coordinator_state(self, earlier: CoordinatorState | None = None) -> CoordinatorState:
        state = self._coordinator_state()
        return replace(state, behind=earlier.behind) if earlier else state

    def _coordinator_state(self) -> CoordinatorState:
        self._need_a_broker()
        partitions = self.topics[OFFSETS_TOPIC].partitions if self.may_describe_offsets else []
        return CoordinatorState(
            cluster_id=self.id,
            leaders=frozenset(
                (number, -1 if partition.leader is None else partition.leader, partition.epoch)
                for number, partition in enumerate(partitions)
            ),
            leaderless=tuple(
                number for number, partition in enumerate(partitions) if partition.leader is None
            ),
            may_describe_cluster=self.may_describe_cluster,
            may_describe_offsets=self.may_describe_offsets,
            not_at_work=tuple(
                number
                for number, partition in enumerate(partitions)
                if number in self.not_at_work
                or self.brokers.get(partition.leader or 0) is not BrokerState.UP
            ),
            behind=tuple(sorted(self.behind)),
        )

    @_call
    def coordinators_since(self, earlier: CoordinatorState) -> CoordinatorState:
        state = self._coordinator_state()
        unasked = replace(
            state,
            not_at_work=earlier.not_at_work,
            may_ask=earlier.may_ask,
            behind=earlier.behind,
        )
        return unasked if unasked == earlier else state

    @_call
    def list_groups(self) -> Sequence[ListedGroup]:
        self._need_a_broker()
        for broker, state in self.brokers.items():
            if state is BrokerState.DEAD:
                raise KafkaUnavailable(f"broker {broker} did not list its groups: connection lost")
        return [
            group.listed()
            for name, group in sorted(self.groups.items())
            if name not in self.hidden_groups and self.coordinator(name)[1].leader is not None
        ]

    @_call
    def commits(
        self, groups: Collection[str], on: Collection[TopicPartition] | None = None
    ) -> Mapping[str, Sequence[Commit] | Failure]:
        self._need_a_broker()
        return {name: self._committed(name, on) for name in groups}

    @_call
    def share_offsets(self, groups: Collection[str]) -> Mapping[str, Sequence[Commit] | Failure]:
        self._need_a_broker()
        return {name: self._committed(name) for name in groups}

    @_call
    def members(self, groups: Collection[ListedGroup]) -> Mapping[str, GroupMembers | Failure]:
        self._need_a_broker()
        return {group.group_id: self._members(group) for group in groups}

    @_call
    def last_records(
        self, topic: str, elsewhere: Mapping[str, str] | None = None
    ) -> Sequence[KeyedRecord] | Failure:
        return self.last.get(topic, UNKNOWN_TOPIC)

    @_call
    def get_ready(self, partitions: Collection[TopicPartition]) -> float:
        self._need_a_broker()
        return 0.0

    @_call
    def look_before_deleting(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[str, str | Failure]:
        self._need_a_broker()
        self._silent = frozenset(at for at in partitions if self._log(at) is NO_LEADER)
        described = {at.topic: self._described(at.topic) for at in partitions}
        return {
            name: topic if isinstance(topic, Failure) else topic.topic_id or NO_TOPIC_ID
            for name, topic in described.items()
        }

    @_call
    def delete_records(
        self, cutoffs: Mapping[TopicPartition, int], *, not_after: float = math.inf
    ) -> Mapping[TopicPartition, int | DeleteFailure]:
        deletions.check(cutoffs)
        if seconds_since_boot() > not_after:
            return dict.fromkeys(cutoffs, deletions.TOO_LATE)
        silent, self._silent = self._silent, frozenset()
        sent = {at: offset for at, offset in cutoffs.items() if at not in silent}
        if sent:
            self.deletions.append(sent)
        answers = {at: self._delete(at, offset) for at, offset in sent.items()}
        return dict.fromkeys(cutoffs, deletions.SILENT) | answers

    @_call
    def close(self) -> None:
        pass

    # What the answers are made of

    def _compare_identity(self) -> None:
        """As the real one: a second id that is seen once is never forgotten."""
        self._ids = tuple(dict.fromkeys((*self._ids, self.id)))
        if len(self._ids) > 1:
            raise OtherCluster(f"two clusters answer: {' and '.join(self._ids)}")

    def _need_a_broker(self) -> None:
        if not any(map(self._is_up, self.brokers)):
            raise KafkaUnavailable("fake:9092 can't be asked: no broker is up")

    def _described(self, name: str) -> TopicDescription | Failure:
        if failure := self._failure("describe_topics", name):
            return failure
        if (topic := self.topics.get(name)) is None:
            return UNKNOWN_TOPIC
        numbers = tuple(range(len(topic.partitions)))
        return TopicDescription(name, topic.topic_id, topic.internal, numbers)

    def _assigned(self) -> dict[TopicPartition, tuple[int, ...]]:
        return {
            TopicPartition(name, number): partition.replicas
            for name, topic in self.topics.items()
            for number, partition in enumerate(topic.partitions)
        }

    def _disk(self, broker: int) -> Sequence[LogDir] | Failure:
        """One directory; a record takes `RECORD_BYTES`, and the log start's segment is its own."""
        if not self._is_up(broker):
            return Failure("KafkaConnectionError", f"broker {broker} does not answer")
        if not self.may_describe_cluster:
            return Failure("CLUSTER_AUTHORIZATION_FAILED", "Cluster authorization failed")
        usable = self.usable_bytes.get(broker, 10**11)
        replicas = [
            Replica(*at, RECORD_BYTES * (log.high_watermark - log.log_start))
            for at, on in self._assigned().items()
            if broker in on
            for log in [self.topics[at.topic].partitions[at.partition]]
        ]
        return [LogDir("/kafka", (*replicas, *self.orphans.get(broker, ())), 10**12, usable)]

    def _configured(self, name: str) -> TopicConfig | Failure:
        if failure := self._failure("topic_configs", name):
            return failure
        if (topic := self.topics.get(name)) is None:
            return UNKNOWN_TOPIC
        return TopicConfig(
            frozenset(topic.cleanup_policy.split(",")),
            topic.retention_ms,
            topic.retention_bytes,
            int(topic.config.get("segment.bytes", GIB)),
            int(topic.config.get("segment.ms", WEEK_MS)),
        )

    def _log(self, at: TopicPartition) -> FakePartition | Failure:
        if (topic := self.topics.get(at.topic)) is None:
            return UNKNOWN_TOPIC
        if at.partition >= len(topic.partitions):
            return UNKNOWN_PARTITION
        log = topic.partitions[at.partition]
        return log if self._is_up(log.leader) else NO_LEADER

    def _committed(
        self, name: str, on: Collection[TopicPartition] | None = None
    ) -> Sequence[Commit] | Failure:
        if failure := self._failure("commits", name):
            return failure
        if not self._is_up(self.coordinator(name)[1].leader):
            return NO_COORDINATOR
        return self.groups[name].committed(on) if name in self.groups else []

    def _members(self, listed: ListedGroup) -> GroupMembers | Failure:
        if failure := self._failure("members", listed.group_id):
            return failure
        if not self._is_up(self.coordinator(listed.group_id)[1].leader):
            return NO_COORDINATOR
        group = self.groups.get(listed.group_id)
        if group is None or group.kind is not listed.kind:
            return _no_such_group(listed)
        return group.described()

    def _delete(self, at: TopicPartition, offset: int) -> int | DeleteFailure:
        log = self._log(at)
        if log is UNKNOWN_TOPIC:
            return DeleteFailure(RequestResult.UNKNOWN, UNKNOWN_TOPIC)
        if log is UNKNOWN_PARTITION:
            return deletions.refused(log.code, log.message)
        topic = self.topics[at.topic]
        log = topic.partitions[at.partition]
        if refusal := deletions.refusal(log, offset, topic.internal, topic.cleanup_policy):
            return refusal
        ends = self._endings.pop(at, None)
        if ends is HowDeletionEnds.MOVED:
            return deletions.MOVED
        if ends is HowDeletionEnds.REFUSED:
            return deletions.refused("TOPIC_AUTHORIZATION_FAILED", "Broker: Not authorized")
        if ends is HowDeletionEnds.TIMES_OUT_LATE:
            self._late.append((log, offset))
        elif ends is not HowDeletionEnds.TIMES_OUT_LOST and self._is_up(log.leader):
            log.delete_to(offset)
        if ends is not None or not self._is_up(log.leader):
            return deletions.TIMED_OUT
        return log.log_start


def _offset(log: FakePartition, bound: OffsetBound) -> int:
    if bound in (OffsetBound.LOG_START, OffsetBound.LOCAL_START):
        return log.log_start
    return log.high_watermark if bound is OffsetBound.HIGH_WATERMARK else log.last_stable


def _no_such_group(listed: ListedGroup) -> GroupMembers | Failure:
    """DescribeGroups answers "dead", without an error; its younger sister says so."""
    if listed.kind is GroupKind.CLASSIC:
        return GroupMembers(frozenset())
    return Failure("GROUP_ID_NOT_FOUND", f"group {listed.group_id} not found")
