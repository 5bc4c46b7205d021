"""Share and streams groups: what their coordinators say, and what is made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest, MetadataResponse

from retentiond.kafka.groups import members as module
from retentiond.kafka.groups.coordinators import share_offsets
from retentiond.kafka.interface import NOT_ANSWERED, TOLD_TWICE, GroupMembers, ListedGroup
from retentiond.kafka.wire import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from retentiond.model import Commit, Failure, GroupKind
from tests.support.builders.scripted_brokers import Brokers, BrokersClient, found, make, names

GROUP_AUTHORIZATION_FAILED = 30
UNKNOWN_TOPIC_OR_PARTITION = 3
COORDINATOR_NOT_AVAILABLE = 15

Message = dict[str, Any]
Answer = Callable[[Any], Any]


def connected(answer: Answer) -> BrokersClient:
    """``answer`` responds to all but the look-ups of coordinators."""

    def respond(request: Any, node: int | None) -> Any:
        if isinstance(request, FindCoordinatorRequest):
            return found(request, lambda _: 1)
        if isinstance(request, MetadataRequest):
            return MetadataResponse(brokers=[], topics=[])
        return answer(request)

    return BrokersClient(Brokers(respond))


# Share-partition start offsets (KIP-932)


def partition(index: int, start_offset: int, error_code: int = 0) -> Message:
    return {"partition_index": index, "start_offset": start_offset, "error_code": error_code}


def with_offsets(group: str, *partitions: Message, error_code: int = 0) -> Message:
    topics = [{"topic_name": "orders", "partitions": list(partitions)}]
    return {"group_id": group, "topics": topics, "error_code": error_code}


def offsets_of(*groups: Message, asked: Sequence[str]) -> Mapping[str, Any]:
    answer = make(DescribeShareGroupOffsetsResponse, groups=list(groups))
    return share_offsets(connected(lambda _: answer), asked)


def test_the_start_offset_of_each_share_partition_is_a_commit() -> None:
    answers = offsets_of(with_offsets("s", partition(0, 7), partition(1, 0)), asked=["s"])
    assert answers == {"s": [Commit("orders", 0, 7, 0), Commit("orders", 1, 0, 0)]}


def test_what_an_answer_tells_twice_is_not_known() -> None:
    twice = with_offsets("s", partition(0, 7), partition(1, 0), partition(0, 9))
    assert offsets_of(twice, asked=["s"]) == {"s": TOLD_TWICE}
    groups = [with_offsets("s", partition(0, offset)) for offset in (7, 9)]
    assert offsets_of(*groups, asked=["s"]) == {"s": TOLD_TWICE}


@pytest.mark.parametrize(
    ("start_offset", "error_code"),
    [(-1, 0), (-2, 0), (7, UNKNOWN_TOPIC_OR_PARTITION), (-1, COORDINATOR_NOT_AVAILABLE)],
)
def test_a_share_partition_without_state_or_with_an_error_is_a_commit_that_is_not_known(
    start_offset: int, error_code: int
) -> None:
    answers = offsets_of(
        with_offsets("s", partition(0, start_offset, error_code), partition(1, 4)), asked=["s"]
    )
    assert answers == {"s": [Commit("orders", 0, None, 0), Commit("orders", 1, 4, 0)]}


def test_an_error_of_the_group_is_its_failure_and_touches_no_other() -> None:
    answers = offsets_of(
        with_offsets("s", partition(0, 9), error_code=GROUP_AUTHORIZATION_FAILED),
        with_offsets("t", partition(0, 4)),
        asked=["s", "t"],
    )
    assert isinstance(answers["s"], Failure)
    assert answers["t"] == [Commit("orders", 0, 4, 0)]


def test_all_topics_of_each_group_are_asked_for() -> None:
    requests: list[Any] = []

    def answer(request: Any) -> Any:
        requests.append(request)
        groups = [with_offsets(each.group_id, partition(0, 1)) for each in request.groups]
        return make(DescribeShareGroupOffsetsResponse, groups=groups)

    asked = names("s", range(110))
    assert set(share_offsets(connected(answer), asked)) == set(asked)
    assert all(isinstance(each, DescribeShareGroupOffsetsRequest) for each in requests)
    assert [len(each.groups) for each in requests] == [10, 100]  # the last sent answers first
    assert all(group.topics is None for each in requests for group in each.groups)


# Members


DESCRIBE = {
    GroupKind.SHARE: (ShareGroupDescribeRequest, ShareGroupDescribeResponse),
    GroupKind.STREAMS: (StreamsGroupDescribeRequest, StreamsGroupDescribeResponse),
}


def members(
    kind: GroupKind, groups: list[Message], *asked: str
) -> Mapping[str, GroupMembers | Failure]:
    request_type, response_type = DESCRIBE[kind]

    def answer(request: Any) -> Any:
        assert isinstance(request, request_type)
        return make(response_type, groups=groups)

    listed = [ListedGroup(group, kind, "Stable", kind.value) for group in asked]
    return module.members(connected(answer), listed)


def sharer(subscribed: Sequence[str], assigned: Sequence[str] = ()) -> Message:
    parts = [{"topic_name": topic, "partitions": [0]} for topic in assigned]
    return {
        "member_id": "m",
        "subscribed_topic_names": list(subscribed),
        "assignment": {"topic_partitions": parts},
    }


def test_what_members_of_a_share_group_subscribe_to_and_are_assigned_counts() -> None:
    described = {"group_id": "s", "members": [sharer(["orders"]), sharer(["clicks"], ["views"])]}
    assert members(GroupKind.SHARE, [described], "s") == {
        "s": GroupMembers(frozenset({"orders", "clicks", "views"}))
    }


def streaming(*parts: Message) -> Message:
    return {
        "group_id": "w",
        "group_state": "Empty",
        "topology": {"epoch": 1, "subtopologies": list(parts)},
        "members": [],
    }


def part(sources: list[str], repartition: str = "", changelog: str = "") -> Message:
    return {
        "subtopology_id": "0",
        "source_topics": sources,
        "repartition_sink_topics": ["sunk"],
        "repartition_source_topics": [{"name": repartition}] if repartition else [],
        "state_changelog_topics": [{"name": changelog}] if changelog else [],
    }


def test_a_streams_group_reads_its_sources_its_repartitions_and_its_changelogs() -> None:
    described = streaming(
        part(["orders"], changelog="w-store-changelog"),
        part(["clicks"], repartition="w-by-key-repartition"),
    )
    assert members(GroupKind.STREAMS, [described], "w") == {
        "w": GroupMembers(
            frozenset({"orders", "clicks", "w-store-changelog", "w-by-key-repartition"}),
            changelogs=frozenset({"w-store-changelog"}),
        )
    }


def test_a_source_that_a_streams_group_restores_from_is_a_changelog_too() -> None:
    described = streaming(part(["orders"], changelog="orders"))
    assert members(GroupKind.STREAMS, [described], "w") == {
        "w": GroupMembers(frozenset({"orders"}), changelogs=frozenset({"orders"}))
    }


@pytest.mark.parametrize("topology", [None, {"epoch": 1, "subtopologies": None}])
def test_a_streams_group_whose_topology_is_not_known_yet_is_a_failure(topology: Any) -> None:
    answer = members(GroupKind.STREAMS, [streaming() | {"topology": topology}], "w")["w"]
    assert isinstance(answer, Failure)
    assert answer.code == "TOPOLOGY_HIDDEN"


@pytest.mark.parametrize(
    ("kind", "described"),
    [
        (GroupKind.SHARE, {"members": [sharer(["orders"])]}),
        (GroupKind.STREAMS, streaming(part(["orders"]))),
    ],
)
def test_a_group_that_may_not_be_described_is_a_failure_and_touches_no_other(
    kind: GroupKind, described: Message
) -> None:
    refused = {"group_id": "a", "error_code": GROUP_AUTHORIZATION_FAILED}
    answers = members(kind, [refused, described | {"group_id": "b"}], "a", "b", "left-out")
    assert isinstance(answers["a"], Failure)
    assert answers["b"] == GroupMembers(frozenset({"orders"}))
    assert answers["left-out"] == NOT_ANSWERED


@pytest.mark.parametrize("kind", [GroupKind.EXTERNAL, GroupKind.UNKNOWN])
def test_a_kind_that_can_not_be_described_is_a_failure(kind: GroupKind) -> None:
    answers = module.members(
        connected(lambda _: None), [ListedGroup("x", kind, "Stable", "quantum")]
    )
    assert isinstance(answers["x"], Failure)
    assert answers["x"].code == "UNKNOWN_KIND"
