"""Harm: a reader that retentiond was shown does not find the next record that it wants.

Each request is judged in the moment in which it goes out, as if it were applied. The rules, in
the readers' words:

1. Whoever a listing named as a reader of the topic, or who has stood in the listings for
   `LOOK_WITHIN_MS`, finds what it needs: what follows its last commit, or, where it never
   committed, everything from where it begins. So does who is named as required by the policy.
   Unless an operator has forgotten its group, or ``forget_vanished_after`` of true time has passed
   since a listing last named it.
2. A reader that goes back is to be found there once an answer has shown it, or after
   `LOOK_WITHIN_MS`.
3. Records that are truly younger than the consumed retention are there, and those of undecided
   transactions. Where a disk that holds them is full, at any time of the cycle, it is the pressure
   retention that counts.
4. Nothing is deleted from topics that no operator has enabled, in a dry run, or during a pause.

A commit that is older than its topic tells retentiond apart from no other where it has never seen
the topic before: whoever has gone back behind one that was there before the first look is no reader
yet. What is named counts for the state directory that retentiond used then: another one is another
operator's memory. What a cycle was shown that came to no end is nobody's to remember.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from retentiond.model import Failure, TopicPartition
from tests.property.model.agents import Agent, Want
from tests.property.model.rules import ENABLED, EXCLUDED, TOPICS, Rules
from tests.property.model.world import Presence, World
from tests.support.fakes import FakeCluster, FakePartition

LOOK_WITHIN_MS = 5_000
"""Evidence may be so old when a request goes out."""

Named = tuple[str, Presence]  # state directory, and who read what


class Harm(AssertionError):
    """What a reader would say."""


@dataclass
class Request:
    """One partition's deletion that went out. ``applied``, ``late``: what became of it."""

    cluster: FakeCluster
    at: TopicPartition
    topic_id: str
    cutoff: int
    log: FakePartition
    start: int
    late_before: int
    intent: tuple[str, int]  # state directory, and number in its audit log
    applied: bool = False
    late: bool = False


