"""Two clusters with topics of the same names, their readers and producers, and the clocks.

Every step can be made at any time, also between any two questions of a cycle; one for which there
is no occasion (an agent that is not alive crashes) does nothing. Kafka's own retention is never at
work, so that every record that goes is gone by our hand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

from retentiond.model import GroupKind
from tests.property.model.agents import Agent
from tests.property.model.failures import Failures
from tests.property.model.rules import EXCLUDED, HOUR_MS, TOPICS
from tests.support.fakes import FakeCluster, FakePartition, Transaction
from tests.support.fakes.world import RECORD_BYTES

ABSENT_READER = "a reader without a commit goes"
FAILOVER = "an address comes to lead to another cluster"
OTHER_STATE = "the state of another cluster is used"
RECREATION = "a topic is recreated amid a cycle"
UNDESCRIBED = "a streams group can't be described"
WRONG_CLOCK = "the host's clock is wrong"
STALE_COMMIT = "a commit outlives its log"
FROZEN = "the process is frozen amid a cycle"
FULL_DISK = "a broker's disk runs full"
EVERYTHING = (
    ABSENT_READER,
    FAILOVER,
    OTHER_STATE,
    RECREATION,
    UNDESCRIBED,
    WRONG_CLOCK,
    STALE_COMMIT,
    FROZEN,
    FULL_DISK,
)
"""What may happen in a world beside the usual: switches, so that each can be seen by itself."""

SMALL_SEGMENTS = {"segment.bytes": str(RECORD_BYTES)}
"""Each record is one, so that deletions free some."""

MOST_PARTITIONS = 3
MOST_RECORDS = 150

Presence = tuple[str, str, str]  # cluster id, group, topic


class World:
    """``may``: of `EVERYTHING`. ``routes``: to which cluster each of retentiond's clients comes.
    ``skew_ms``: how far the wall clock of its host is ahead; ``seconds``: its monotonic clock."""

    def __init__(self, may: Collection[str] = EVERYTHING) -> None:
        self.may = frozenset(may)
        self.clusters = [self._cluster(number) for number in range(2)]
        self.failures = [Failures(cluster) for cluster in self.clusters]
        self.routes = {"reading": 0, "deleting": 0}
        self.home = 0  # the cluster that the daemon is meant for
        self.seconds = 1_000.0
        self.skew_ms = 0
        self.in_cycle = False
        self.met: Counter[str] = Counter()
        self.visible_since: dict[Presence, int] = {}  # since when a listing would show it so
        self.known: set[Presence] = set()  # whose commits retentiond was shown in a whole cycle
        self.full_in_cycle: set[tuple[str, int]] = set()  # clusters and brokers, at any time of it
        self._transactions: list[Transaction] = []
        first, second = self.clusters
        self.agents = {
            **{name: Agent(name, first) for name in ("g1", "g2", "g3", EXCLUDED)},
            **{f"{name}@B": Agent(name, second) for name in ("g1", "g2")},
        }
        for name in ("g1", "g2", "g1@B", "g2@B"):
            self.subscribe(name, ("a", "b"))
        for number in range(2):
            self.produce_everywhere(number, 4, 3 * HOUR_MS)
            self.catch_up(number, 0)
        self.pass_time(HOUR_MS)

    @staticmethod
    def _cluster(number: int) -> FakeCluster:
        cluster = FakeCluster(brokers=3, offsets_partitions=3)
        cluster.id = f"cluster-{'AB'[number]}"
        cluster.number_topics_from(1000 * number)
        for topic, partitions in zip(TOPICS, (2, 1, 1), strict=True):
            cluster.create_topic(topic, partitions, SMALL_SEGMENTS, replication_factor=2)
        return cluster

    @property
    def now_ms(self) -> int:
        """What the time really is; brokers and producers have it."""
        return self.clusters[0].now_ms

    @property
    def host_now_ms(self) -> int:
        return self.now_ms + self.skew_ms

    @property
    def here(self) -> FakeCluster:
        return self.clusters[self.routes["reading"]]

    def do(self, step: tuple[Any, ...]) -> None:
        name, *args = step
        self.met[name] += 1
        getattr(self, name)(*args)

    # Time

    def pass_time(self, ms: int) -> None:
        self.note()
        for cluster in self.clusters:
            cluster.advance(ms)
        self.seconds += ms / 1000
        for failures in self.failures:
            failures.end_migrations()
        self.note()

    def advance(self, ms: int) -> None:
        """Amid a cycle: nothing of retentiond runs meanwhile."""
        if not self.in_cycle or FROZEN in self.may:
            self.pass_time(ms)

    def set_clock(self, skew_ms: int) -> None:
        if WRONG_CLOCK in self.may:
            self.skew_ms = skew_ms

    # Disks

    @property
    def full(self) -> set[tuple[str, int]]:
        return {(each.id, broker) for each in self.clusters for broker in each.usable_bytes}

    def fill_disk(self, number: int, broker: int) -> None:
        self.clusters[number].usable_bytes[broker] = 1
        self.full_in_cycle |= self.full

    def empty_disk(self, number: int, broker: int) -> None:
        self.clusters[number].usable_bytes.pop(broker, None)

    # Readers

    def subscribe(
        self,
        agent: str,
        topics: tuple[str, ...],
        how: str = "name",
        kind: str = "classic",
        reset: str = "earliest",
    ) -> None:
        """It starts, or changes what it reads. A group that is there keeps its kind."""
        reader = self.agents[agent]
        if not self._may_go(reader, reader.topics - {*topics}):
            return
        group = reader.cluster.groups.get(reader.group)
        reader.kind = group.kind if group else GroupKind(kind)
        reader.how = how
        reader.reset = reset
        reader.topics = frozenset(topics)
        self._join(reader)
        reader.resume()
        reader.find_partitions()

    def _join(self, reader: Agent) -> None:
        self._leave(reader)
        reader.alive = True
        if reader.how == "name":
            reader.cluster.join(reader.group, reader.topics, kind=reader.kind)
        elif reader.how == "pattern":
            patterns = [f"{topic}.*" for topic in reader.topics]
            reader.cluster.join(reader.group, (), patterns, reader.kind)

    def _leave(self, reader: Agent) -> None:
        reader.alive = False
        if group := reader.cluster.groups.get(reader.group):
            group.members.clear()

    def _may_go(self, reader: Agent, topics: Collection[str]) -> bool:
        """Whether it may cease to be seen on these topics."""
        presences = {(reader.cluster.id, reader.group, topic) for topic in topics}
        return ABSENT_READER in self.may or presences <= self.known

    def read(self, agent: str, count: int) -> None:
        self.agents[agent].read(count)

    def tell(self, agent: str, topic: str, partition: int) -> None:
        self.agents[agent].tell(frozenset((topic,)), frozenset((partition,)))

    def catch_up(self, cluster: int, behind: int, but: str = "") -> None:
        """All live readers but one process all but the last few records, and commit that."""
        for name, reader in self.agents.items():
            if reader.cluster is self.clusters[cluster] and reader.alive and name != but:
                reader.read(MOST_RECORDS)
                if behind:
                    reader.step_back(behind)
                reader.tell(frozenset(TOPICS))

    def crash(self, agent: str) -> None:
        """Its group stays as long as it has commits, and a while longer."""
        reader = self.agents[agent]
        if self._may_go(reader, reader.topics):
            self._leave(reader)

    def come_back(self, agent: str) -> None:
        reader = self.agents[agent]
        if not reader.alive and reader.topics:
            self._join(reader)
            reader.resume()
            reader.find_partitions()

    def reset(self, agent: str, to: str) -> None:
        self.agents[agent].go_to(to)

    def move(self, agent: str) -> None:
        """To the other cluster, for good, or back; its group stays behind."""
        reader = self.agents[agent]
        if self._may_go(reader, reader.topics):
            self._leave(reader)
            reader.cluster = next(each for each in self.clusters if each is not reader.cluster)
            group = reader.cluster.groups.get(reader.group)
            reader.kind = group.kind if group else reader.kind
            if reader.topics:
                self._join(reader)
                reader.resume()
                reader.find_partitions()

    def expire(self, agent: str, topic: str) -> None:
        """offsets.retention.minutes; a group without anything left is gone."""
        reader = self.agents[agent]
        group = reader.cluster.groups.get(reader.group)
        if group and self._may_go(reader, {topic}):
            group.commits = {at: to for at, to in group.commits.items() if at.topic != topic}
            if not group.commits and not group.members:
                reader.cluster.delete_group(reader.group)

    def vanish(self, agent: str) -> None:
        """It is away for so long that all that its group has expires."""
        reader = self.agents[agent]
        group = reader.cluster.groups.get(reader.group)
        if group and self._may_go(reader, {each for each in TOPICS if group.reads(each)}):
            self._leave(reader)
            reader.cluster.delete_group(reader.group)

    # Topics and records

    def produce(
        self, cluster: int, topic: str, partition: int, count: int, age_ms: int = 0
    ) -> None:
        """A negative age is a timestamp in the future."""
        where = self.clusters[cluster]
        log = self.log(cluster, topic, partition)
        if log and len(log.records) + count <= MOST_RECORDS:
            where.produce(topic, partition, count, timestamp_ms=where.now_ms - age_ms)

    def produce_everywhere(self, cluster: int, count: int, age_ms: int = 0) -> None:
        for topic in TOPICS:
            for partition in range(MOST_PARTITIONS):
                self.produce(cluster, topic, partition, count, age_ms)

    def busy(self, count: int, age_ms: int, behind: int, but: str = "") -> None:
        """Producers write on both clusters; on the one that retentiond reads, all but one catch
        up."""
        for number, cluster in enumerate(self.clusters):
            self.produce_everywhere(number, count, age_ms)
            if cluster is self.here:
                self.catch_up(number, behind, but)

    def begin(self, topic: str, partition: int) -> None:
        """A transaction with one record."""
        if self.log(0, topic, partition):
            self._transactions.append(Transaction())
            self.clusters[0].produce(topic, partition, transaction=self._transactions[-1])

    def end(self) -> None:
        if self._transactions:
            self.clusters[0].end(self._transactions.pop())

    def recreate(self, topic: str, partitions: int, records: int, keeps_commits: bool) -> None:
        """Its producers go on at once. The coordinators take their time to drop old commits."""
        cluster = self.here
        if not self._may_recreate(topic):
            return
        kept = {name: dict(group.commits) for name, group in cluster.groups.items()}
        if topic in cluster.topics:
            cluster.delete_topic(topic)
        cluster.create_topic(topic, partitions, SMALL_SEGMENTS, replication_factor=2)
        self._find_partitions()
        if keeps_commits and STALE_COMMIT in self.may:
            for name, commits in kept.items():
                cluster.groups[name].commits = commits
            for reader in self._agents_here():
                reader.take_over(topic)
        for partition in range(partitions):
            cluster.produce(topic, partition, records, timestamp_ms=self.now_ms - 3 * HOUR_MS)

    def delete_topic(self, topic: str) -> None:
        if topic in self.here.topics and self._may_recreate(topic):
            self.here.delete_topic(topic)

    def _may_recreate(self, topic: str) -> bool:
        if self.in_cycle and RECREATION not in self.may:
            return False
        readers = [each for each in self._agents_here() if topic in each.topics]
        if ABSENT_READER in self.may:
            return True
        self.known = {each for each in self.known if each[2] != topic}
        return all(reader.alive and reader.how != "assignment" for reader in readers)

    def add_partition(self, topic: str) -> None:
        if topic in self.here.topics:
            logs = self.here.topics[topic].partitions
            if len(logs) < MOST_PARTITIONS:
                logs.append(FakePartition((1, 2), 1))
                self._find_partitions()

    def configure(self, topic: str, key: str, value: str) -> None:
        if topic in self.here.topics:
            self.here.topics[topic].config[key] = value

    def truncate(self, topic: str, partition: int, count: int) -> None:
        """An unclean election: the new leader lacks the last records. Who has read them goes back
        to where the logs part, which the epoch of its commit tells it."""
        log = self.log(self.routes["reading"], topic, partition)
        if log and STALE_COMMIT in self.may and len(log.records) - count >= log.log_start:
            log.lose_from(len(log.records) - count, log.leader or 1)
            for reader in self._agents_here():
                reader.fall_back(log)

    def set_back(self, topic: str, partition: int, count: int) -> None:
        """An unclean restart: deleted records are back."""
        if log := self.log(self.routes["reading"], topic, partition):
            log.log_start = max(0, log.log_start - count)

    # What breaks

    def breaks(self, name: str, *args: Any) -> None:
        """A method of `Failures`, of the cluster that retentiond reads."""
        if name == "fail" and args[0] == "members" and UNDESCRIBED not in self.may:
            group = self.here.groups.get(args[1])
            if group is None or group.kind is GroupKind.STREAMS:
                return
        getattr(self.failures[self.routes["reading"]], name)(*args)

    def fail_over(self, client: str, cluster: int) -> None:
        if FAILOVER in self.may:
            self.routes |= dict.fromkeys(self.routes if client == "both" else [client], cluster)

    def heal(self) -> None:
        """Everything works again; what was deleted or lost stays so."""
        for failures in self.failures:
            failures.heal()
        self.skew_ms = 0
        self.routes = dict.fromkeys(self.routes, self.home)
        while self._transactions:
            self.end()
        for cluster in self.clusters:
            for topic in TOPICS:
                if topic in cluster.topics:
                    cluster.topics[topic].config = dict(SMALL_SEGMENTS)
                elif not self.in_cycle or RECREATION in self.may:
                    cluster.create_topic(topic, 1, SMALL_SEGMENTS, replication_factor=2)
        self._find_partitions()

    # Who is there

    def note(self) -> None:
        """Who is there as a reader now; before and after whatever happens."""
        now_ms = self.now_ms
        visible: dict[Presence, int] = {}
        for cluster in self.clusters:
            for name, group in cluster.groups.items():
                for topic in filter(group.reads, TOPICS):
                    key = (cluster.id, name, topic)
                    if name not in cluster.hidden_groups:
                        visible[key] = self.visible_since.get(key, now_ms)
        self.visible_since = visible

    def log(self, cluster: int, topic: str, partition: int) -> FakePartition | None:
        found = self.clusters[cluster].topics.get(topic)
        if found is None or partition >= len(found.partitions):
            return None
        return found.partitions[partition]

    def _agents_here(self) -> list[Agent]:
        return [each for each in self.agents.values() if each.cluster is self.here]

    def _find_partitions(self) -> None:
        for reader in self.agents.values():
            reader.find_partitions()
