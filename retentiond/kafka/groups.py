"""Groups of all kinds and what their members read, through kafka-python's connection.

librdkafka's listing drops share and streams groups without a word, and its reading of group
offsets crashes the process when a coordinator moves, so it is not asked about groups at all.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kafka.errors import KafkaError
from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from retentiond.errors import KafkaUnavailable
from retentiond.kafka import failures
from retentiond.kafka.commits import coordinators
from retentiond.kafka.connection import Connection, Link
from retentiond.kafka.messages import ConsumerGroupDescribeRequest
from retentiond.kafka.port import CoordinatorState, GroupMembers, ListedGroup
from retentiond.model import Failure, GroupKind

GROUPS_PER_REQUEST = 50

DESCRIBE = "DESCRIBE"

CONSUMER_PROTOCOL = "consumer"

NO_ERROR = 0

UNKNOWN_TOPIC = 3
"""No ``__consumer_offsets`` yet: nobody has committed."""

KINDS = frozenset(kind.value for kind in GroupKind)


def coordinator_state(connection: Connection) -> CoordinatorState:
    """Who leads ``__consumer_offsets`` now, and whether all groups are visible."""

    async def ask(link: Link) -> CoordinatorState:
        metadata = await link.offsets_topic()
        cluster = await link.describe_cluster()
        (topic,) = metadata.topics
        return CoordinatorState(
            leaders=frozenset(
                (part.partition_index, part.leader_id, part.leader_epoch)
                for part in topic.partitions
            ),
            leaderless=tuple(
                sorted(part.partition_index for part in topic.partitions if part.leader_id < 0)
            ),
            may_describe_cluster=DESCRIBE in _operations(cluster["authorized_operations"]),
            may_describe_offsets=topic.error_code in (NO_ERROR, UNKNOWN_TOPIC),
        )

    return connection.run(ask)


def list_groups(connection: Connection) -> Sequence[ListedGroup]:
    """Every broker's groups. Raises `KafkaUnavailable` if one broker didn't answer in full."""

    async def ask(link: Link) -> list[ListedGroup]:
        metadata = await link.offsets_topic()
        nodes = [broker.node_id for broker in metadata.brokers]
        answers = await link.send_all([(node, ListGroupsRequest()) for node in nodes])
        groups: dict[str, ListedGroup] = {}
        for node, answer in zip(nodes, answers, strict=True):
            if isinstance(answer, Exception):
                failure = failures.of_kafka_python(answer)
                raise KafkaUnavailable(f"broker {node} did not list its groups: {failure}")
            if answer.error_code:
                failure = failures.of_error_code(answer.error_code)
                raise KafkaUnavailable(f"broker {node} did not list its groups: {failure}")
            for group in answer.groups:
                groups[group.group_id] = _listed(group)
        return list(groups.values())

    return connection.run(ask)


def members(
    connection: Connection, groups: Collection[ListedGroup]
) -> Mapping[str, GroupMembers | Failure]:
    """The members of classic and consumer groups (KIP-848); other kinds are a `Failure`."""
    wanted = {group.group_id: group for group in groups}

    async def ask(link: Link) -> dict[str, GroupMembers | Failure]:
        found: dict[str, GroupMembers | Failure] = {
            group.group_id: Failure("UNKNOWN_KIND", f"{group.kind} groups can't be described")
            for group in wanted.values()
            if group.kind not in (GroupKind.CLASSIC, GroupKind.CONSUMER)
        }
        nodes = await coordinators(link, [name for name in wanted if name not in found])
        requests: list[tuple[int, Any]] = []
        asked: list[list[str]] = []
        for (node, kind), names in _by_node_and_kind(nodes, wanted, found).items():
            for start in range(0, len(names), GROUPS_PER_REQUEST):
                batch = names[start : start + GROUPS_PER_REQUEST]
                requests.append((node, _describe(kind, batch)))
                asked.append(batch)
        answers = await link.send_all(requests)
        for batch, answer in zip(asked, answers, strict=True):
            if isinstance(answer, Exception):
                failure = failures.of_kafka_python(answer)
                found.update(dict.fromkeys(batch, failure))
            else:
                found.update({group.group_id: _members(group) for group in answer.groups})
        return {name: found.get(name, _NOT_ANSWERED) for name in wanted}

    return connection.run(ask)


_NOT_ANSWERED = Failure("NOT_ANSWERED", "the coordinator left the group out of its answer")


def _by_node_and_kind(
    nodes: Mapping[str, int | Failure],
    wanted: Mapping[str, ListedGroup],
    found: dict[str, GroupMembers | Failure],
) -> dict[tuple[int, GroupKind], list[str]]:
    batches: dict[tuple[int, GroupKind], list[str]] = {}
    for name, node in nodes.items():
        if isinstance(node, Failure):
            found[name] = node
        else:
            batches.setdefault((node, wanted[name].kind), []).append(name)
    return batches


def _describe(kind: GroupKind, names: list[str]) -> Any:
    if kind is GroupKind.CONSUMER:
        return ConsumerGroupDescribeRequest(group_ids=names, include_authorized_operations=False)
    return DescribeGroupsRequest(groups=names, include_authorized_operations=False)


def _members(group: Any) -> GroupMembers | Failure:
    """One described group. Without subscriptions and assignments of a live member: a failure."""
    if group.error_code:
        return failures.of_error_code(group.error_code)
    try:
        if hasattr(group, "protocol_type"):
            return _classic_members(group)
        return _consumer_members(group)
    except (KafkaError, struct.error, ValueError, TypeError, AttributeError, IndexError) as error:
        return Failure("MEMBERS_UNREADABLE", f"a member's subscription can't be read: {error}")


def _classic_members(group: Any) -> GroupMembers | Failure:
    if group.protocol_type != CONSUMER_PROTOCOL:
        return GroupMembers(topics=frozenset(), patterns=())
    topics: set[str] = set()
    for member in group.members:
        if not member.member_metadata:
            return Failure("MEMBERS_HIDDEN", "the group is rebalancing and hides subscriptions")
        topics.update(ConsumerProtocolSubscription.decode(member.member_metadata).topics)
        if member.member_assignment:
            assigned = ConsumerProtocolAssignment.decode(member.member_assignment)
            topics.update(part[0] for part in assigned.assigned_partitions)
    return GroupMembers(topics=frozenset(topics), patterns=())


def _consumer_members(group: Any) -> GroupMembers:
    topics: set[str] = set()
    patterns: set[str] = set()
    for member in group.members:
        topics.update(member.subscribed_topic_names)
        if member.subscribed_topic_regex:
            patterns.add(member.subscribed_topic_regex)
        for assignment in (member.assignment, member.target_assignment):
            topics.update(part.topic_name for part in assignment.topic_partitions)
    return GroupMembers(topics=frozenset(topics), patterns=tuple(sorted(patterns)))


def _listed(group: Any) -> ListedGroup:
    """Brokers before 3.8 don't tell the kind, and know classic groups only."""
    kind = str(group.group_type or GroupKind.CLASSIC).lower()
    return ListedGroup(
        group_id=group.group_id,
        kind=GroupKind(kind) if kind in KINDS else GroupKind.UNKNOWN,
        state=group.group_state or "Unknown",
        protocol_type=group.protocol_type or "",
    )


def _operations(operations: Any) -> set[str]:
    return {getattr(operation, "name", str(operation)).upper() for operation in operations}
