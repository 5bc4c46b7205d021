"""What the brokers have answered a client so far, arranged by what a judge asks for."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

from kio.schema.consumer_protocol_assignment.v0.data import ConsumerProtocolAssignment
from kio.schema.consumer_protocol_subscription.v0.data import ConsumerProtocolSubscription
from kio.serial import entity_reader

from devkit.witness.exchanges import Exchange

At = tuple[str, int]
"""A topic and its partition."""

LATEST, EARLIEST = -1, -2

MAX_AGE_S = 5.0

EVIDENCE = {
    *("list_groups", "describe_groups", "consumer_group_describe", "share_group_describe"),
    *("streams_group_describe", "offset_fetch", "describe_share_group_offsets"),
    *("list_offsets", "offset_for_leader_epoch", "fetch"),
}
"""Requests whose answers a deletion rests on; all of them come before the topic's id is asked."""

TELL_CLUSTER = {"metadata", "describe_cluster"}

NAMES = {"topic", "topics", "topic_name", "subscribed_topic_names", "source_topics", "name"}
"""The fields of a group's description that name topics."""

PROTOCOL: dict[str, Any] = {
    "member_metadata": ConsumerProtocolSubscription,
    "member_assignment": ConsumerProtocolAssignment,
}
"""What the bytes of a classic member hold."""


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
    is_committed: bool
    offset: int


class Listing(NamedTuple):
    """The groups that a broker coordinates."""

    by: Exchange
    groups: frozenset[str]


class Topic(NamedTuple):
    """``leaders`` by partition."""

    by: Exchange
    topic_id: Any
    leaders: dict[int, int]


