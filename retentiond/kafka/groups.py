"""Groups of all kinds and what their members read, through kafka-python's connection.

librdkafka's listing drops share and streams groups without a word, and its reading of group
offsets crashes the process when a coordinator moves, so it is not asked about groups at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafka.protocol.admin import ListGroupsRequest

from retentiond.errors import KafkaUnavailable
from retentiond.kafka import protocol_failures
from retentiond.kafka.connection import Connection, Link, offsets_topic_request
from retentiond.kafka.port import CoordinatorState, ListedGroup
from retentiond.kafka.probes import probe
from retentiond.model import GroupKind

DESCRIBE = "DESCRIBE"

CONSUMER_PROTOCOL = "consumer"

NO_ERROR = 0

UNKNOWN_TOPIC = 3
"""No ``__consumer_offsets`` yet: nobody has committed."""

KINDS = frozenset(kind.value for kind in GroupKind)


def coordinator_state(connection: Connection) -> CoordinatorState:
    """Who leads ``__consumer_offsets`` now, whether each of them is at work as a coordinator, and
    whether all groups are visible.

    Every broker is asked who leads, before and after the coordinators are: one that has lost its
    lead may answer for a moment as if it had loaded nothing, but only once its own metadata name
    another leader.
    """

    async def ask(link: Link) -> CoordinatorState:
        metadata = await link.offsets_topic()
        cluster = await link.describe_cluster()
        nodes = [broker.node_id for broker in metadata.brokers]
        views = [metadata, *await _views(link, nodes)]
        (topic,) = metadata.topics
        probed = await probe(
            link, {part.partition_index: part.leader_id for part in topic.partitions}
        )
        views += await _views(link, nodes)
        seen = [part for view in views for part in view.topics[0].partitions]
        return CoordinatorState(
            leaders=frozenset(
                (part.partition_index, part.leader_id, part.leader_epoch) for part in seen
            ),
            leaderless=tuple(sorted({part.partition_index for part in seen if part.leader_id < 0})),
            may_describe_cluster=DESCRIBE in _operations(cluster["authorized_operations"]),
            may_describe_offsets=topic.error_code in (NO_ERROR, UNKNOWN_TOPIC),
            asleep=probed.asleep,
            may_ask=probed.may_ask,
        )

    return connection.run(ask)


async def _views(link: Link, nodes: Sequence[int]) -> list[Any]:
    """What each broker says about ``__consumer_offsets``. One that doesn't answer has no view; it
    won't list its groups either."""
    answers = await link.send_all([(node, offsets_topic_request()) for node in nodes])
    return [answer for answer in answers if not isinstance(answer, Exception)]


def list_groups(connection: Connection) -> Sequence[ListedGroup]:
    """Every broker's groups. Raises `KafkaUnavailable` if one broker didn't answer in full."""

    async def ask(link: Link) -> list[ListedGroup]:
        metadata = await link.offsets_topic()
        nodes = [broker.node_id for broker in metadata.brokers]
        answers = await link.send_all([(node, ListGroupsRequest()) for node in nodes])
        groups: dict[str, ListedGroup] = {}
        for node, answer in zip(nodes, answers, strict=True):
            if isinstance(answer, Exception):
                failure = protocol_failures.of_kafka_python(answer)
                raise KafkaUnavailable(f"broker {node} did not list its groups: {failure}")
            if answer.error_code:
                failure = protocol_failures.of_error_code(answer.error_code)
                raise KafkaUnavailable(f"broker {node} did not list its groups: {failure}")
            for group in answer.groups:
                groups[group.group_id] = _listed(group)
        return list(groups.values())

    return connection.run(ask)


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