class Judge:
    def __init__(self, world: World, rules: Rules) -> None:
        self.world = world
        self.rules = rules
        self.state = ""  # the state directory in use
        self.paused = False  # when retentiond could last look
        self.named: dict[Named, int] = {}  # when a listing last named it
        self._new: dict[Named, int] = {}  # in this cycle
        self._known: set[Presence] = set()  # likewise, by their commits
        self._topics: set[tuple[str, str, str, str]] = set()  # likewise, of state and cluster
        self._topics_seen: set[tuple[str, str, str, str]] = set()
        self.requests: list[Request] = []
        self.under_way: list[Request] = []
        self.reached: Counter[tuple[str, int]] = Counter()  # by log starts, of topic ids
        self.audited: dict[str, int] = {}  # the last deletion checked, by state directory

    # What retentiond is shown

    def begin(self) -> None:
        self._new.clear()
        self._known.clear()
        self._topics.clear()

    def finished(self) -> None:
        """The cycle came to its end, and could remember whom it was shown."""
        self.named |= self._new
        self.world.known |= self._known
        self._topics_seen |= self._topics

    def shown(self, cluster: FakeCluster, api: str, answer: Any) -> None:
        if api in ("commits", "share_offsets"):
            for group, commits in answer.items():
                if not isinstance(commits, Failure):
                    self._show_commits(cluster, group, {commit.topic for commit in commits})
        elif api == "describe_topics":
            for name, topic in answer.items():
                if not isinstance(topic, Failure):
                    self._topics.add((self.state, cluster.id, name, str(topic.topic_id)))
        elif api == "members":
            for group, members in answer.items():
                if not isinstance(members, Failure):
                    for topic in TOPICS:
                        if topic in members.topics or f"{topic}.*" in members.patterns:
                            self._name(cluster, group, topic)

    def _show_commits(self, cluster: FakeCluster, group: str, topics: set[str]) -> None:
        for topic in topics:
            self._name(cluster, group, topic)
            self._known.add((cluster.id, group, topic))
        for reader in self.world.agents.values():
            if reader.cluster is cluster and reader.group == group:
                for want in reader.wants.values():
                    want.before = None

    def _name(self, cluster: FakeCluster, group: str, topic: str) -> None:
        self._new[self.state, (cluster.id, group, topic)] = self.world.now_ms

    def note(self) -> None:
        """After each step. Who is not named for ``forget_vanished_after`` is forgotten."""
        for cluster in self.world.clusters:
            for topic in cluster.topics.values():
                for number, log in enumerate(topic.partitions):
                    log_id = topic.topic_id, number
                    self.reached[log_id] = max(self.reached[log_id], log.log_start)
        forget_ms, now_ms = self.rules.forget_ms, self.world.now_ms
        if forget_ms is not None:
            self._keep(lambda named, shown_ms: now_ms - shown_ms < forget_ms)

    def forget(self, group: str) -> None:
        """An operator has."""
        self._keep(lambda named, _: named[0] != self.state or named[1][1] != group)

    def forget_all(self) -> None:
        """An operator goes on without the memory that was lost."""
        self._keep(lambda named, _: named[0] != self.state)
        self._topics_seen = {each for each in self._topics_seen if each[0] != self.state}

    def _keep(self, wanted: Callable[[Named, int], bool]) -> None:
        for each in (self.named, self._new):
            for named in [named for named, at_ms in each.items() if not wanted(named, at_ms)]:
                del each[named]

    # What it asks for

    def judge(
        self,
        cluster: FakeCluster,
        cutoffs: Mapping[TopicPartition, int],
        intents: Mapping[TopicPartition, int],
    ) -> None:
        """Before a request goes out. ``intents``: their numbers in the audit log. Raises `Harm`."""
        self.under_way.clear()
        for at, cutoff in cutoffs.items():
            topic = cluster.topics.get(at.topic)
            if topic is None or at.partition >= len(topic.partitions):
                continue
            log = topic.partitions[at.partition]
            self.world.met["requests"] += 1
            late = cluster._late.count((log, cutoff))
            intent = self.state, intents[at]
            self.under_way.append(
                Request(cluster, at, topic.topic_id, cutoff, log, log.log_start, late, intent)
            )
            if log.log_start < cutoff <= log.high_watermark:
                self._judge(cluster, at, log, cutoff)

    def answered(self) -> None:
        """The requests have done what they do at once."""
        for each in self.under_way:
            late = each.cluster._late.count((each.log, each.cutoff))
            each.late = late > each.late_before
            each.applied = each.start < each.cutoff <= each.log.log_start
        self.requests += self.under_way
        self.note()

    def _age_ms(self, cluster: FakeCluster, log: FakePartition) -> int:
        """Shorter only while the disk of a broker that holds the log is full."""
        is_full = any((cluster.id, broker) in self.world.full_in_cycle for broker in log.replicas)
        if is_full and self.rules.pressure_ms is not None:
            return self.rules.pressure_ms
        return self.rules.age_ms

    def _judge(
        self, cluster: FakeCluster, at: TopicPartition, log: FakePartition, cutoff: int
    ) -> None:
        what = f"{at} of {cluster.id} up to {cutoff}"
        if at.topic not in ENABLED:
            raise Harm(f"{what}: nobody has enabled the topic")
        if self.rules.dry_run or self.paused:
            raise Harm(f"{what}: nothing was to be deleted")
        if cutoff > log.last_stable:
            raise Harm(f"{what}: {log.last_stable} is of an undecided transaction")
        age_ms = self._age_ms(cluster, log)
        young_ms = self.world.now_ms - age_ms
        gone = log.records[log.log_start : cutoff]
        if age_ms and any(record.timestamp_ms >= young_ms for record in gone):
            raise Harm(f"{what}: records are too young")
        normal_ms = self.world.now_ms - self.rules.age_ms
        if self.rules.age_ms and any(record.timestamp_ms >= normal_ms for record in gone):
            self.world.met["deletions that only pressure allows"] += 1
        for reader in self.world.agents.values():
            if want := reader.wants.get(log):
                is_excused = self._is_older_than_all_looks(cluster, at, reader, want)
                if not is_excused and self._counts((cluster.id, reader.group, at.topic)):
                    is_alive = reader.alive and log in reader.logs(at.topic)
                    need = self._need(want, is_alive)
                    if need is not None and max(need, log.log_start) < cutoff:
                        who = "reads" if is_alive else "is away, and will come back, and"
                        raise Harm(f"{what}: {reader.group} {who} needs {need}")
                let_go(want, cutoff)

    def _is_older_than_all_looks(
        self, cluster: FakeCluster, at: TopicPartition, reader: Agent, want: Want
    ) -> bool:
        """Whether what stands in Kafka is a commit on an earlier topic, which nobody has seen."""
        now = cluster.topics[at.topic].topic_id
        seen = {
            topic_id
            for *where, topic_id in self._topics_seen | self._topics
            if where == [self.state, cluster.id, at.topic]
        }
        is_old = want.taken_over is not None and want.taken_over == reader.told(*at)
        return is_old and seen <= {now}

    def _counts(self, presence: Presence) -> bool:
        group = presence[1]
        if group == EXCLUDED:
            return False
        if self.rules.required and group == "g1":
            return True
        now_ms = self.world.now_ms
        if now_ms - self.world.visible_since.get(presence, now_ms) >= LOOK_WITHIN_MS:
            return True
        named = (self.state, presence)
        return named in self.named or named in self._new

    def _need(self, want: Want, is_alive: bool) -> int | None:
        need = want.need(is_alive)
        if want.before is None or need is None:
            return need
        before, at_ms = want.before
        if self.world.now_ms - at_ms >= LOOK_WITHIN_MS:
            want.before = None
            return need
        return None if before is None else max(need, before)


def let_go(want: Want, cutoff: int) -> None:
    """Nobody had to know: it goes on with what is left."""
    want.position = max(want.position, cutoff)
    if want.told is not None:
        want.told = max(want.told, cutoff)
    elif want.start is not None:
        want.start = max(want.start, cutoff)
