"""Groups of all kinds and what their members read, through kafka-python's connection.

librdkafka's listing drops share and streams groups without a word, and its reading of group
offsets crashes the process when a coordinator moves, so it is not asked about groups at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafka.admin import ACLOperation
from kafka.protocol.admin import ListGroupsRequest

from retentiond.errors import KafkaUnavailable
from retentiond.kafka import protocol_failures
from retentiond.kafka.connection import Connection
from retentiond.kafka.link import Link, offsets_topic_request
from retentiond.kafka.port import CoordinatorState, ListedGroup
from retentiond.kafka.probes import Probed, probe
from retentiond.model import GroupKind

CONSUMER_PROTOCOL = "consumer"

NO_ERROR = 0

UNKNOWN_TOPIC = 3
"""No ``__consumer_offsets`` yet: nobody has committed."""

KINDS = frozenset(kind.value for kind in GroupKind)


def coordinator_state(
    connection: Connection, earlier: CoordinatorState | None = None
) -> CoordinatorState:
    """Who leads ``__consumer_offsets`` now, whether each of them is at work as a coordinator, and
    whether all groups are visible. Those that led ``earlier`` are asked, else those of today.

    Every broker is asked who leads, after the coordinators are: one that has lost its lead may
    answer for a moment as if it had loaded nothing, but only once its own metadata name another
    leader.
    """

    async def ask(link: Link) -> CoordinatorState:
        views = [] if earlier else [await link.offsets_topic()]
        leaders = earlier.leaders if earlier else _leaders(views)
        probed = await probe(link, {partition: leader for partition, leader, _ in leaders})
        return _state(views + await _all_views(link), probed)

    return connection.run(ask)


def coordinators_since(connection: Connection, earlier: CoordinatorState) -> CoordinatorState:
    """The same, but where everything is as it was ``earlier`` they are not asked whether they are
    at work: each leads in the same epoch, so it still is what it was then. A broker that is
    started again, killed or not, leads in a new one; one before Kafka 2.1 tells none."""

    async def ask(link: Link) -> CoordinatorState | None:
        now = _state(await _all_views(link), Probed(earlier.asleep, earlier.may_ask))
        tells_epochs = all(epoch >= 0 for _, _, epoch in now.leaders)
        return now if now == earlier and tells_epochs else None

    return connection.run(ask) or coordinator_state(connection)


def _state(views: Sequence[Any], probed: Probed) -> CoordinatorState:
    """``views``: of all brokers, some of them twice."""
    leaders = _leaders(views)
    return CoordinatorState(
        cluster_id=str(views[-1].cluster_id),
        leaders=leaders,
        leaderless=tuple(sorted({partition for partition, leader, _ in leaders if leader < 0})),
        may_describe_cluster=all(map(_may_describe_cluster, views)),
        may_describe_offsets=all(
            view.topics[0].error_code in (NO_ERROR, UNKNOWN_TOPIC) for view in views
        ),
        asleep=probed.asleep,
        may_ask=probed.may_ask,
    )


async def _all_views(link: Link) -> list[Any]:
    """What each living broker says, one that joins meanwhile included. One that doesn't answer
    has no view; it won't list its groups either. Raises `KafkaUnavailable` where none answers."""
    asked = link.known_brokers()
    views = await _views(link, asked)
    if not views:
        raise KafkaUnavailable("no broker says who leads __consumer_offsets")
    link.learn(views[-1])
    joined = {*link.known_brokers()} - {*asked}
    return views + await _views(link, sorted(joined))


async def _views(link: Link, nodes: Sequence[int]) -> list[Any]:
    """Of those that answer."""
    answers = await link.send_all([(node, offsets_topic_request()) for node in nodes])
    return [answer for answer in answers if not isinstance(answer, Exception)]


def _may_describe_cluster(view: Any) -> bool:
    return ACLOperation.DESCRIBE in (view.authorized_operations or ())


def _leaders(views: Sequence[Any]) -> frozenset[tuple[int, int, int]]:
    """(partition, leader, leader epoch) of ``__consumer_offsets``, as any of the views has it."""
    return frozenset(
        (part.partition_index, part.leader_id, part.leader_epoch)
        for view in views
        for part in view.topics[0].partitions
    )


def list_groups(connection: Connection) -> Sequence[ListedGroup]:
    """Every broker's groups. Raises `KafkaUnavailable` if one broker didn't answer in full."""

    async def ask(link: Link) -> list[ListedGroup]:
        nodes = await link.brokers()
        answers = await link.send_all([(node, ListGroupsRequest()) for node in nodes])
        groups: dict[str, ListedGroup] = {}
        listed_by: dict[str, int] = {}
        for node, answer in zip(nodes, answers, strict=True):
            if isinstance(answer, Exception):
                link.forget_brokers()  # it may be one no more
                failure = protocol_failures.of_kafka_python(answer)
                raise KafkaUnavailable(f"broker {node} did not list its groups: {failure}")
            if answer.error_code:
                failure = protocol_failures.of_error_code(answer.error_code)
                raise KafkaUnavailable(f"broker {node} did not list its groups: {failure}")
            for group in answer.groups:
                groups[group.group_id] = _listed(group)
                listed_by[group.group_id] = node
        link.learn_listing(listed_by)
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
