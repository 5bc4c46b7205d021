"""What the brokers' answers say, arranged by what a judge asks for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from kio.schema.consumer_protocol_assignment.v0.data import ConsumerProtocolAssignment
from kio.schema.consumer_protocol_subscription.v0.data import ConsumerProtocolSubscription
from kio.serial import entity_reader

from devkit.witness.frames import Exchange

At = tuple[str, int]
"""A topic and its partition."""

LATEST, EARLIEST = -1, -2
COMMITTED = 1
"""The isolation level whose latest offset is the last stable one."""


class Listing(NamedTuple):
    """The groups that a broker coordinates."""

    by: Exchange
    groups: frozenset[str]


class Position(NamedTuple):
    """A group's offsets. ``asked``: the partitions that were named; None: all of them."""

    by: Exchange
    asked: frozenset[At] | None
    offsets: dict[At, int]


class Offset(NamedTuple):
    """``stamp``: what was asked for, a time in milliseconds since 1970, or below zero Kafka's word
    for an end."""

    by: Exchange
    stamp: int
    isolation: int
    offset: int


class Topic(NamedTuple):
    """``leaders`` by partition. ``is_named``: it was asked for by its name."""

    by: Exchange
    topic_id: Any
    leaders: dict[int, int]
    is_named: bool


class Answers:
    """Of the exchanges of one client, in the order in which they were asked."""

    def __init__(self, exchanges: Iterable[Exchange]) -> None:
        self.exchanges = list(exchanges)
        self.listings: list[Listing] = []
        self.positions: defaultdict[str, list[Position]] = defaultdict(list)
        """By group."""
        self.ties: defaultdict[str, list[tuple[Exchange, str]]] = defaultdict(list)
        """By topic, the groups that an answer shows as its readers."""
        self.offsets: defaultdict[At, list[Offset]] = defaultdict(list)
        self.topics: defaultdict[str, list[Topic]] = defaultdict(list)
        self.clusters: list[tuple[Exchange, str]] = []
        self.brokers: list[tuple[Exchange, frozenset[int]]] = []
        self.software: dict[int, str] = {}
        """By connection, which library it is of."""
        for each in self.exchanges:
            if each.api == "api_versions" and each.request is not None:
                name = getattr(each.request, "client_software_name", None)
                self.software[each.connection] = str(name)
            if each.answer is not None and (take := getattr(self, f"_{each.api}", None)):
                take(each, each.request, each.answer)

    def _metadata(self, by: Exchange, request: Any, answer: Any) -> None:
        self._describe_cluster(by, request, answer)
        named = {topic.name for topic in request.topics or ()}
        for topic in answer.topics:
            if not topic.error_code.value and topic.name is not None:
                leaders = {each.partition_index: each.leader_id for each in topic.partitions}
                topic_id = getattr(topic, "topic_id", None)
                self.topics[topic.name].append(Topic(by, topic_id, leaders, topic.name in named))

    def _describe_cluster(self, by: Exchange, request: Any, answer: Any) -> None:
        if cluster := getattr(answer, "cluster_id", None):
            self.clusters.append((by, cluster))
            ids = (
                getattr(each, "node_id", getattr(each, "broker_id", -1)) for each in answer.brokers
            )
            self.brokers.append((by, frozenset(ids)))

    def _list_groups(self, by: Exchange, request: Any, answer: Any) -> None:
        filters = (getattr(request, f"{name}_filter", ()) for name in ("states", "types"))
        if not answer.error_code.value and not any(filters):
            self.listings.append(Listing(by, frozenset(each.group_id for each in answer.groups)))

    def _offset_fetch(self, by: Exchange, request: Any, answer: Any) -> None:
        asked = {each.group_id: each.topics for each in getattr(request, "groups", (request,))}
        for group in getattr(answer, "groups", (answer,)):
            if not getattr(group, "error_code", _none).value:
                name = group.group_id if hasattr(group, "group_id") else request.group_id
                self._position(by, name, asked.get(name, ()), group.topics, "committed_offset")

    def _describe_share_group_offsets(self, by: Exchange, request: Any, answer: Any) -> None:
        asked = {each.group_id: each.topics for each in request.groups}
        for group in answer.groups:
            if not group.error_code.value:
                topics = asked.get(group.group_id, ())
                self._position(by, group.group_id, topics, group.topics, "start_offset")

    def _position(self, by: Exchange, group: str, asked: Any, topics: Any, field: str) -> None:
        offsets = {}
        for topic in topics:
            for each in topic.partitions:
                if not each.error_code.value and getattr(each, field) != -1:
                    offsets[_name(topic), each.partition_index] = getattr(each, field)
        for topic in {name for name, _ in offsets}:
            self.ties[topic].append((by, group))
        names = None
        if asked is not None:
            names = frozenset(
                (_name(each), number)
                for each in asked
                for number in getattr(each, "partition_indexes", getattr(each, "partitions", ()))
            )
        self.positions[group].append(Position(by, names, offsets))

    def _list_offsets(self, by: Exchange, request: Any, answer: Any) -> None:
        asked = {
            (topic.name, each.partition_index): each.timestamp
            for topic in request.topics
            for each in topic.partitions
        }
        isolation = getattr(request, "isolation_level", 0)
        for topic in answer.topics:
            for each in topic.partitions:
                at = topic.name, each.partition_index
                if not each.error_code.value and at in asked:
                    self.offsets[at].append(Offset(by, asked[at], isolation, each.offset))

    def _describe_groups(self, by: Exchange, request: Any, answer: Any) -> None:
        for group in answer.groups:
            if group.protocol_type == "consumer":
                for member in group.members:
                    with suppress(Exception):  # what can't be read proves nothing
                        for topic in _of_member(member):
                            self.ties[topic].append((by, group.group_id))

    def _consumer_group_describe(self, by: Exchange, request: Any, answer: Any) -> None:
        for group in answer.groups:
            for member in group.members:
                parts = [member.assignment, getattr(member, "target_assignment", member.assignment)]
                assigned = (each.topic_name for part in parts for each in part.topic_partitions)
                for topic in (*member.subscribed_topic_names, *assigned):
                    self.ties[topic].append((by, group.group_id))

    _share_group_describe = _consumer_group_describe

    def _streams_group_describe(self, by: Exchange, request: Any, answer: Any) -> None:
        for group in answer.groups:
            for part in (group.topology and group.topology.subtopologies) or ():
                repartitioned = (each.name for each in part.repartition_source_topics)
                for topic in (*part.source_topics, *repartitioned):
                    self.ties[topic].append((by, group.group_id))


class _none:  # noqa: N801 - stands in for an error code that early versions lack
    value = 0


def _name(topic: Any) -> str:
    return str(getattr(topic, "topic_name", None) or topic.name)


def _of_member(member: Any) -> Iterator[str]:
    """The topics of a classic member's subscription and assignment: after a version, the first
    fields of either are the same in each version."""
    if len(member.member_metadata) > 2:
        yield from entity_reader(ConsumerProtocolSubscription)(member.member_metadata, 2)[0].topics
    if len(member.member_assignment) > 2:
        read = entity_reader(ConsumerProtocolAssignment)(member.member_assignment, 2)[0]
        yield from (each.topic for each in read.assigned_partitions)
