"""Consumer groups of every kind, their members and commits."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from retentiond.kafka.interface import GroupMembers, ListedGroup
from retentiond.model import Commit, Failure, GroupKind, TopicPartition

PROTOCOL_TYPES = {
    GroupKind.CLASSIC: "consumer",
    GroupKind.CONSUMER: "consumer",
    GroupKind.STREAMS: "streams",
    GroupKind.SHARE: "share",
    GroupKind.UNKNOWN: "",
}

HIDDEN = Failure("MEMBERS_HIDDEN", "the group is rebalancing and hides subscriptions")


@dataclass(frozen=True, slots=True)
class FakeMember:
    """What a live member is subscribed or assigned to."""

    topics: frozenset[str] = frozenset()
    patterns: frozenset[str] = frozenset()


STREAMS_CLASSIC = re.compile(r".*-StreamThread-\d+-consumer")
"""How Kafka Streams calls the members of its classic groups."""


@dataclass
class FakeGroup:
    """``commits``: None is a commit that can't be read. ``rebalancing`` hides subscriptions.

    ``topology``: what a streams group reads, also without members.
    """

    group_id: str
    kind: GroupKind = GroupKind.CLASSIC
    members: dict[str, FakeMember] = field(default_factory=dict)
    commits: dict[TopicPartition, int | None] = field(default_factory=dict)
    leader_epochs: dict[TopicPartition, int] = field(default_factory=dict)
    rebalancing: bool = False
    simple: bool = True  # it never had members
    protocol: str | None = None  # of its members; None is the usual one
    topology: frozenset[str] = frozenset()
    changelogs: frozenset[str] = frozenset()  # what it restores its state from

    @property
    def state(self) -> str:
        if not self.members:
            return "Empty"
        return "PreparingRebalance" if self.rebalancing else "Stable"

    def reads(self, topic: str) -> bool:
        """Whether Kafka knows it as a reader: by topology, member or commit. The patterns of the
        tests are those that they make themselves: a topic's name and ``.*``."""
        return (
            topic in self.topology
            or any(
                topic in member.topics or f"{topic}.*" in member.patterns
                for member in self.members.values()
            )
            or any(at.topic == topic for at in self.commits)
        )

    def listed(self) -> ListedGroup:
        protocol = "" if self.simple else self.protocol or PROTOCOL_TYPES[self.kind]
        return ListedGroup(self.group_id, self.kind, self.state, protocol)

    def committed(self, on: Collection[TopicPartition] | None = None) -> list[Commit]:
        """Asked about partitions by their names, Kafka answers -1 where there is no commit."""
        return [
            Commit(*at, None)
            if offset is None or offset < 0
            else Commit(*at, offset, self.leader_epochs.get(at))
            for at, offset in sorted(self.commits.items())
            if on is None or (at in on and offset != -1)
        ]

    def described(self) -> GroupMembers | Failure:
        if self.kind is GroupKind.UNKNOWN:
            return Failure("UNKNOWN_KIND", f"{self.kind} groups can't be described")
        if self.rebalancing and self.members and self.kind is GroupKind.CLASSIC:
            return HIDDEN
        is_classic = self.kind is GroupKind.CLASSIC
        return GroupMembers(
            topics=(self.topology | self.changelogs).union(
                *(member.topics for member in self.members.values())
            ),
            patterns=tuple(sorted({p for m in self.members.values() for p in m.patterns})),
            changelogs=self.changelogs,
            is_streams_classic=is_classic and any(map(STREAMS_CLASSIC.fullmatch, self.members)),
        )
