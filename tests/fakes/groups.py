"""Consumer groups of every kind, their members and commits."""

from __future__ import annotations

from dataclasses import dataclass, field

from retentiond.kafka.port import GroupMembers, ListedGroup
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


@dataclass
class FakeGroup:
    """``commits``: None is a commit that can't be read. ``rebalancing`` hides subscriptions."""

    group_id: str
    kind: GroupKind = GroupKind.CLASSIC
    members: dict[str, FakeMember] = field(default_factory=dict)
    commits: dict[TopicPartition, int | None] = field(default_factory=dict)
    rebalancing: bool = False
    simple: bool = True  # it never had members

    @property
    def state(self) -> str:
        if not self.members:
            return "Empty"
        return "PreparingRebalance" if self.rebalancing else "Stable"

    def listed(self) -> ListedGroup:
        protocol = "" if self.simple else PROTOCOL_TYPES[self.kind]
        return ListedGroup(self.group_id, self.kind, self.state, protocol)

    def committed(self) -> list[Commit]:
        return [Commit(*at, offset) for at, offset in sorted(self.commits.items())]

    def described(self) -> GroupMembers | Failure:
        if self.kind is GroupKind.UNKNOWN:
            return Failure("UNKNOWN_KIND", f"{self.kind} groups can't be described")
        if self.rebalancing and self.members and self.kind is GroupKind.CLASSIC:
            return HIDDEN
        return GroupMembers(
            topics=frozenset(t for member in self.members.values() for t in member.topics),
            patterns=tuple(sorted({p for m in self.members.values() for p in m.patterns})),
        )
