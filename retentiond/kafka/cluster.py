"""The real cluster: two clients behind one port, each for what it was measured to do soundly."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import ParamSpec, TypeVar

from retentiond.kafka import (
    broker_configs,
    clock,
    commits,
    groups,
    log_dirs,
    members,
    share,
    topics,
)
from retentiond.kafka.connection import Connection
from retentiond.kafka.leaders import Leaders
from retentiond.kafka.link import Link
from retentiond.kafka.offsets import Offsets
from retentiond.kafka.port import (
    CoordinatorState,
    DeleteFailure,
    GroupMembers,
    ListedGroup,
    LogDirs,
    OffsetBound,
    TopicConfig,
    TopicDescription,
)
from retentiond.kafka.properties import ClientSettings
from retentiond.kafka.records import RecordsClient
from retentiond.model import Commit, Failure, TopicPartition

P = ParamSpec("P")
T = TypeVar("T")

Observer = Callable[[str, str, float], None]
"""Told of each request: (api, result "ok" or "failed", seconds)."""

THROTTLED = "throttled"
"""In place of an api: how long a request waits because of a broker's quota, before it goes out."""


class KafkaCluster:
    """Implements `retentiond.kafka.port.Kafka`. Safe to use from several threads."""

    def __init__(self, settings: ClientSettings, observe: Observer) -> None:
        # Three, so that a slow disk or a leader that searches its log holds up nobody else.
        self._connection = Connection(settings, self._note_wait)
        self._disks = Connection(settings, self._note_wait)
        self._topics = Connection(settings, self._note_wait)
        self._leaders = Leaders()
        self._offsets = Offsets(self._topics, self._leaders)
        self._records = RecordsClient(settings)
        self._observe = observe

    def cluster_id(self) -> str:
        described = self._timed("cluster_id", self._connection.run, Link.describe_cluster)
        return str(described["cluster_id"])

    def cluster_time(self) -> int | Failure | None:
        return self._timed("cluster_time", clock.cluster_time, self._connection)

    def topic_names(self) -> frozenset[str]:
        return self._timed("list_topics", self._records.topic_names)

    def describe_topics(self, names: Collection[str]) -> Mapping[str, TopicDescription | Failure]:
        return self._timed(
            "describe_topics", topics.describe_topics, self._topics, self._leaders, names
        )

    def topic_configs(self, names: Collection[str]) -> Mapping[str, TopicConfig | Failure]:
        return self._timed("describe_configs", topics.topic_configs, self._topics, names)

    def broker_configs(self, names: Collection[str]) -> Mapping[int, Mapping[str, str] | Failure]:
        return self._timed(
            "describe_broker_configs", broker_configs.broker_configs, self._connection, names
        )

    def offsets(
        self, partitions: Collection[TopicPartition], bound: OffsetBound
    ) -> Mapping[TopicPartition, int | Failure]:
        return self._timed("list_offsets", self._offsets.offsets, partitions, bound)

    def offsets_at(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int | Failure | None]:
        return self._timed("list_offsets_by_time", self._offsets.offsets_at, timestamps_ms)

    def log_dirs(self) -> LogDirs:
        return self._timed("describe_log_dirs", log_dirs.log_dirs, self._disks)

    def coordinator_state(self, earlier: CoordinatorState | None = None) -> CoordinatorState:
        return self._timed("coordinator_state", groups.coordinator_state, self._connection, earlier)

    def coordinators_since(self, earlier: CoordinatorState) -> CoordinatorState:
        return self._timed(
            "coordinator_state", groups.coordinators_since, self._connection, earlier
        )

    def list_groups(self) -> Sequence[ListedGroup]:
        return self._timed("list_groups", groups.list_groups, self._connection)

    def commits(self, group_ids: Collection[str]) -> Mapping[str, Sequence[Commit] | Failure]:
        return self._timed("offset_fetch", commits.commits, self._connection, group_ids)

    def share_offsets(self, group_ids: Collection[str]) -> Mapping[str, Sequence[Commit] | Failure]:
        return self._timed("share_offsets", share.share_offsets, self._connection, group_ids)

    def members(self, listed: Collection[ListedGroup]) -> Mapping[str, GroupMembers | Failure]:
        return self._timed("describe_groups", members.members, self._connection, listed)

    def delete_records(
        self, cutoffs: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int | DeleteFailure]:
        answers = self._timed("delete_records", self._records.delete_records, cutoffs)
        if any(isinstance(answer, DeleteFailure) for answer in answers.values()):
            self._leaders.forget()  # what became of it is for today's leaders to say
        return answers

    def close(self) -> None:
        self._connection.close()
        self._disks.close()
        self._topics.close()

    def _note_wait(self, seconds: float) -> None:
        """A broker's quota makes a request wait: told like a request of its own."""
        self._observe(THROTTLED, "ok", seconds)

    def _timed(self, api: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        started = time.monotonic()
        result = "failed"
        try:
            answer = call(*args, **kwargs)
            result = "ok"
            return answer
        finally:
            self._observe(api, result, time.monotonic() - started)
