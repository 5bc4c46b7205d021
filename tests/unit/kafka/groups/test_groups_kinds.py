"""Share and streams groups: what their coordinators say, and what is made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import kafka.errors as kp_errors
import pytest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest, MetadataResponse

from retentiond.kafka.groups import members as module
from retentiond.kafka.groups.coordinators import NO_COORDINATOR, share_offsets
from retentiond.kafka.interface import NOT_ANSWERED, GroupMembers, ListedGroup
from retentiond.kafka.wire import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from retentiond.model import Commit, Failure, GroupKind
from tests.support.builders.scripted_brokers import Brokers, BrokersClient, found, names

GROUP_AUTHORIZATION_FAILED = 30
UNKNOWN_TOPIC_OR_PARTITION = 3
COORDINATOR_NOT_AVAILABLE = 15

Share: Any = ShareGroupDescribeResponse.DescribedGroup
Streams: Any = StreamsGroupDescribeResponse.DescribedGroup
Offsets: Any = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup
Answer = Callable[[Any], Any]


def connected(answer: Answer, node_of: Callable[[str], int] = lambda _: 1) -> BrokersClient:
    """``answer`` responds to all but the look-ups of coordinators."""

    def respond(request: Any, node: int | None) -> Any:
        if isinstance(request, FindCoordinatorRequest):
            return found(request, node_of)
        if isinstance(request, MetadataRequest):
            return MetadataResponse(brokers=[], topics=[])
        return answer(request)

    return BrokersClient(Brokers(respond))


# Share-partition start offsets (KIP-932)


def partition(index: int, start_offset: int, error_code: int = 0) -> Any:
    topic = Offsets.DescribeShareGroupOffsetsResponseTopic
    return topic.DescribeShareGroupOffsetsResponsePartition(
        partition_index=index, start_offset=start_offset, error_code=error_code
    )


def with_offsets(group: str, *partitions: Any, topic: str = "orders", error_code: int = 0) -> Any:
    topics = [
        Offsets.DescribeShareGroupOffsetsResponseTopic(
            topic_name=topic, partitions=list(partitions)
        )
    ]
    return Offsets(group_id=group, topics=topics, error_code=error_code)


def offsets_of(*groups: Any, asked: Sequence[str]) -> Mapping[str, Any]:
    answer = DescribeShareGroupOffsetsResponse(groups=list(groups))
    return share_offsets(connected(lambda _: answer), asked)


def test_the_start_offset_of_each_share_partition_is_a_commit() -> None:
    answers = offsets_of(with_offsets("s", partition(0, 7), partition(1, 0)), asked=["s"])
    assert answers == {"s": [Commit("orders", 0, 7, 0), Commit("orders", 1, 0, 0)]}


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


def test_a_group_that_is_left_out_of_the_answer_is_a_failure() -> None:
    answers = offsets_of(with_offsets("t", partition(0, 4)), asked=["s", "t"])
    assert answers["s"] == NOT_ANSWERED
    assert answers["t"] == [Commit("orders", 0, 4, 0)]


def test_without_share_groups_nobody_is_asked() -> None:
    def nobody(_: Any) -> Any:
        raise AssertionError

    assert share_offsets(connected(nobody), []) == {}


def test_all_topics_of_each_group_are_asked_for() -> None:
    requests: list[Any] = []

    def answer(request: Any) -> Any:
        requests.append(request)
        return DescribeShareGroupOffsetsResponse(
            groups=[with_offsets(each.group_id, partition(0, 1)) for each in request.groups]
        )

    asked = names("s", range(110))
    assert set(share_offsets(connected(answer), asked)) == set(asked)
    assert all(isinstance(each, DescribeShareGroupOffsetsRequest) for each in requests)
    assert [len(each.groups) for each in requests] == [10, 100]  # the last sent answers first
    assert all(group.topics is None for each in requests for group in each.groups)


# Coordinators


def test_a_batch_that_fails_is_asked_again_group_by_group() -> None:
    def answer(request: Any) -> Any:
        asked = [each.group_id for each in request.groups]
        if "poison" in asked:
            return kp_errors.KafkaConnectionError("cut")
        return DescribeShareGroupOffsetsResponse(
            groups=[with_offsets(each, partition(0, 1)) for each in asked]
        )

    answers = share_offsets(connected(answer), ["s", "poison", "t"])
    assert isinstance(answers["poison"], Failure)
    assert answers["s"] == answers["t"] == [Commit("orders", 0, 1, 0)]


def test_a_broker_that_does_not_know_the_request_makes_each_group_a_failure() -> None:
    answers = share_offsets(
        connected(lambda _: kp_errors.IncompatibleBrokerVersion("no such api")), ["s", "t"]
    )
    assert set(answers) == {"s", "t"}
    assert all(isinstance(each, Failure) for each in answers.values())


def test_a_group_without_a_coordinator_is_a_failure_and_touches_no_other() -> None:
    answer = DescribeShareGroupOffsetsResponse(groups=[with_offsets("t", partition(0, 4))])
    connection = connected(
        lambda _: answer, lambda group: -COORDINATOR_NOT_AVAILABLE if group == "s" else 1
    )
    answers = share_offsets(connection, ["s", "t"])
    assert isinstance(answers["s"], Failure)
    assert answers["t"] == [Commit("orders", 0, 4, 0)]
    assert NO_COORDINATOR.code == "COORDINATOR_NOT_AVAILABLE"


# Members


def members(kind: GroupKind, response: Any, *asked: str) -> Mapping[str, GroupMembers | Failure]:
    expected = {
        GroupKind.SHARE: ShareGroupDescribeRequest,
        GroupKind.STREAMS: StreamsGroupDescribeRequest,
    }

    def answer(request: Any) -> Any:
        assert isinstance(request, expected[kind])
        return response

    listed = [ListedGroup(group, kind, "Stable", kind.value) for group in asked]
    return module.members(connected(answer), listed)


def sharing(group: str, *members: Any, error_code: int = 0) -> Any:
    return Share(group_id=group, members=list(members), error_code=error_code)


def sharer(subscribed: Sequence[str] = (), assigned: Sequence[str] = ()) -> Any:
    assignment = Share.Member.Assignment(
        topic_partitions=[
            Share.Member.Assignment.TopicPartitions(topic_name=topic, partitions=[0])
            for topic in assigned
        ]
    )
    return Share.Member(
        member_id="m", subscribed_topic_names=list(subscribed), assignment=assignment
    )


def test_what_members_of_a_share_group_subscribe_to_and_are_assigned_counts() -> None:
    response = ShareGroupDescribeResponse(
        groups=[sharing("s", sharer(["orders"]), sharer(["clicks"], assigned=["views"]))]
    )
    assert members(GroupKind.SHARE, response, "s") == {
        "s": GroupMembers(frozenset({"orders", "clicks", "views"}))
    }


def streaming(group: str, *parts: Any, error_code: int = 0) -> Any:
    topology = Streams.Topology(epoch=1, subtopologies=list(parts))
    return Streams(
        group_id=group,
        group_state="Empty",
        topology=topology,
        members=[],
        error_code=error_code,
    )


def part(
    sources: Sequence[str] = (), repartitions: Sequence[str] = (), changelogs: Sequence[str] = ()
) -> Any:
    info = Streams.Topology.Subtopology.TopicInfo
    return Streams.Topology.Subtopology(
        subtopology_id="0",
        source_topics=list(sources),
        repartition_sink_topics=["sunk"],
        repartition_source_topics=[info(name=name) for name in repartitions],
        state_changelog_topics=[info(name=name) for name in changelogs],
    )


def test_a_streams_group_reads_its_sources_its_repartitions_and_its_changelogs() -> None:
    response = StreamsGroupDescribeResponse(
        groups=[
            streaming(
                "w",
                part(["orders"], changelogs=["w-store-changelog"]),
                part(["clicks"], repartitions=["w-by-key-repartition"]),
            )
        ]
    )
    assert members(GroupKind.STREAMS, response, "w") == {
        "w": GroupMembers(
            frozenset({"orders", "clicks", "w-store-changelog", "w-by-key-repartition"}),
            changelogs=frozenset({"w-store-changelog"}),
        )
    }


def test_a_source_that_a_streams_group_restores_from_is_a_changelog_too() -> None:
    response = StreamsGroupDescribeResponse(
        groups=[streaming("w", part(["orders"], changelogs=["orders"]))]
    )
    assert members(GroupKind.STREAMS, response, "w") == {
        "w": GroupMembers(frozenset({"orders"}), changelogs=frozenset({"orders"}))
    }


@pytest.mark.parametrize("topology", [None, Streams.Topology(epoch=1, subtopologies=None)])
def test_a_streams_group_whose_topology_is_not_known_yet_is_a_failure(topology: Any) -> None:
    response = StreamsGroupDescribeResponse(
        groups=[Streams(group_id="w", group_state="Empty", topology=topology, members=[])]
    )
    answer = members(GroupKind.STREAMS, response, "w")["w"]
    assert isinstance(answer, Failure)
    assert answer.code == "TOPOLOGY_HIDDEN"


@pytest.mark.parametrize("kind", [GroupKind.SHARE, GroupKind.STREAMS])
def test_a_group_that_may_not_be_described_is_a_failure_and_touches_no_other(
    kind: GroupKind,
) -> None:
    refused = GROUP_AUTHORIZATION_FAILED
    response = (
        ShareGroupDescribeResponse(
            groups=[sharing("a", error_code=refused), sharing("b", sharer(["orders"]))]
        )
        if kind is GroupKind.SHARE
        else StreamsGroupDescribeResponse(
            groups=[streaming("a", error_code=refused), streaming("b", part(["orders"]))]
        )
    )
    answers = members(kind, response, "a", "b", "left-out")
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
