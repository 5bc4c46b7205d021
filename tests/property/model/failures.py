"""What breaks in one cluster, and how it is fixed."""

from __future__ import annotations

from collections.abc import Hashable

from retentiond.kafka.interface import OffsetBound
from retentiond.model import Failure, TopicPartition
from tests.property.model.rules import ENABLED
from tests.support.fakes import BrokerState, FakeCluster, HowDeletionEnds
from tests.support.fakes.world import OFFSETS_TOPIC

FAILURE = Failure("REQUEST_TIMED_OUT", "no answer")

MIGRATION_MS = 114
"""How long a coordinator that moves may lack its groups, and the metadata still show the old."""


class Failures:
    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self._failing: set[tuple[str, Hashable]] = set()
        self._denied: set[str] = set()  # groups that the principal may not see
        self._migrating: dict[int, tuple[int, int | None]] = {}  # until when, and the leader then

    def fail(self, api: str, key: Hashable) -> None:
        self.cluster.fail(api, key, FAILURE)
        self._failing.add((api, key))

    def fail_offsets(self, topic: str, partition: int, bound: str | None) -> None:
        """None: the look-up by time."""
        at = TopicPartition(topic, partition)
        if bound is None:
            self.fail("offsets_at", at)
        else:
            self.fail("offsets", (at, OffsetBound(bound)))

    def end_next_deletions(self, ends: str) -> None:
        for topic in ENABLED:
            for partition in range(2):
                self.cluster.next_deletion(topic, partition, HowDeletionEnds(ends))

    def thaw(self) -> None:
        self.cluster.apply_late()

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        if topic in self.cluster.topics and partition < len(self.cluster.topics[topic].partitions):
            self.cluster.partition(topic, partition).elect(to)

    def migrate(self, coordinator: int, to: int, shows: bool) -> None:
        """For a while its groups aren't listed, and perhaps the metadata shows the old leader."""
        if coordinator not in self._migrating:
            until_ms = self.cluster.now_ms + MIGRATION_MS
            self._migrating[coordinator] = until_ms, None if shows else to
            if shows:
                self.cluster.move_leader(OFFSETS_TOPIC, coordinator, to)
            self._hide()

    def end_migrations(self, *, all_of_them: bool = False) -> None:
        if not self._migrating:
            return
        for coordinator, (until_ms, to) in [*self._migrating.items()]:
            if all_of_them or self.cluster.now_ms >= until_ms:
                del self._migrating[coordinator]
                if to is not None:
                    self.cluster.move_leader(OFFSETS_TOPIC, coordinator, to)
        self._hide()

    def rebalance(self, group: str) -> None:
        """A classic one hides what its members subscribe to."""
        if group in self.cluster.groups:
            self.cluster.groups[group].rebalancing = True

    def spoil(self, group: str, topic: str, partition: int) -> None:
        """A commit that can't be read."""
        if group in self.cluster.groups:
            commits = self.cluster.groups[group].commits
            if (at := TopicPartition(topic, partition)) in commits:
                commits[at] = None

    def deny(self, group: str) -> None:
        """Kafka hides the group: the principal lost its permission on the cluster."""
        self.cluster.may_describe_cluster = False
        self._denied.add(group)
        self._hide()

    def hide_coordinators(self) -> None:
        self.cluster.may_describe_offsets = False

    def stop_clock(self) -> None:
        """The cluster doesn't tell its time."""
        self.cluster.cluster_clock = FAILURE

    def kill_broker(self, broker: int, fenced: bool) -> None:
        self.cluster.kill_broker(broker)
        if fenced:
            self.cluster.fence_broker(broker)

    def heal(self) -> None:
        cluster = self.cluster
        for api, key in self._failing:
            cluster.mend(api, key)
        self._failing.clear()
        for broker, state in cluster.brokers.items():
            if state is not BrokerState.UP:
                cluster.start_broker(broker)
        cluster.may_describe_cluster = cluster.may_describe_offsets = True
        cluster.cluster_clock = True
        self._denied.clear()
        self.end_migrations(all_of_them=True)
        self._hide()
        for group in cluster.groups.values():
            group.rebalancing = False

    def _hide(self) -> None:
        migrating = {
            name
            for name in self.cluster.groups
            if self.cluster.coordinator(name)[0] in self._migrating
        }
        self.cluster.hidden_groups = migrating | self._denied