class Answers:
    """What is too old to prove anything is forgotten, but for who reads what."""

    def __init__(self) -> None:
        self.software: dict[int, str] = {}
        """By connection, which library it is of."""
        self.clusters: defaultdict[int, set[str]] = defaultdict(set)
        """By connection, the ids that were answered on it."""
        self.recent: list[Exchange] = []
        self.brokers: frozenset[int] = frozenset()
        self.listings: dict[int, Listing] = {}
        """The last one of each broker."""
        self.positions: defaultdict[str, list[Position]] = defaultdict(list)
        """By group."""
        self.offsets: defaultdict[At, list[Offset]] = defaultdict(list)
        self.tiered: set[str] = set()
        """Topics of which a part may be in remote storage; of these all offsets are kept."""
        self.starts_read: defaultdict[At, dict[str | None, float]] = defaultdict(dict)
        """By library, when what was answered last about the log's start was asked for."""
        self.named: dict[tuple[str | None, str], Topic] = {}
        """The last answer to a library that had asked about the topic by its name."""
        self.ties: defaultdict[str, dict[str, float]] = defaultdict(dict)
        """By topic and group, when an answer last showed that group there."""
        self.ids: defaultdict[str, dict[Any, float]] = defaultdict(dict)
        """By topic and id, when it was last answered."""

    def learn(self, by: Exchange) -> None:
        oldest = by.answered - MAX_AGE_S
        self.recent = [*(kept for kept in self.recent if kept.asked >= oldest), by]
        if by.answer is not None and (learn := getattr(self, f"_{by.api}", None)):
            learn(by, by.request, by.answer)

    def recreated_at(self, topic: str) -> float:
        """When the topic was last seen with another id than the last one."""
        seen = sorted(self.ids[topic].values())
        return seen[-2] if len(seen) > 1 else -math.inf

    def _api_versions(self, by: Exchange, request: Any, answer: Any) -> None:
        self.software[by.connection] = str(getattr(request, "client_software_name", None))

    def _metadata(self, by: Exchange, request: Any, answer: Any) -> None:
        self._describe_cluster(by, request, answer)
        named = {topic.name for topic in request.topics or ()}
        for topic in answer.topics:
            if topic.error_code.value or topic.name is None:
                continue
            topic_id = getattr(topic, "topic_id", None)
            self.ids[topic.name][topic_id] = by.answered
            if topic.name in named:
                leaders = {part.partition_index: part.leader_id for part in topic.partitions}
                library = self.software.get(by.connection)
                self.named[library, topic.name] = Topic(by, topic_id, leaders)

    def _describe_cluster(self, by: Exchange, request: Any, answer: Any) -> None:
        if cluster := getattr(answer, "cluster_id", None):
            self.clusters[by.connection].add(cluster)
            self.brokers = frozenset(
                broker.node_id if hasattr(broker, "node_id") else broker.broker_id
                for broker in answer.brokers
            )

    def _list_groups(self, by: Exchange, request: Any, answer: Any) -> None:
        filters = (getattr(request, f"{name}_filter", ()) for name in ("states", "types"))
        if not answer.error_code.value and not any(filters):
            groups = frozenset(group.group_id for group in answer.groups)
            self.listings[by.broker] = Listing(by, groups)

    def _offset_fetch(self, by: Exchange, request: Any, answer: Any) -> None:
        asked = {group.group_id: group.topics for group in getattr(request, "groups", (request,))}
        for group in getattr(answer, "groups", (answer,)):
            error = getattr(group, "error_code", None)  # early versions lack it
            if not error or not error.value:
                name = str(getattr(group, "group_id", "") or getattr(request, "group_id", ""))
                self._position(by, name, asked.get(name, ()), group.topics)

    _describe_share_group_offsets = _offset_fetch

    def _position(self, by: Exchange, group: str, asked: Any, topics: Any) -> None:
        offsets = {}
        for topic in topics:
            for part in topic.partitions:
                offset = getattr(part, "committed_offset", getattr(part, "start_offset", -1))
                if not part.error_code.value and offset != -1:
                    offsets[_name(topic), part.partition_index] = offset
        for name, _ in offsets:
            self.ties[name][group] = by.answered
        named = (
            asked
            if asked is None
            else frozenset(
                (_name(topic), number)
                for topic in asked
                for number in getattr(topic, "partition_indexes", getattr(topic, "partitions", ()))
            )
        )
        _keep(self.positions[group], Position(by, named, offsets))

    def _list_offsets(self, by: Exchange, request: Any, answer: Any) -> None:
        asked = {
            (topic.name, part.partition_index): part.timestamp
            for topic in request.topics
            for part in topic.partitions
        }
        library = self.software.get(by.connection)
        is_committed = getattr(request, "isolation_level", 0) == 1
        for topic in answer.topics:
            for part in topic.partitions:
                at = topic.name, part.partition_index
                if not part.error_code.value and at in asked:
                    if asked[at] == EARLIEST:
                        self.starts_read[at][library] = by.asked
                    offset = Offset(by, asked[at], is_committed, part.offset)
                    if topic.name in self.tiered:
                        self.offsets[at].append(offset)
                    else:
                        _keep(self.offsets[at], offset)

    def _describe_configs(self, by: Exchange, request: Any, answer: Any) -> None:
        for result in answer.results:
            for config in result.configs:
                if (config.name, config.value) == ("remote.storage.enable", "true"):
                    self.tiered.add(result.resource_name)

    def _describe_groups(self, by: Exchange, request: Any, answer: Any) -> None:
        for group in answer.groups:
            if getattr(group, "protocol_type", "consumer") == "consumer":
                for topic in _read_topics(group):
                    self.ties[topic][group.group_id] = by.answered

    _consumer_group_describe = _share_group_describe = _describe_groups
    _streams_group_describe = _describe_groups


def _keep(facts: list[Any], new: Position | Offset) -> None:
    """Of those before it, what was asked for lately."""
    oldest = new.by.answered - MAX_AGE_S
    facts[:] = [*(fact for fact in facts if fact.by.asked >= oldest), new]


def _name(topic: Any) -> str:
    return str(getattr(topic, "topic_name", None) or topic.name)


def _read_topics(described: Any, field: str = "") -> Iterator[str]:
    """Those that the description of a group names, but for those that it only writes."""
    if isinstance(described, str) and field in NAMES:
        yield described
    elif isinstance(described, tuple):
        for part in described:
            yield from _read_topics(part, field)
    elif is_dataclass(described):
        for inner in fields(described):
            if inner.name != "state_changelog_topics":
                yield from _read_topics(getattr(described, inner.name), inner.name)
    elif described and field in PROTOCOL:  # after a version; each begins with the same fields
        with suppress(Exception):  # what can't be read proves nothing
            yield from _read_topics(entity_reader(PROTOCOL[field])(described, 2)[0])
