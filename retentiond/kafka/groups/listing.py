"""Groups of all kinds, and the proof that every group coordinator was at work.

librdkafka's listing drops share and streams groups silently, and its reading of group
offsets crashes the process when a coordinator moves, so it is not asked about groups at all.

A listing lacks the groups of a coordinator that is still loading, or has just been resigned,
without an error, and for as long as a busy broker takes for it: seconds. No metadata show it.
But a coordinator that is not at work refuses to answer about a group, even one that nobody has:
so each partition of ``__consumer_offsets`` is asked about a name that belongs to it. Nothing is
created by that.

And a coordinator shows only what lies below its partition's high watermark. Right after a move that
may be old, until all replicas in sync have fetched from the new leader: for a part of a second, or
for as long as one of them stands still. Until then the coordinator answers about groups as if the
last commits, or all of them, had never been. But the leader refuses to say where the partition ends
(OFFSET_NOT_AVAILABLE, KIP-207). So it is asked that first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any

from kafka.protocol.admin import ListGroupsRequest
from kafka.protocol.consumer import IsolationLevel, OffsetSpec

from retentiond.errors import KafkaUnavailable
from retentiond.kafka.client import Client
from retentiond.kafka.groups.coordinators import GROUPS_PER_REQUEST, offset_fetch, read_commits
from retentiond.kafka.interface import OFFSETS_TOPIC, CoordinatorState, ListedGroup
from retentiond.kafka.network_client import (
    NO_ERROR,
    UNKNOWN_TOPIC,
    NetworkClient,
    failure_of_code,
    failure_of_exception,
    offsets_topic_request,
    operations_in,
)
from retentiond.kafka.remedies import GROUP_REFUSED
from retentiond.kafka.wire.by_hand import ListOffsets, OffsetQuery
from retentiond.model import Failure, GroupKind

KINDS = frozenset(kind.value for kind in GroupKind)


def coordinator_state(client: Client, earlier: CoordinatorState | None = None) -> CoordinatorState:
    """Every broker is asked who leads, after the coordinators are: one that has lost its lead may
    answer for a moment as if it had loaded nothing, but only once its own metadata name another
    leader."""

    async def ask(network: NetworkClient) -> CoordinatorState:
        views = [] if earlier else [await network.offsets_topic()]
        leaders = earlier.leaders if earlier else _leaders(views)
        # One that has caught up has done so for as long as it leads.
        caught_up = _caught_up(earlier) if earlier else await partitions_caught_up(network, leaders)
        at_work = await probe_coordinators(
            network, {partition: leader for partition, leader, _ in leaders}
        )
        return _state(views + await _all_views(network), at_work, caught_up)

    return client.run(ask)


def coordinators_since(client: Client, earlier: CoordinatorState) -> CoordinatorState:
    """A coordinator that leads in the same epoch still is what it was ``earlier``. A broker that is
    started again, killed or not, leads in a new one; one before Kafka 2.1 tells none."""

    async def ask(network: NetworkClient) -> CoordinatorState | None:
        probe = CoordinatorProbe(earlier.not_at_work, earlier.may_ask)
        now = _state(await _all_views(network), probe, _caught_up(earlier))
        tells_epochs = all(epoch >= 0 for _, _, epoch in now.leaders)
        return now if now == earlier and tells_epochs else None

    return client.run(ask) or coordinator_state(client)


def _caught_up(state: CoordinatorState) -> Set[int]:
    led = {partition for partition, leader, _ in state.leaders if leader >= 0}
    return led.difference(state.behind)


def _state(
    views: Sequence[Any], at_work: CoordinatorProbe, caught_up: Set[int]
) -> CoordinatorState:
    """``views``: of all brokers, some of them twice."""
    leaders = _leaders(views)
    led = {partition for partition, leader, _ in leaders if leader >= 0}
    return CoordinatorState(
        cluster_id=str(views[-1].cluster_id),
        leaders=leaders,
        leaderless=tuple(sorted({partition for partition, leader, _ in leaders if leader < 0})),
        may_describe_cluster=all("DESCRIBE" in (operations_in(view) or ()) for view in views),
        may_describe_offsets=all(
            view.topics[0].error_code in (NO_ERROR, UNKNOWN_TOPIC) for view in views
        ),
        not_at_work=at_work.not_at_work,
        may_ask=at_work.may_ask,
        behind=tuple(sorted(led - caught_up)),
    )


async def _all_views(network: NetworkClient) -> list[Any]:
    """What each living broker says, one that joins meanwhile included. One that doesn't answer
    has no view; it won't list its groups either. Raises `KafkaUnavailable` where none answers."""
    nodes = network.known_brokers()
    views = await _views(network, nodes)
    if not views:
        raise KafkaUnavailable("no broker says who leads __consumer_offsets")
    network.learn(views[-1])
    joined = {*network.known_brokers()} - {*nodes}
    return views + await _views(network, sorted(joined))


async def _views(network: NetworkClient, nodes: Sequence[int]) -> list[Any]:
    answers = await network.send_all([(node, offsets_topic_request()) for node in nodes])
    return [answer for answer in answers if not isinstance(answer, Exception)]


def _leaders(views: Sequence[Any]) -> frozenset[tuple[int, int, int]]:
    """(partition, leader, leader epoch) of ``__consumer_offsets``, as any of the views has it."""
    return frozenset(
        (part.partition_index, part.leader_id, part.leader_epoch)
        for view in views
        for part in view.topics[0].partitions
    )


