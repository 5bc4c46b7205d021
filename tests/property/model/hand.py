"""The hand that changes the world: producers, groups, brokers, operators and what befalls them.

Every change can be made at any time, also in the midst of a cycle; one for which there is no
occasion (a group that isn't there leaves) does nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from retentiond.kafka.port import OffsetBound
from retentiond.model import Failure, GroupKind, TopicPartition
from tests.fakes import BrokerState, FakePartition, HowDeletionEnds
from tests.fakes.world import OFFSETS_TOPIC
from tests.property.model.records import Records

ENABLED = ("a", "b")
UNTOUCHED = "bystander"  # the policy doesn't name it
TOPICS = (*ENABLED, UNTOUCHED)
GROUPS = ("g1", "g2", "g3", "console-1")  # policies exclude the last one

FAILURE = Failure("REQUEST_TIMED_OUT", "no answer")

MIGRATION_S = 0.114
"""How long a coordinator that moves may lack its groups, and the metadata still show the old."""


class Hand(Records):
    """``skew_ms``: how far the clock of retentiond's host is ahead."""

    def __init__(self) -> None:
        super().__init__()
        self.skew_ms = 0
        self._failing: set[tuple[str, Hashable]] = set()
        self._denied: set[str] = set()  # groups that the principal may not see
        self._migrating: dict[int, int | None] = {}  # to which leader, where it doesn't show yet

    @property
    def host_now_ms(self) -> int:
        return self.cluster.now_ms + self.skew_ms

    def skew(self, ms: int) -> None:
        self.skew_ms = ms

    # Groups

    def catch_up(self, topic: str, behind: int) -> None:
        """Every group with a commit on the topic is so many records from the end at most."""
        for name in self._readers(topic):
            for partition in range(len(self.cluster.topics[topic].partitions)):
                self.commit(name, topic, partition, behind)

    def commit(self, group: str, topic: str, partition: int, behind: int) -> None:
        """So far from the end; a negative distance is beyond it."""
        if log := self.log(topic, partition):
            offset = max(0, log.high_watermark - behind)
            self.cluster.commit(group, {(topic, partition): offset}, self._kind(group))

    def spoil(self, group: str, topic: str, partition: int) -> None:
        """A commit that can't be read."""
        if group in self._readers(topic):
            self.cluster.commit(group, {(topic, partition): None})

    def rewind(self, group: str, topic: str, count: int) -> None:
        if group in self.cluster.groups:
            commits = self.cluster.groups[group].commits
            for at, offset in commits.items():
                if at.topic == topic and offset is not None:
                    commits[at] = max(0, offset - count)

    def join(self, group: str, kind: GroupKind, topics: Iterable[str], patterns: bool) -> None:
        """With ``patterns`` it subscribes to all that begin as these topics do."""
        kind = self._kind(group, kind)
        if patterns:
            self.cluster.join(group, (), [f"{topic}.*" for topic in topics], kind)
        else:
            self.cluster.join(group, topics, kind=kind)

    def leave(self, group: str) -> None:
        if group in self.cluster.groups:
            self.cluster.groups[group].members.clear()

    def rebalance(self, group: str, going_on: bool) -> None:
        if group in self.cluster.groups:
            self.cluster.groups[group].rebalancing = going_on

    def expire_commits(self, group: str, topic: str) -> None:
        """offsets.retention.minutes; a group without anything left is gone."""
        if found := self.cluster.groups.get(group):
            found.commits = {at: to for at, to in found.commits.items() if at.topic != topic}
            if not found.commits and not found.members:
                self.delete_group(group)

    def delete_group(self, group: str) -> None:
        if group in self.cluster.groups:
            self.cluster.delete_group(group)

    # Failures

    def fail_group(self, api: str, group: str) -> None:
        self._fail(api, group)

    def fail_topic(self, api: str, topic: str) -> None:
        self._fail(api, topic)

    def fail_offsets(self, topic: str, partition: int, bound: OffsetBound | None) -> None:
        """None: the look-up by time."""
        at = TopicPartition(topic, partition)
        if bound is None:
            self._fail("offsets_at", at)
        else:
            self._fail("offsets", (at, bound))

    def end_next_deletion(self, topic: str, partition: int, ends: HowDeletionEnds) -> None:
        self.cluster.next_deletion(topic, partition, ends)

    def thaw(self) -> None:
        self.cluster.apply_late()

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        if log := self.log(topic, partition):
            log.elect(to)

    def migrate(self, coordinator: int, to: int, shows: bool) -> None:
        """For a while its groups aren't listed, and perhaps the metadata shows the old leader."""
        if coordinator in self._migrating:
            return
        self._migrating[coordinator] = None if shows else to
        if shows:
            self.cluster.move_leader(OFFSETS_TOPIC, coordinator, to)
        self._hide()

    def wait(self, seconds: float) -> None:
        """Migrations end."""
        if seconds > MIGRATION_S:
            for coordinator, to in self._migrating.items():
                if to is not None:
                    self.cluster.move_leader(OFFSETS_TOPIC, coordinator, to)
            self._migrating.clear()
            self._hide()

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
        """Everything works again; what was deleted or lost stays so."""
        cluster = self.cluster
        for api, key in self._failing:
            cluster.mend(api, key)
        self._failing.clear()
        for broker, state in cluster.brokers.items():
            if state is not BrokerState.UP:
                cluster.start_broker(broker)
        cluster.may_describe_cluster = cluster.may_describe_offsets = True
        cluster.cluster_clock = True
        self.skew_ms = 0
        self._denied.clear()
        self.wait(1)
        self._hide()
        for group in cluster.groups.values():
            group.rebalancing = False
        while self._transactions:
            self.end()
        for topic in ENABLED:
            self.create(topic)
            cluster.topics[topic].config.clear()

    # What there is

    def late(self, log: FakePartition, cutoff: int) -> int:
        """How many such requests frozen leaders will apply when they thaw."""
        return self.cluster._late.count((log, cutoff))

    def _readers(self, topic: str) -> list[str]:
        if topic not in self.cluster.topics:
            return []
        groups = self.cluster.groups.items()
        return [name for name, group in groups if any(at.topic == topic for at in group.commits)]

    def _kind(self, group: str, otherwise: GroupKind = GroupKind.CLASSIC) -> GroupKind:
        """A group that is there keeps its kind."""
        return self.cluster.groups[group].kind if group in self.cluster.groups else otherwise

    def _fail(self, api: str, key: Hashable) -> None:
        self.cluster.fail(api, key, FAILURE)
        self._failing.add((api, key))

    def _hide(self) -> None:
        migrating = {
            group for group in GROUPS if self.cluster.coordinator(group)[0] in self._migrating
        }
        self.cluster.hidden_groups = migrating | self._denied
