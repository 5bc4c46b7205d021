"""External readers among the groups: each counts on the topics whose policy names it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from retentiond.config import ExternalReader, TopicPolicy
from retentiond.gather.external_positions import Position
from retentiond.gather.groups import GroupListing
from retentiond.gather.topics import EnabledTopic
from retentiond.kafka.interface import GroupMembers
from retentiond.model import Commit, Failure, GroupKind
from retentiond.snapshot import EXTERNAL_READER, GroupReading

NO_EXTERNAL: Mapping[ExternalReader, Position] = MappingProxyType({})

NAMESAKE = Failure(EXTERNAL_READER, "a group of the cluster has its name, so which has read what?")

STATE = "External"


def external_readers(topics: Sequence[EnabledTopic]) -> frozenset[ExternalReader]:
    """All that a policy of these topics names."""
    return frozenset(reader for topic in topics for reader in _readers_of(topic))


def with_external(
    listing: GroupListing,
    topics: Sequence[EnabledTopic],
    external: Mapping[ExternalReader, Position],
) -> GroupListing:
    """The listing with the external readers as groups.

    Each reads the topics that name it, and has commits on these alone. Where its position is
    unknown, or its name is not its own, its commits are null.
    """
    for topic in topics:
        for reader in _readers_of(topic):
            position = NAMESAKE if _is_namesake(listing, reader) else external[reader]
            listing = _with_reader(listing, reader.name, topic, position)
    return listing


def _readers_of(topic: EnabledTopic) -> tuple[ExternalReader, ...]:
    policy = topic.reading.policy
    return policy.external_readers if isinstance(policy, TopicPolicy) else ()


def _is_namesake(listing: GroupListing, reader: ExternalReader) -> bool:
    group = listing.groups.get(reader.name)
    return group is not None and group.kind is not GroupKind.EXTERNAL


def _with_reader(
    listing: GroupListing, name: str, topic: EnabledTopic, position: Position
) -> GroupListing:
    group = listing.groups.get(name) or GroupReading(name, GroupKind.EXTERNAL, STATE)
    if isinstance(position, Failure):
        group = replace(group, problem=position)
    commits = {(each.topic, each.partition): each for each in listing.commits.get(name, ())}
    for commit in _on_topic(topic, position):
        commits[commit.topic, commit.partition] = commit
    members = listing.members.get(name, GroupMembers(frozenset(), ()))
    members = replace(members, topics=members.topics | {topic.reading.name})
    return replace(
        listing,
        groups={**listing.groups, name: group},
        commits={**listing.commits, name: tuple(commits.values())},
        members={**listing.members, name: members},
    )


def _on_topic(topic: EnabledTopic, position: Position) -> Sequence[Commit]:
    name = topic.reading.name
    if isinstance(position, Failure):
        return [Commit(name, partition, None) for partition in topic.partitions]
    return [commit for commit in position if commit.topic == name]