def list_groups(client: Client) -> Sequence[ListedGroup]:
    async def ask(network: NetworkClient) -> list[ListedGroup]:
        nodes = await network.brokers()
        answers = await network.send_all([(node, ListGroupsRequest()) for node in nodes])
        groups: dict[str, ListedGroup] = {}
        listed_by: dict[str, int] = {}
        for node, answer in zip(nodes, answers, strict=True):
            failure = None
            if isinstance(answer, Exception):
                network.forget_brokers()  # it may no longer be one
                failure = failure_of_exception(answer)
            elif answer.error_code:
                failure = failure_of_code(answer.error_code)
            if failure is not None:
                raise KafkaUnavailable(f"broker {node} did not list its groups: {failure}")
            for group in map(_listed, answer.groups):
                name = group.group_id
                if name in groups:  # one of the brokers no longer coordinates it
                    groups[name] = _either(groups[name], group)
                    listed_by.pop(name, None)
                else:
                    groups[name], listed_by[name] = group, node
        network.learn_listing(listed_by)
        return list(groups.values())

    return client.run(ask)


def _listed(group: Any) -> ListedGroup:
    """Brokers before 3.8 don't tell the kind, and know classic groups only."""
    kind = str(group.group_type or GroupKind.CLASSIC).lower()
    return ListedGroup(
        group_id=group.group_id,
        kind=GroupKind(kind) if kind in KINDS else GroupKind.UNKNOWN,
        state=group.group_state or "Unknown",
        protocol_type=group.protocol_type or "",
    )


def _either(one: ListedGroup, other: ListedGroup) -> ListedGroup:
    """A group that two brokers list, by what they agree on. Otherwise it counts as live, as a
    reader, and as unreadable if they tell different kinds."""
    return ListedGroup(
        group_id=one.group_id,
        kind=one.kind if one.kind is other.kind else GroupKind.UNKNOWN,
        state=one.state if one.state == other.state else "Unknown",
        protocol_type=one.protocol_type if one.protocol_type == other.protocol_type else "",
    )


@dataclass(frozen=True, slots=True)
class CoordinatorProbe:
    """As in `CoordinatorState`."""

    not_at_work: tuple[int, ...] = ()
    may_ask: bool = True


async def probe_coordinators(
    network: NetworkClient, leaders: Mapping[int, int]
) -> CoordinatorProbe:
    """Asks the leader of each partition of ``__consumer_offsets``, which ``leaders`` has all of
    (a negative one is none). Where some are missing, nothing proves that the others are at work."""
    if leaders.keys() != set(range(len(leaders))):
        return CoordinatorProbe(tuple(sorted(leaders)))
    names = names_by_partition(len(leaders))
    led_by: dict[int, list[int]] = {}
    for partition, leader in leaders.items():
        if leader >= 0:
            led_by.setdefault(leader, []).append(partition)
    answers = await network.send_batches(
        led_by, GROUPS_PER_REQUEST, lambda led: offset_fetch([names[number] for number in led])
    )
    failed: dict[int, Failure | None] = {number: None for number in leaders if leaders[number] < 0}
    for led, answer in answers:
        if isinstance(answer, Exception):
            failed |= dict.fromkeys(led, failure_of_exception(answer))
            continue
        commits_by_group = dict(read_commits(answer))
        for number in led:
            reply = commits_by_group.get(names[number])
            if reply is None or isinstance(reply, Failure):
                failed[number] = reply
    may_ask = all(failure is None or failure.code != GROUP_REFUSED for failure in failed.values())
    return CoordinatorProbe(tuple(sorted(failed)), may_ask)


async def partitions_caught_up(
    network: NetworkClient, leaders: Iterable[tuple[int, int, int]]
) -> Set[int]:
    """The partitions of ``__consumer_offsets`` whose leader says in its epoch where they end;
    ``leaders`` as in `CoordinatorState`. Whatever else it answers proves nothing."""
    queries_by_leader: dict[int, list[OffsetQuery]] = {}
    for partition, leader, epoch in leaders:
        if leader >= 0:
            query = OffsetQuery(partition, epoch, OffsetSpec.LATEST)
            queries_by_leader.setdefault(leader, []).append(query)
    answers = await network.send_all(
        [
            (leader, ListOffsets(IsolationLevel.READ_UNCOMMITTED, {OFFSETS_TOPIC: queries}))
            for leader, queries in queries_by_leader.items()
        ]
    )
    return {
        part.partition_index
        for answer in answers
        if not isinstance(answer, Exception)
        for topic in answer.topics
        for part in topic.partitions
        if part.error_code == NO_ERROR
    }


@cache
def names_by_partition(partitions: int) -> Sequence[str]:
    """For each partition of ``__consumer_offsets`` the name of a group that belongs to it."""
    names: dict[int, str] = {}
    for number in count():
        if len(names) == partitions:
            return [names[partition] for partition in range(partitions)]
        name = f"retentiond-probe-{number}"
        names.setdefault(coordinating_partition(name, partitions), name)
    raise AssertionError  # `count` does not end


def coordinating_partition(group: str, partitions: int) -> int:
    """As Kafka's ``partitionFor``: Java's ``String.hashCode``, made positive, modulo.

    ``group`` is ASCII, where a character is one of Java's.
    """
    value = 0
    for character in group:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >= 1 << 31 else value
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions
