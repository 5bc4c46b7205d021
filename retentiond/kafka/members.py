"""What the live members of groups of each kind read."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from kafka.errors import KafkaError
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from retentiond.kafka import protocol_failures
from retentiond.kafka.connection import Connection
from retentiond.kafka.coordinators import ask_coordinators
from retentiond.kafka.link import Link
from retentiond.kafka.messages import (
    ConsumerGroupDescribeRequest,
    ShareGroupDescribeRequest,
    StreamsGroupDescribeRequest,
)
from retentiond.kafka.port import GroupMembers, ListedGroup
from retentiond.model import Failure, GroupKind

CONSUMER_PROTOCOL = "consumer"

Members = GroupMembers | Failure


def members(connection: Connection, groups: Collection[ListedGroup]) -> Mapping[str, Members]:
    """The members of each group; a kind that can't be described is a `Failure`."""
    by_kind: dict[GroupKind, list[str]] = {}
    for group in groups:
        by_kind.setdefault(group.kind, []).append(group.group_id)

    async def ask(link: Link) -> dict[str, Members]:
        found: dict[str, Members] = {}
        for kind, names in by_kind.items():
            if kind in _KINDS:
                found.update(await _describe(link, names, *_KINDS[kind]))
            else:
                unknown = Failure("UNKNOWN_KIND", f"{kind} groups can't be described")
                found.update(dict.fromkeys(names, unknown))
        return found

    return connection.run(ask) if groups else {}


async def _describe(
    link: Link,
    names: Sequence[str],
    request: Callable[[list[str]], Any],
    read: Callable[[Any], Members],
) -> dict[str, Members]:
    def answered(answer: Any, _asked: Sequence[str]) -> dict[str, Members]:
        return {group.group_id: _members(group, read) for group in answer.groups}

    return await ask_coordinators(link, names, lambda asked: request(list(asked)), answered)


def _members(group: Any, read: Callable[[Any], Members]) -> Members:
    """One described group. Without subscriptions and assignments of a live member: a failure."""
    if group.error_code:
        return protocol_failures.of_error_code(group.error_code)
    try:
        return read(group)
    except (KafkaError, struct.error, ValueError, TypeError, AttributeError, IndexError) as error:
        return Failure("MEMBERS_UNREADABLE", f"a member's subscription can't be read: {error}")


def _ask_classic(names: list[str]) -> Any:
    return DescribeGroupsRequest(groups=names, include_authorized_operations=False)


def _classic(group: Any) -> Members:
    if group.protocol_type != CONSUMER_PROTOCOL:
        return GroupMembers(topics=frozenset())
    topics: set[str] = set()
    for member in group.members:
        if not member.member_metadata:
            return Failure("MEMBERS_HIDDEN", "the group is rebalancing and hides subscriptions")
        topics.update(ConsumerProtocolSubscription.decode(member.member_metadata).topics)
        if member.member_assignment:
            assigned = ConsumerProtocolAssignment.decode(member.member_assignment)
            topics.update(part[0] for part in assigned.assigned_partitions)
    return GroupMembers(topics=frozenset(topics))


def _ask_consumer(names: list[str]) -> Any:
    return ConsumerGroupDescribeRequest(group_ids=names, include_authorized_operations=False)


def _consumer(group: Any) -> Members:
    """KIP-848."""
    topics: set[str] = set()
    patterns: set[str] = set()
    for member in group.members:
        topics.update(member.subscribed_topic_names)
        if member.subscribed_topic_regex:
            patterns.add(member.subscribed_topic_regex)
        for assignment in (member.assignment, member.target_assignment):
            topics.update(part.topic_name for part in assignment.topic_partitions)
    return GroupMembers(topics=frozenset(topics), patterns=tuple(sorted(patterns)))


def _ask_share(names: list[str]) -> Any:
    return ShareGroupDescribeRequest(group_ids=names, include_authorized_operations=False)


def _share(group: Any) -> Members:
    """KIP-932."""
    topics: set[str] = set()
    for member in group.members:
        topics.update(member.subscribed_topic_names)
        topics.update(part.topic_name for part in member.assignment.topic_partitions)
    return GroupMembers(topics=frozenset(topics))


def _ask_streams(names: list[str]) -> Any:
    return StreamsGroupDescribeRequest(group_ids=names, include_authorized_operations=False)


def _streams(group: Any) -> Members:
    """KIP-1071: the topology's inputs, and the changelogs that its state is restored from."""
    if group.topology is None or group.topology.subtopologies is None:
        return Failure("TOPOLOGY_HIDDEN", "the group's topology is not known yet")
    topics: set[str] = set()
    for part in group.topology.subtopologies:
        topics.update(part.source_topics)
        topics.update(topic.name for topic in part.repartition_source_topics)
        topics.update(topic.name for topic in part.state_changelog_topics)
    return GroupMembers(topics=frozenset(topics))


_KINDS: Mapping[GroupKind, tuple[Callable[[list[str]], Any], Callable[[Any], Members]]] = {
    GroupKind.CLASSIC: (_ask_classic, _classic),
    GroupKind.CONSUMER: (_ask_consumer, _consumer),
    GroupKind.SHARE: (_ask_share, _share),
    GroupKind.STREAMS: (_ask_streams, _streams),
}
"""How each kind is asked about, and how its answer is read."""
