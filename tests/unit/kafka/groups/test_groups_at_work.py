"""Whether coordinators are at work: each partition of the offsets topic is asked by its leader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from typing import Any

import kafka.errors as kp_errors
import pytest
from kafka.protocol.consumer import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetFetchResponse,
    OffsetSpec,
)

from retentiond.kafka.groups.listing import (
    CoordinatorProbe,
    coordinating_partition,
    names_by_partition,
    partitions_caught_up,
    probe_coordinators,
)
from retentiond.kafka.interface import OFFSETS_TOPIC
from retentiond.kafka.network_client import NetworkClient
from retentiond.kafka.wire.by_hand import LIST_OFFSETS_VERSION
from tests.support.builders.scripted_brokers import Brokers, BrokersClient, make

COORDINATOR_LOAD_IN_PROGRESS = 14
NOT_COORDINATOR = 16
GROUP_AUTHORIZATION_FAILED = 30
TOPIC_AUTHORIZATION_FAILED = 29
NOT_LEADER_OR_FOLLOWER = 6
OFFSET_NOT_AVAILABLE = 78

LEADERS = {0: 1, 1: 2, 2: 1, 3: 2}


def asked(request: Any) -> list[str]:
    """The groups that a request names."""
    return [each.group_id for each in request.groups]


class Leaders:
    """They answer; a partition in ``errors`` with that code, one in ``left_out`` not at all."""

    def __init__(self) -> None:
        self.errors: dict[int, int] = {}
        self.left_out: set[int] = set()
        self.dead: set[int] = set()

    def __call__(self, request: Any, node: int | None) -> Any:
        if node in self.dead:
            return kp_errors.RequestTimedOutError("no answer")
        at_of = {name: coordinating_partition(name, len(LEADERS)) for name in asked(request)}
        return make(
            OffsetFetchResponse,
            groups=[
                {"group_id": name, "error_code": self.errors.get(at, 0), "topics": []}
                for name, at in at_of.items()
                if at not in self.left_out
            ],
        )


def at_work(answer: Leaders, leaders: dict[int, int] = LEADERS) -> tuple[CoordinatorProbe, Brokers]:
    brokers = Brokers(answer)

    async def ask(network: NetworkClient) -> CoordinatorProbe:
        return await probe_coordinators(network, leaders)

    return BrokersClient(brokers).run(ask), brokers


@pytest.fixture
def leaders() -> Leaders:
    return Leaders()


@pytest.mark.parametrize(
    ("group", "java_hash"),
    [
        ("", 0),
        ("hello", 99_162_322),
        ("billing", -109_829_509),
        ("polygenelubricants", -(2**31)),
    ],
)
def test_a_group_belongs_to_the_partition_of_its_java_hash(group: str, java_hash: int) -> None:
    positive = 0 if java_hash == -(2**31) else abs(java_hash)
    assert coordinating_partition(group, 2**31) == positive
    assert coordinating_partition(group, 50) == positive % 50


@pytest.mark.parametrize("partitions", [0, 1, 50])
def test_there_is_a_name_for_each_partition(partitions: int) -> None:
    names = names_by_partition(partitions)
    assert [coordinating_partition(name, partitions) for name in names] == [*range(partitions)]


def test_each_leader_is_asked_once_about_all_its_partitions(leaders: Leaders) -> None:
    found, brokers = at_work(leaders)
    assert found == CoordinatorProbe(not_at_work=(), may_ask=True)
    assert Counter(node for node, _ in brokers.requests) == {1: 1, 2: 1}
    assert {
        (coordinating_partition(name, 4), node)
        for node, request in brokers.requests
        for name in asked(request)
    } == set(LEADERS.items())


@pytest.mark.parametrize("error_code", [COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR])
def test_a_coordinator_that_refuses_is_not_at_work(leaders: Leaders, error_code: int) -> None:
    leaders.errors = {2: error_code, 0: error_code}
    assert at_work(leaders)[0] == CoordinatorProbe(not_at_work=(0, 2), may_ask=True)


def test_a_broker_that_does_not_answer_is_not_at_work_for_any_partition(leaders: Leaders) -> None:
    leaders.dead = {2}
    assert at_work(leaders)[0].not_at_work == (1, 3)


def test_a_partition_that_is_left_out_of_the_answer_is_not_proved(leaders: Leaders) -> None:
    leaders.left_out = {1}
    assert at_work(leaders)[0].not_at_work == (1,)


def test_a_partition_without_a_leader_is_not_proved_and_nobody_is_asked(leaders: Leaders) -> None:
    found, brokers = at_work(leaders, {0: -1})
    assert found.not_at_work == (0,)
    assert brokers.requests == []


def test_a_principal_that_may_not_ask_does_not_know(leaders: Leaders) -> None:
    leaders.errors = dict.fromkeys(LEADERS, GROUP_AUTHORIZATION_FAILED)
    assert not at_work(leaders)[0].may_ask


def test_before_anybody_has_committed_there_is_nobody_to_ask(leaders: Leaders) -> None:
    found, brokers = at_work(leaders, {})
    assert (found, brokers.requests) == (CoordinatorProbe(), [])


LED = {(partition, leader, 5) for partition, leader in LEADERS.items()}
"""In epoch 5."""


def caught_up(answers: dict[int, Any]) -> tuple[Set[int], Brokers]:
    """``answers``: by leader, the error codes of its partitions (None: it is left out), or the
    error that comes instead."""

    def answer(request: Any, node: int | None) -> Any:
        codes = answers.get(node or 0, {})
        if isinstance(codes, Exception):
            return codes
        partitions = [
            {"partition_index": at, "error_code": codes.get(at, 0)}
            for at, leader in LEADERS.items()
            if leader == node and codes.get(at, 0) is not None
        ]
        topics = [{"name": OFFSETS_TOPIC, "partitions": partitions}] if partitions else []
        return make(ListOffsetsResponse, topics=topics)

    brokers = Brokers(answer)

    async def ask(network: NetworkClient) -> Set[int]:
        return await partitions_caught_up(network, LED | {(4, -1, 7)})

    return BrokersClient(brokers).run(ask), brokers


def test_leaders_that_say_where_their_partitions_end_have_caught_up() -> None:
    found, brokers = caught_up({})
    assert found == set(LEADERS)
    assert Counter(node for node, _ in brokers.requests) == {1: 1, 2: 1}


def test_a_leader_is_asked_in_the_epoch_in_which_the_metadata_know_it() -> None:
    _, brokers = caught_up({})
    sent = [
        ListOffsetsRequest.decode(request.encode(), version=LIST_OFFSETS_VERSION)
        for _, request in brokers.requests
    ]
    asked = [part for request in sent for part in request.topics[0].partitions]
    assert {(each.partition_index, each.current_leader_epoch) for each in asked} == {
        (partition, 5) for partition in LEADERS
    }
    assert {each.timestamp for each in asked} == {OffsetSpec.LATEST}


@pytest.mark.parametrize(
    "error_code", [OFFSET_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, TOPIC_AUTHORIZATION_FAILED]
)
def test_a_leader_that_does_not_say_where_its_partition_ends_proves_nothing(
    error_code: int,
) -> None:
    assert caught_up({1: {2: error_code}, 2: {1: error_code}})[0] == {0, 3}


def test_a_leader_that_does_not_answer_or_leaves_partitions_out_proves_nothing() -> None:
    assert caught_up({1: {0: None}, 2: kp_errors.RequestTimedOutError("no answer")})[0] == {2}
    assert caught_up({1: {0: None, 2: None}})[0] == {1, 3}
