"""Every number in an answer is whatever its type allows, and no reading ends with a traceback."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.errors import KafkaError
from kafka.protocol import admin, consumer, metadata

from retentiond.errors import KafkaUnavailable, OtherCluster
from retentiond.kafka import brokers, log_dirs, topics, wire
from retentiond.kafka.groups import coordinators, listing, members
from retentiond.kafka.interface import (
    OFFSETS_TOPIC,
    CoordinatorState,
    ListedGroup,
    LogRange,
    OffsetBound,
    PartitionEpoch,
)
from retentiond.kafka.offsets.lookups import Offsets
from retentiond.kafka.topics import Leaders
from retentiond.model import Commit, Failure, GroupKind, TopicPartition
from tests.support.builders.scripted_brokers import Brokers, BrokersClient

ANSWERS = {
    name.removesuffix("Response"): answer
    for module in (admin, consumer, metadata, wire)
    for name, answer in vars(module).items()
    if name.endswith("Response")
}

BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}

TEXTS = ["orders", "billing", OFFSETS_TOPIC, "consumer", "Stable", "Dead", "K"]

AT = TopicPartition("orders", 0)


class Numbers:
    """Makes answers. Half of their numbers are 0 or 1, so that they are about what was asked."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def answer(self, request: Any, _node: int | None) -> Any:
        name = next(
            each.__name__.removesuffix("Request")
            for each in type(request).__mro__
            if each.__name__.removesuffix("Request") in ANSWERS
        )
        made = self._message(ANSWERS[name])
        if name == "Metadata" and request.topics:
            made.topics[0].name = request.topics[0].name
        return made

    def _message(self, message: Any) -> Any:
        return message(**{name: self._value(name, of) for name, of in message.fields.items()})

    def _value(self, name: str, of: Any) -> Any:
        kind, part = of._type_str, getattr(of, "data_class", None)
        one = self._message(part) if part else self._plain(name, kind.removeprefix("[]"))
        return [one] if kind.startswith("[]") else one

    def _plain(self, name: str, kind: str) -> Any:
        choose = self._random.choice
        if kind in BITS:
            most = 2 ** (BITS[kind] - 1)
            usual = 0 if name == "error_code" else choose([0, 1])
            return choose([usual, usual, usual, -1, -2, most - 1, -most])
        plain: dict[str, Any] = {
            "bool": choose([False, True]),
            "string": choose(TEXTS),
            "bitfield": choose([None, frozenset[int](), frozenset({0, 31})]),
            "bytes": b"",
            "records": None,
            "uuid": None,
            "float64": 0.0,
            "uint16": choose([0, 2**16 - 1]),
        }
        return plain[kind]


def listed(kind: GroupKind) -> list[ListedGroup]:
    return [ListedGroup("billing", kind, "Stable", "consumer")]


def offsets(client: BrokersClient) -> Offsets:
    return Offsets(client, Leaders())


def offsets_of(client: BrokersClient, bound: OffsetBound) -> Any:
    return offsets(client).offsets([AT], bound)


STATE = CoordinatorState("K", frozenset({(0, 0, 0)}), (), True, True, (), True, ())

READERS: dict[str, Callable[[BrokersClient], Any]] = {
    "coordinator_state": listing.coordinator_state,
    "coordinators_since": lambda client: listing.coordinators_since(client, STATE),
    "list_groups": listing.list_groups,
    "commits": lambda client: coordinators.commits(client, ["billing"]),
    "commits of named partitions": lambda client: coordinators.commits(client, ["billing"], [AT]),
    "share_offsets": lambda client: coordinators.share_offsets(client, ["billing"]),
    **{f"members of {kind}": partial(members.members, groups=listed(kind)) for kind in GroupKind},
    "list_topics": topics.list_topics,
    "describe_topics": lambda client: topics.describe_topics(client, Leaders(), ["orders"]),
    "topic_configs": lambda client: topics.topic_configs(client, ["orders"]),
    "topic_rights": lambda client: topics.topic_rights(client, ["orders"]),
    **{bound.value: partial(offsets_of, bound=bound) for bound in OffsetBound},
    "offsets_at": lambda client: offsets(client).offsets_at({AT: 7}, {AT: LogRange(0, 9)}),
    "epoch_ends": lambda client: offsets(client).epoch_ends([PartitionEpoch(AT, 1)]),
    "brokers": brokers.brokers,
    "cluster_time": brokers.cluster_time,
    "broker_configs": lambda client: brokers.broker_configs(client, ["log.dirs"]),
    "log_dirs": log_dirs.log_dirs,
    "replicas": lambda client: log_dirs.read_replicas(client, ["orders"]),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@given(seed=st.integers(0, 2**32))
def test_no_number_ends_a_reading(read: Callable[[BrokersClient], Any], seed: int) -> None:
    client = BrokersClient(Brokers(Numbers(seed).answer, nodes=[0, 1]))
    with suppress(KafkaUnavailable, OtherCluster, KafkaError):  # a `Client` explains the last
        read(client)


@given(st.integers(0, 2**32))
def test_a_commit_that_is_read_has_an_offset_and_no_negative_epoch(seed: int) -> None:
    for read in (READERS["commits"], READERS["share_offsets"]):
        client = BrokersClient(Brokers(Numbers(seed).answer, nodes=[0, 1]))
        with suppress(KafkaUnavailable, OtherCluster, KafkaError):
            for found in read(client).values():
                commits: list[Commit] = [] if isinstance(found, Failure) else list(found)
                assert all(each.offset is None or each.offset >= 0 for each in commits)
                assert all(each.leader_epoch is None or each.leader_epoch >= 0 for each in commits)
