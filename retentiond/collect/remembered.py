"""What earlier cycles saw of the groups, so that one that vanishes does not free its records.

Offsets expire, permissions change, coordinators move: a group that is not in the listing any
more looks just like one that never was. Only a memory tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from retentiond.collect.arrival import EndsSeen
from retentiond.collect.snapshot import TopicReading
from retentiond.config import PolicyConflict, TopicPolicy
from retentiond.model import GroupKind


class GroupOnTopic(NamedTuple):
    group_id: str
    topic: str


@dataclass(frozen=True, slots=True)
class LastCommits:
    """A group's last known committed offsets on one topic, by partition.

    ``absent_since_ms``: when a complete listing first had no commit of the group on the topic;
    None while it has. ``moved_at_ms``: by partition, when the commit was first seen where it is,
    so that it has not moved since.
    """

    kind: GroupKind
    offsets: Mapping[int, int]
    absent_since_ms: int | None = None
    moved_at_ms: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """``agreed``: how many complete readings in a row had these ``groups``, sorted by name.

    ``ends``: a few of the ends that were read, the oldest first.
    """

    topic_id: str
    groups: tuple[str, ...] = ()
    agreed: int = 0
    ends: tuple[EndsSeen, ...] = ()


@dataclass(frozen=True, slots=True)
class Remembered:
    """``topics`` by name. ``lost``: why groups may be missing here, in a sentence."""

    topics: Mapping[str, KnownTopic] = field(default_factory=dict)
    commits: Mapping[GroupOnTopic, LastCommits] = field(default_factory=dict)
    lost: str | None = None


NOTHING = Remembered()


def recognised(topic: TopicReading, remembered: Remembered) -> TopicReading:
    """The reading, marked if the topic of that name was another one when it was last seen."""
    known = remembered.topics.get(topic.name)
    is_another = known is not None and topic.topic_id not in (None, known.topic_id)
    return replace(topic, recreated=True) if is_another else topic


def known_commits(
    topics: Iterable[TopicReading], remembered: Remembered, now_ms: int
) -> dict[GroupOnTopic, LastCommits]:
    """What is remembered about these topics, less what says nothing any more: commits on a
    topic that was recreated, and those that the policy has given up waiting for."""
    policies = {topic.name: topic.policy for topic in topics if not topic.recreated}
    return {
        at: last
        for at, last in remembered.commits.items()
        if at.topic in policies and not is_forgotten(policies[at.topic], last, now_ms)
    }


def is_forgotten(policy: TopicPolicy | PolicyConflict, last: LastCommits, now_ms: int) -> bool:
    """Whether the group is absent for as long as ``forget_vanished_after``."""
    if isinstance(policy, PolicyConflict) or policy.forget_vanished_after_ms is None:
        return False
    absent_since_ms = last.absent_since_ms
    return absent_since_ms is not None and (
        now_ms - absent_since_ms >= policy.forget_vanished_after_ms
    )
