"""One reading of the cluster as the ledger sees it: the truth at the moments of the questions.

A question is one moment. What is true then may not be what is answered: a group can be hidden,
an answer can fail. Both are kept, the truth to judge by, and the failures because evidence that
failed must hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from retentiond.kafka.port import OffsetBound, TopicDescription
from retentiond.model import Failure, GroupKind, TopicPartition
from tests.fakes import FakeCluster
from tests.fakes.world import FakeTopic
from tests.property.model.rules import Rules

ENDLESS = 1_000_000
"""No record is young: the age is no bound, also not after the log has grown or shrunk."""

Commits = dict[TopicPartition, int | None]


@dataclass
class Photograph:
    """What was true when it was asked for; ``told``: groups whose commits were answered."""

    groups: dict[str, bool] = field(default_factory=dict)  # all there were; whether with members
    kinds: dict[str, GroupKind] = field(default_factory=dict)
    listed: set[str] | None = None  # those that retentiond was shown; None: it never asked
    commits: dict[str, Commits] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)
    subscribed: dict[str, set[str]] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    described: dict[str, tuple[int, ...]] = field(default_factory=dict)  # as it was answered
    configs: dict[str, tuple[frozenset[str], int | None]] = field(default_factory=dict)
    high_watermarks: dict[TopicPartition, int] = field(default_factory=dict)
    last_stable: dict[TopicPartition, int] = field(default_factory=dict)
    log_starts: dict[TopicPartition, int] = field(default_factory=dict)
    young: dict[TopicPartition, int] = field(default_factory=dict)
    failed: set[object] = field(default_factory=set)  # topics, partitions and groups
    doubts: list[str] = field(default_factory=list)  # why groups may be missing
    coordinators: list[frozenset[tuple[int, int, int]]] = field(default_factory=list)

    def take(self, cluster: FakeCluster, rules: Rules, api: str, args: Any, answer: Any) -> None:
        """After each call, before anything else happens."""
        if isinstance(answer, Mapping) and api != "delete_records":
            asked = [getattr(key, "group_id", key) for key in args[0]]
            given = {getattr(key, "group_id", key): value for key, value in answer.items()}
            self.failed |= {
                key for key in asked if key not in given or isinstance(given[key], Failure)
            }
        taken = getattr(self, f"_{api}", None)
        if taken is not None:
            taken(cluster, rules, args, answer)

    def _list_groups(self, cluster: FakeCluster, _rules: Rules, _args: Any, answer: Any) -> None:
        self.groups = {name: bool(group.members) for name, group in cluster.groups.items()}
        self.kinds = {name: group.kind for name, group in cluster.groups.items()}
        self.listed = {each.group_id for each in answer}

    def _commits(self, cluster: FakeCluster, _rules: Rules, args: Any, answer: Any) -> None:
        for name in (*self.groups, *args[0]):
            group = cluster.groups.get(name)
            self.commits[name] = dict(group.commits) if group else {}
        self.told |= {name for name, found in answer.items() if not isinstance(found, Failure)}

    def _share_offsets(self, cluster: FakeCluster, _rules: Rules, args: Any, answer: Any) -> None:
        for name in args[0]:
            group = cluster.groups.get(name)
            self.commits[name] = dict(group.commits) if group else {}
        self.told |= {name for name, found in answer.items() if not isinstance(found, Failure)}

    def _members(self, cluster: FakeCluster, rules: Rules, _args: Any, _answer: Any) -> None:
        for name, is_live in self.groups.items():
            group = cluster.groups.get(name)
            if is_live and group is not None:
                members = group.members.values()
                self.subscribed[name] = {
                    topic
                    for topic in rules.topics
                    for member in members
                    if topic in member.topics or f"{topic}.*" in member.patterns
                }

    def _describe_topics(
        self, cluster: FakeCluster, _rules: Rules, _args: Any, answer: Any
    ) -> None:
        self.ids = {name: topic.topic_id for name, topic in cluster.topics.items()}
        self.described |= {
            name: found.partitions
            for name, found in answer.items()
            if isinstance(found, TopicDescription)
        }

    def _topic_configs(self, cluster: FakeCluster, _rules: Rules, _args: Any, _answer: Any) -> None:
        self.configs = {name: _config(topic) for name, topic in cluster.topics.items()}

    def _offsets(self, cluster: FakeCluster, _rules: Rules, args: Any, _answer: Any) -> None:
        asked, bound = args
        for at in asked:
            if (topic := cluster.topics.get(at.topic)) and at.partition < len(topic.partitions):
                log = topic.partitions[at.partition]
                if bound is OffsetBound.HIGH_WATERMARK:
                    self.high_watermarks[at] = len(log.records)
                elif bound is OffsetBound.LOG_START:
                    self.log_starts[at] = log.log_start
                else:
                    undecided = [
                        offset
                        for offset, record in enumerate(log.records)
                        if offset >= log.log_start
                        and record.transaction is not None
                        and record.transaction.open
                    ]
                    self.last_stable[at] = min([len(log.records), *undecided])

    def _offsets_at(self, cluster: FakeCluster, rules: Rules, args: Any, _answer: Any) -> None:
        for at in args[0]:
            if (topic := cluster.topics.get(at.topic)) and at.partition < len(topic.partitions):
                log = topic.partitions[at.partition]
                since_ms = cluster.now_ms - rules.topics[at.topic].age_ms
                young = [
                    offset
                    for offset, record in enumerate(log.records)
                    if offset >= log.log_start and record.timestamp_ms >= since_ms
                ]
                self.young[at] = min(young, default=len(log.records) + ENDLESS)

    def _coordinator_state(
        self, cluster: FakeCluster, _rules: Rules, _args: Any, answer: Any
    ) -> None:
        self.coordinators.append(answer.leaders)
        if self.listed is None:
            return
        if answer.leaderless:
            self.doubts.append("a coordinator has no leader")
        if not cluster.may_describe_cluster:
            self.doubts.append("the principal may not see all groups")
        if not cluster.may_describe_offsets:
            self.doubts.append("the principal may not see the coordinators")
        if self.coordinators[0] != answer.leaders:
            self.doubts.append("the coordinators moved")

    _coordinators_since = _coordinator_state

    def _cluster_time(self, _cluster: FakeCluster, _rules: Rules, _args: Any, answer: Any) -> None:
        if isinstance(answer, Failure):
            self.doubts.append("the cluster's clock is unread")

    def readers(self, topic: str) -> set[str]:
        """Groups that were there, with a commit on the topic or a member that reads it."""
        return {
            name
            for name in self.groups
            if any(at.topic == topic for at in self.commits.get(name, ()))
            or topic in self.subscribed.get(name, ())
        }

    @property
    def hidden(self) -> set[str]:
        return self.groups.keys() - (self.listed or set())

    @property
    def is_whole(self) -> bool:
        """Whether the census of groups was taken to its end."""
        return self.listed is not None and len(self.coordinators) > 1


def _config(topic: FakeTopic) -> tuple[frozenset[str], int | None]:
    retention_ms = int(topic.config.get("retention.ms", 7 * 24 * 3_600_000))
    policies = topic.config.get("cleanup.policy", "delete").split(",")
    return frozenset(policies), None if retention_ms < 0 else retention_ms
