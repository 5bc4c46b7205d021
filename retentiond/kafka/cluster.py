"""The real cluster: two clients behind one port, each for what it was measured to do soundly."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from retentiond.errors import ConfigError, KafkaUnavailable, OtherCluster
from retentiond.kafka import brokers, log_dirs, topics
from retentiond.kafka.brokers import Brokers, Distance
from retentiond.kafka.client import Client
from retentiond.kafka.cluster_identity import ClusterIdentity
from retentiond.kafka.confluent.client import LibrdkafkaClient
from retentiond.kafka.groups import coordinators, listing, members
from retentiond.kafka.interface import (
    LOOK_TO_REQUEST,
    THROTTLED,
    CoordinatorState,
    DeleteAnswer,
    DeleteFailure,
    EpochEnd,
    GroupMembers,
    KeyedRecord,
    ListedGroup,
    LogDirs,
    LogRange,
    OffsetBound,
    PartitionEpoch,
    Target,
    TopicConfig,
    TopicDescription,
)
from retentiond.kafka.log_dirs import ClusterView
from retentiond.kafka.network_client import METADATA_FRESH_S, NetworkClient
from retentiond.kafka.offsets.lookups import Offsets
from retentiond.kafka.settings.properties import ClientSettings, translate
from retentiond.kafka.topics import Leaders, Operations
from retentiond.model import Commit, Failure, TopicPartition

if TYPE_CHECKING:
    from retentiond.kafka.offsets.last_records import LastRecords

P = ParamSpec("P")
T = TypeVar("T")

Observer = Callable[[str, str, float], None]
"""Told of each request: (api, result "ok" or "failed", seconds)."""

NO_LISTING: tuple[float, Any] = (-math.inf, None)
"""The metadata of all topics, and the monotonic time in seconds at which they were read."""


class KafkaCluster:
    """Implements `retentiond.kafka.interface.Kafka`. Safe to use from several threads."""

    def __init__(self, settings: ClientSettings, observe: Observer) -> None:
        """Raises `ConfigError` for a value that librdkafka refuses."""
        self._identity = ClusterIdentity(settings.words.servers)
        # Three, so that a slow disk or a leader that searches its log holds up nobody else.
        self._client = Client(settings, self._note_wait, self._identity)
        self._disks = Client(settings, self._note_wait, self._identity)
        self._topics = Client(settings, self._note_wait, self._identity)
        self._records = LibrdkafkaClient(
            settings, self._identity, lambda: self._topics.run(NetworkClient.brokers)
        )
        self._listing = NO_LISTING
        self._leaders = Leaders()
        self._offsets = Offsets(self._topics, self._leaders)
        self._observe = observe
        self._settings = settings
        self._last_records: dict[tuple[str, Mapping[str, str] | None], LastRecords] = {}
        self._state_clients: dict[Mapping[str, str] | None, Client] = {}
        """Which read whole topics: of this cluster (None), and of others by their properties."""
        self._opening = threading.Lock()

    def cluster_id(self) -> str:
        described = self._timed("cluster_id", self._client.run, NetworkClient.describe_cluster)
        self._identity.check(described["cluster_id"])
        return str(described["cluster_id"])

    def cluster_time(self) -> int | Failure | None:
        return self._timed("cluster_time", brokers.cluster_time, self._client)

    def topic_names(self) -> frozenset[str]:
        listing = self._timed("list_topics", topics.list_topics, self._topics)
        self._listing = time.monotonic(), listing
        listed = frozenset(topic.name for topic in listing.topics)
        self._leaders.keep(listed)  # else a daemon would remember all that ever were
        self._offsets.keep(listed)
        return listed

    def describe_topics(self, names: Collection[str]) -> Mapping[str, TopicDescription | Failure]:
        return self._timed(
            "describe_topics", topics.describe_topics, self._topics, self._leaders, names
        )

    def topic_configs(self, names: Collection[str]) -> Mapping[str, TopicConfig | Failure]:
        configs = self._timed("describe_configs", topics.topic_configs, self._topics, names)
        self._offsets.learn_tiered(
            {
                name: config.remote_storage
                for name, config in configs.items()
                if isinstance(config, TopicConfig)
            }
        )
        return configs

    def broker_configs(self, names: Collection[str]) -> Mapping[int, Mapping[str, str] | Failure]:
        return self._timed("describe_broker_configs", brokers.broker_configs, self._client, names)

    def offsets(
        self, partitions: Collection[TopicPartition], bound: OffsetBound
    ) -> Mapping[TopicPartition, int | Failure]:
        return self._timed("list_offsets", self._offsets.offsets, partitions, bound)

    def offsets_at(
        self,
        timestamps_ms: Mapping[TopicPartition, int],
        logs: Mapping[TopicPartition, LogRange] | None = None,
        now_ms: int | None = None,
    ) -> Mapping[TopicPartition, int | Failure | None]:
        return self._timed(
            "list_offsets_by_time", self._offsets.offsets_at, timestamps_ms, logs, now_ms
        )

    def next_records(
        self, offsets: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int | Failure | None]:
        return self._timed("fetch", self._offsets.next_records, offsets)

    def epoch_ends(
        self, epochs: Collection[PartitionEpoch]
    ) -> Mapping[PartitionEpoch, EpochEnd | Failure | None]:
        return self._timed("offset_for_leader_epoch", self._offsets.epoch_ends, epochs)

    def log_dirs(self, give_up: Callable[[], bool] = lambda: False) -> LogDirs:
        (listed_at, listing), self._listing = self._listing, NO_LISTING
        if time.monotonic() - listed_at > METADATA_FRESH_S:
            listing = None
        return self._timed("describe_log_dirs", log_dirs.log_dirs, self._disks, give_up, listing)

    def coordinator_state(self, earlier: CoordinatorState | None = None) -> CoordinatorState:
        return self._timed("coordinator_state", listing.coordinator_state, self._client, earlier)

    def coordinators_since(self, earlier: CoordinatorState) -> CoordinatorState:
        return self._timed("coordinator_state", listing.coordinators_since, self._client, earlier)

    def list_groups(self) -> Sequence[ListedGroup]:
        return self._timed("list_groups", listing.list_groups, self._client)

    def commits(
        self, group_ids: Collection[str], on: Collection[TopicPartition] | None = None
    ) -> Mapping[str, Sequence[Commit] | Failure]:
        return self._timed("offset_fetch", coordinators.commits, self._client, group_ids, on)

    def share_offsets(self, group_ids: Collection[str]) -> Mapping[str, Sequence[Commit] | Failure]:
        return self._timed("share_offsets", coordinators.share_offsets, self._client, group_ids)

    def members(self, listed: Collection[ListedGroup]) -> Mapping[str, GroupMembers | Failure]:
        return self._timed("describe_groups", members.members, self._client, listed)

    def last_records(
        self, topic: str, elsewhere: Mapping[str, str] | None = None
    ) -> Sequence[KeyedRecord] | Failure:
        try:
            with self._opening:
                last_records = self._opened(topic, elsewhere)
            return self._timed("fetch", last_records.read)
        except (ConfigError, KafkaUnavailable, OtherCluster) as error:
            self._identity.raise_if_two()
            return Failure(type(error).__name__, str(error))

    def _opened(self, topic: str, elsewhere: Mapping[str, str] | None) -> LastRecords:
        """Kept for the next reading, which goes on where this one ends."""
        from retentiond.kafka.offsets.last_records import LastRecords  # noqa: PLC0415 - brings pyarrow

        if elsewhere not in self._state_clients:
            self._state_clients[elsewhere] = (
                Client(self._settings, self._note_wait, self._identity)
                if elsewhere is None
                else Client(translate(elsewhere), self._note_wait)
            )
        client = self._state_clients[elsewhere]
        if (topic, elsewhere) not in self._last_records:
            leaders = Leaders()
            self._last_records[topic, elsewhere] = LastRecords(
                client, leaders, Offsets(client, leaders), topic
            )
        return self._last_records[topic, elsewhere]

    def get_ready(self, partitions: Collection[TopicPartition]) -> float:
        return self._timed("get_ready", self._get_ready, partitions)

    def _get_ready(self, partitions: Collection[TopicPartition]) -> float:
        with ThreadPoolExecutor(3, thread_name_prefix="ready") as executor:
            deleting = executor.submit(self._records.get_ready, partitions)
            reading = [
                executor.submit(client.run, NetworkClient.round_trip_s)
                for client in (self._client, self._topics)
            ]
            deleting.result()
            return max(future.result() for future in reading)

    def look_before_deleting(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[str, str | Failure]:
        return self._timed("look_before_deleting", self._look_before_deleting, partitions)

    def _look_before_deleting(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[str, str | Failure]:
        """Both clients look at once: librdkafka does not tell which cluster a connection of its own
        leads to. Where a broker's address has come to lead elsewhere since its connections broke,
        kafka-python finds out."""
        with ThreadPoolExecutor(1, thread_name_prefix="look") as executor:
            return self._records.look_before_deleting(
                partitions,
                lambda: executor.submit(self._topics.run, NetworkClient.proven_brokers).result,
            )

    def delete_records(
        self, cutoffs: Mapping[TopicPartition, int], *, not_after: float = math.inf
    ) -> Mapping[TopicPartition, DeleteAnswer]:
        answers = self._timed(
            "delete_records", self._records.delete_records, cutoffs, not_after=not_after
        )
        self._observe(LOOK_TO_REQUEST, "ok", self._records.gap_s)
        if any(isinstance(answer, DeleteFailure) for answer in answers.values()):
            self._leaders.forget()  # what became of it is for today's leaders to say
        return answers

    def delete_up_to(
        self, targets: Mapping[TopicPartition, Target], timeout_s: float
    ) -> Mapping[TopicPartition, DeleteAnswer]:
        """As an operator words it: also everything, and offset 0. Raises ValueError for a negative
        offset."""
        return self._timed("delete_records", self._records.delete_up_to, targets, timeout_s)

    # What the tools ask besides, and no cycle.

    def brokers(self) -> Brokers:
        return self._timed("brokers", brokers.brokers, self._client)

    def distances(self) -> Mapping[int, Distance]:
        """Ask it when nothing else is asked: it connects again."""
        return self._timed("distances", brokers.distances, self._client)

    def topic_rights(self, names: Collection[str]) -> Mapping[str, Operations | Failure]:
        return self._timed("topic_rights", topics.topic_rights, self._topics, names)

    def replicas(self, names: Collection[str]) -> ClusterView:
        return self._timed("replicas", log_dirs.read_replicas, self._client, names)

    def retention_ms(self, broker: int) -> int | Failure | None:
        return self._timed("broker_retention", log_dirs.read_retention_ms, self._client, broker)

    def close(self) -> None:
        self._client.close()
        self._disks.close()
        self._topics.close()
        for client in self._state_clients.values():
            client.close()
        self._records.close()

    def _note_wait(self, seconds: float) -> None:
        """Told like a request of its own."""
        self._observe(THROTTLED, "ok", seconds)

    def _timed(self, api: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Raises `OtherCluster`, whatever is asked, once two clusters have answered."""
        self._identity.raise_if_two()
        started = time.monotonic()
        result = "failed"
        try:
            answer = call(*args, **kwargs)
            result = "ok"
            return answer
        finally:
            self._observe(api, result, time.monotonic() - started)
