"""What the live members of groups of each kind read.

Members of classic groups write their subscriptions and assignments themselves, and many clients end
before the fields of the version that they name: kafka-go and sarama-cluster say version 1, and
write no owned partitions. Java's client and librdkafka take what is there. Every version so far
begins with the topics, and nothing else is needed here: so only the topics are read, and they must
be whole. A topic that is cut off may be any, so it raises `ValueError`, and the group counts as
unreadable.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from kafka.errors import KafkaError
from kafka.protocol.admin import DescribeGroupsRequest

from retentiond.kafka.client import Client
from retentiond.kafka.groups.coordinators import ask_coordinators
from retentiond.kafka.interface import GroupMembers, ListedGroup
from retentiond.kafka.network_client import NetworkClient, failure_of_code
from retentiond.kafka.wire import (
    ConsumerGroupDescribeRequest,
    ShareGroupDescribeRequest,
    StreamsGroupDescribeRequest,
)
from retentiond.model import Failure, GroupKind

_VERSION = struct.Struct(">h")
_LENGTH = struct.Struct(">h")
_COUNT = struct.Struct(">i")
_PARTITION = struct.Struct(">i")


class _Bytes:
    """Reads one field after the other. Raises `ValueError` where the bytes end too soon."""

    def __init__(self, body: bytes) -> None:
        self._body = bytes(body)
        self._at = 0

    def number(self, kind: struct.Struct) -> int:
        (value,) = kind.unpack(self._take(kind.size))
        if value < 0:
            raise ValueError(f"{value} where a length or a version belongs")
        return int(value)

    def text(self) -> str:
        return self._take(self.number(_LENGTH)).decode()

    def skip(self, size: int) -> None:
        self._take(size)

    def _take(self, size: int) -> bytes:
        taken = self._body[self._at : self._at + size]
        if len(taken) < size:
            raise ValueError(f"it ends after {len(self._body)} bytes, within its topics")
        self._at += size
        return taken


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """The topics of a ConsumerProtocolSubscription. Raises `ValueError`."""
    read = _Bytes(metadata)
    read.number(_VERSION)
    return frozenset(read.text() for _ in range(read.number(_COUNT)))


def assigned_topics(assignment: bytes) -> frozenset[str]:
    """The topics of a ConsumerProtocolAssignment. Raises `ValueError`."""
    read = _Bytes(assignment)
    read.number(_VERSION)
    topics: set[str] = set()
    for _ in range(read.number(_COUNT)):
        topics.add(read.text())
        read.skip(read.number(_COUNT) * _PARTITION.size)
    return frozenset(topics)


CONSUMER_PROTOCOL = "consumer"

STREAMS_ASSIGNOR = "stream"
"""What a classic group of Kafka Streams has agreed on, where it has."""

STREAMS_CLIENT = re.compile(r".*-StreamThread-\d+-consumer(?:-.*)?")
"""The client ids of its members, whatever ``client.id`` was set."""

EMPTY, DEAD = "Empty", "Dead"
"""States of a group, as its description says them; in every other one it has members."""

NOT_OF_ITS_KIND = Failure(
    "NOT_OF_ITS_KIND",
    "the group is listed, and its description shows no member; Kafka 3.7 does "
    "so with consumer groups of the new protocol (KIP-848), and any release does so with groups "
    "that their coordinators have lost sight of since __consumer_offsets got partitions",
)

Members = GroupMembers | Failure


def members(client: Client, groups: Collection[ListedGroup]) -> Mapping[str, Members]:
    by_kind: dict[GroupKind, list[str]] = {}
    for group in groups:
        by_kind.setdefault(group.kind, []).append(group.group_id)

    async def ask(network: NetworkClient) -> dict[str, Members]:
        by_group: dict[str, Members] = {}
        for kind, names in by_kind.items():
            if kind in _KINDS:
                by_group.update(await _describe(network, names, *_KINDS[kind]))
            else:
                unknown = Failure("UNKNOWN_KIND", f"{kind} groups can't be described")
                by_group.update(dict.fromkeys(names, unknown))
        return by_group

    return client.run(ask) if groups else {}


async def _describe(
    network: NetworkClient,
    groups: Sequence[str],
    request: Any,
    groups_field: str,
    read: Callable[[Any], Members],
) -> dict[str, Members]:
    def about(names: Sequence[str]) -> Any:
        return request(**{groups_field: list(names)}, include_authorized_operations=False)

    def answered(answer: Any) -> Iterator[tuple[str, Members]]:
        return ((group.group_id, _members(group, read)) for group in answer.groups)

    return await ask_coordinators(network, groups, about, answered)


def _members(group: Any, read: Callable[[Any], Members]) -> Members:
    """One described group. Without subscriptions and assignments of a live member: a failure.

    A coordinator that is asked about a group of another kind may say that it is dead, without an
    error. Where it has ended since it was listed, the next reading no longer lists it.
    """
    if group.error_code:
        return failure_of_code(group.error_code)
    if group.group_state == DEAD or (group.group_state != EMPTY and not group.members):
        return NOT_OF_ITS_KIND
    try:
        return read(group)
    except (KafkaError, struct.error, ValueError, TypeError, AttributeError, IndexError) as error:
        return Failure("MEMBERS_UNREADABLE", f"a member's subscription can't be read: {error}")


def _classic(group: Any) -> Members:
    if group.protocol_type != CONSUMER_PROTOCOL:
        return GroupMembers(topics=frozenset())
    topics: set[str] = set()
    for member in group.members:
        if not member.member_metadata:
            return Failure("MEMBERS_HIDDEN", "the group is rebalancing and hides subscriptions")
        topics.update(subscribed_topics(member.member_metadata))
        if member.member_assignment:
            topics.update(assigned_topics(member.member_assignment))
    is_streams = group.protocol_data == STREAMS_ASSIGNOR or any(
        STREAMS_CLIENT.fullmatch(member.client_id) for member in group.members
    )
    return GroupMembers(topics=frozenset(topics), is_streams_classic=is_streams)


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


def _share(group: Any) -> Members:
    """KIP-932."""
    topics: set[str] = set()
    for member in group.members:
        topics.update(member.subscribed_topic_names)
        topics.update(part.topic_name for part in member.assignment.topic_partitions)
    return GroupMembers(topics=frozenset(topics))


def _streams(group: Any) -> Members:
    """KIP-1071: the topology's inputs, and the changelogs that its state is restored from."""
    if group.topology is None or group.topology.subtopologies is None:
        return Failure("TOPOLOGY_HIDDEN", "the group's topology is not known yet")
    topics: set[str] = set()
    changelogs: set[str] = set()
    for part in group.topology.subtopologies:
        topics.update(part.source_topics)
        topics.update(topic.name for topic in part.repartition_source_topics)
        changelogs.update(topic.name for topic in part.state_changelog_topics)
    return GroupMembers(topics=frozenset(topics | changelogs), changelogs=frozenset(changelogs))


_KINDS: Mapping[GroupKind, tuple[Any, str, Callable[[Any], Members]]] = {
    GroupKind.CLASSIC: (DescribeGroupsRequest, "groups", _classic),
    GroupKind.CONSUMER: (ConsumerGroupDescribeRequest, "group_ids", _consumer),
    GroupKind.SHARE: (ShareGroupDescribeRequest, "group_ids", _share),
    GroupKind.STREAMS: (StreamsGroupDescribeRequest, "group_ids", _streams),
}
"""The request about each kind, how it calls the groups, and how its answer is read."""
