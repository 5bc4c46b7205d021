"""The listing of groups and the reading of their members, where brokers fail in part."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import kafka.errors as kp_errors
import pytest
from kafka.protocol.admin import DescribeGroupsResponse, ListGroupsRequest, ListGroupsResponse
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest, MetadataResponse

from retentiond.errors import KafkaUnavailable
from retentiond.kafka.groups import listing as groups
from retentiond.kafka.groups import members as module
from retentiond.kafka.interface import GroupMembers, ListedGroup
from retentiond.model import Failure, GroupKind
from tests.support.builders.scripted_brokers import Brokers, BrokersClient, found, make

COORDINATOR_LOAD_IN_PROGRESS = 14

Message = dict[str, Any]


def listed(*groups: str, kind: str = "Classic") -> Any:
    of_kind = {"protocol_type": "consumer", "group_state": "Stable", "group_type": kind}
    return make(ListGroupsResponse, groups=[{"group_id": each, **of_kind} for each in groups])


def listing(by_node: Mapping[int, Any]) -> dict[str, ListedGroup]:
    def answer(request: Any, node: int | None) -> Any:
        if isinstance(request, MetadataRequest):
            brokers = [{"node_id": each, "host": "h", "port": 1} for each in by_node]
            return make(MetadataResponse, brokers=brokers, topics=[])
        assert isinstance(request, ListGroupsRequest)
        assert node is not None
        return by_node[node]

    answers = groups.list_groups(BrokersClient(Brokers(answer)))
    return {each.group_id: each for each in answers}


def test_of_a_group_that_two_brokers_list_only_what_they_agree_on_is_known() -> None:
    one, other = listed("billing", "search"), listed("billing", kind="Consumer")
    other.groups[0].group_state, other.groups[0].protocol_type = "Empty", "connect"
    found = listing({1: one, 2: other})
    assert found["billing"] == ListedGroup("billing", GroupKind.UNKNOWN, "Unknown", "")
    assert found["search"].kind is GroupKind.CLASSIC


def test_every_broker_of_todays_metadata_is_asked_for_its_groups() -> None:
    assert listing({1: listed("billing"), 2: listed(), 7: listed("search")}).keys() == {
        "billing",
        "search",
    }


@pytest.mark.parametrize(
    "answer",
    [
        ListGroupsResponse(error_code=COORDINATOR_LOAD_IN_PROGRESS),
        make(
            ListGroupsResponse,
            error_code=COORDINATOR_LOAD_IN_PROGRESS,
            groups=[{"group_id": "search"}],
        ),
        kp_errors.KafkaConnectionError("gone"),
        kp_errors.NodeNotReadyError("2"),
    ],
)
def test_a_broker_that_does_not_list_all_of_its_groups_fails_the_listing(answer: Any) -> None:
    with pytest.raises(KafkaUnavailable, match=r"^broker 2 did not list its groups: "):
        listing({1: listed("billing"), 2: answer})


def test_a_group_of_a_kind_that_is_yet_to_be_invented_is_listed_as_unknown() -> None:
    assert listing({1: listed("billing", kind="Quantum")})["billing"].kind is GroupKind.UNKNOWN


def test_a_group_of_a_broker_that_tells_no_kind_is_a_classic_one() -> None:
    assert listing({1: listed("billing", kind="")})["billing"].kind is GroupKind.CLASSIC


def member(*topics: str, metadata: bytes | None = None, assignment: bytes = b"") -> Message:
    if metadata is None:
        subscription = ConsumerProtocolSubscription(topics=list(topics), user_data=b"")
        metadata = subscription.encode(version=0)
    return {"member_id": "m", "member_metadata": metadata, "member_assignment": assignment}


def members(*described: Message) -> Mapping[str, GroupMembers | Failure]:
    def answer(request: Any, node: int | None) -> Any:
        if isinstance(request, FindCoordinatorRequest):
            return found(request, lambda _: 1)
        return make(DescribeGroupsResponse, groups=list(described))

    groups = [
        ListedGroup(each["group_id"], GroupKind.CLASSIC, "Stable", "consumer") for each in described
    ]
    return module.members(BrokersClient(Brokers(answer)), groups)


def described(group: str, *members: Message, **more: Any) -> Message:
    usual = {"group_state": "Stable", "protocol_type": "consumer", "error_code": 0}
    return {"group_id": group, "members": list(members), **usual, **more}


def test_the_topics_of_all_members_are_read() -> None:
    assert members(described("billing", member("orders"), member("clicks", "orders"))) == {
        "billing": GroupMembers(frozenset({"orders", "clicks"}))
    }


@pytest.mark.parametrize("metadata", [b"", b"\xff", b"\x00\x00\x00\x00\x00\x09\x00"])
def test_one_member_whose_subscription_cannot_be_read_makes_the_group_a_failure(
    metadata: bytes,
) -> None:
    answers = members(
        described("billing", member("orders"), member(metadata=metadata)),
        described("search", member("clicks")),
    )
    assert isinstance(answers["billing"], Failure)
    assert answers["search"] == GroupMembers(frozenset({"clicks"}))


def subscription(version: int, *topics: str, behind: bytes = b"") -> bytes:
    names = b"".join(struct.pack(">h", len(each)) + each.encode() for each in topics)
    return struct.pack(">hi", version, len(topics)) + names + behind


@pytest.mark.parametrize("version", [0, 1, 2, 3, 9])
@pytest.mark.parametrize("behind", [b"", b"\xff" * 4, b"\x00" * 4, b"\x00" * 8, b"\x00" * 9])
def test_a_subscription_that_ends_before_its_version_does_is_read_as_far_as_it_goes(
    version: int, behind: bytes
) -> None:
    """kafka-go and sarama-cluster say version 1, and write what version 0 has."""
    short = subscription(version, "orders", "clicks", behind=behind)
    assert members(described("billing", member(metadata=short))) == {
        "billing": GroupMembers(frozenset({"orders", "clicks"}))
    }


def test_an_assignment_that_ends_behind_its_partitions_is_read() -> None:
    """Also of a topic that the member is not subscribed to."""
    assigned = struct.pack(">hih", 1, 1, 6) + b"clicks" + struct.pack(">iii", 2, 0, 1)
    reader = member("orders", assignment=assigned)
    assert members(described("billing", reader)) == {
        "billing": GroupMembers(frozenset({"orders", "clicks"}))
    }
    for size in range(1, len(assigned)):
        cut = member("orders", assignment=assigned[:size])
        assert isinstance(members(described("billing", cut))["billing"], Failure), size


@pytest.mark.parametrize(
    "metadata",
    [
        *(subscription(1, "orders", "clicks")[:size] for size in range(1, 22)),
        struct.pack(">hi", 1, -1),
        struct.pack(">hi", -1, 0),
        struct.pack(">hih", 1, 1, -1) + b"orders",
        struct.pack(">hih", 1, 1, 1) + b"\xff",
    ],
)
def test_a_subscription_whose_topics_are_not_whole_is_unreadable(metadata: bytes) -> None:
    """A topic that is not there to read may be any."""
    answer = members(described("billing", member(metadata=metadata)))["billing"]
    assert isinstance(answer, Failure)
    assert answer.code == "MEMBERS_UNREADABLE"


def test_a_group_with_a_protocol_of_its_own_reads_by_its_commits_alone() -> None:
    connect = described("connect", member(metadata=b"\x01\x02"), protocol_type="connect")
    assert members(connect) == {"connect": GroupMembers(frozenset())}


@pytest.mark.parametrize("state", ["Dead", "Stable", "PreparingRebalance", "Assigning", ""])
def test_a_listed_group_that_is_described_without_members_is_a_failure(state: str) -> None:
    answers = members(
        described("billing", group_state=state), described("search", member("clicks"))
    )
    assert answers["billing"] == module.NOT_OF_ITS_KIND
    assert answers["search"] == GroupMembers(frozenset({"clicks"}))


def test_a_group_that_has_lost_its_members_since_it_was_listed_reads_nothing() -> None:
    assert members(described("billing", group_state="Empty")) == {
        "billing": GroupMembers(frozenset())
    }
