"""Who listed a group coordinates it: asked first, for a moment, and never taken for certain."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest
from kafka.protocol.admin import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest, MetadataResponse

from retentiond.kafka.groups.coordinators import commits
from retentiond.kafka.groups.listing import list_groups
from retentiond.kafka.groups.members import members
from retentiond.kafka.interface import GroupMembers, ListedGroup
from retentiond.kafka.network_client import METADATA_FRESH_S
from retentiond.model import Commit, GroupKind
from tests.support.builders.scripted_brokers import Brokers, BrokersClient, found, make

NOT_COORDINATOR = 16

SEVEN = [Commit("orders", 0, 7)]


class Cluster:
    """Two brokers; ``coordinators``: who answers for each group, and lists it."""

    def __init__(self, coordinators: Mapping[str, int]) -> None:
        self.coordinators = dict(coordinators)
        self.still_lists: dict[str, int] = {}
        self.brokers = Brokers(self._answer)
        self.connection = BrokersClient(self.brokers)

    def asked(self, kind: type = OffsetFetchRequest) -> list[int | None]:
        """Whom requests of the kind have gone to."""
        return [node for node, request in self.brokers.requests if isinstance(request, kind)]

    def _answer(self, request: Any, node: int | None) -> Any:
        if isinstance(request, MetadataRequest):
            brokers = [{"node_id": each, "host": "h", "port": 1} for each in (1, 2)]
            return make(MetadataResponse, brokers=brokers, topics=[])
        if isinstance(request, ListGroupsRequest):
            by_group = [*self.coordinators.items(), *self.still_lists.items()]
            listed = [
                {
                    "group_id": name,
                    "protocol_type": "consumer",
                    "group_state": self._state(name, at),
                }
                for name, at in by_group
                if at == node
            ]
            return make(ListGroupsResponse, groups=listed)
        if isinstance(request, FindCoordinatorRequest):
            return found(request, lambda key: self.coordinators[key])
        if isinstance(request, DescribeGroupsRequest):
            described = [self._described(name, node) for name in request.groups]
            return make(DescribeGroupsResponse, groups=described)
        groups = [self._commits(each.group_id, node) for each in request.groups]
        answer = make(OffsetFetchResponse, groups=groups)
        answer.API_VERSION = 8
        return answer

    def _state(self, group: str, node: int | None) -> str:
        return "Dead" if self.still_lists.get(group) == node else "Stable"

    def _described(self, group: str, node: int | None) -> Any:
        subscription = ConsumerProtocolSubscription(topics=["orders"], user_data=b"")
        member = {"member_id": "m", "member_metadata": subscription.encode(version=0)}
        state = self._state(group, node)
        members = [] if state == "Dead" else [member]
        of_kind = {"protocol_type": "consumer", "group_state": state}
        return {"group_id": group, "members": members, **of_kind}

    def _commits(self, group: str, node: int | None) -> Any:
        is_stale = self.still_lists.get(group) == node
        if self.coordinators[group] != node and not is_stale:
            return {"group_id": group, "error_code": NOT_COORDINATOR}
        partition = {"partition_index": 0, "committed_offset": 9 if is_stale else 7}
        return {"group_id": group, "topics": [{"name": "orders", "partitions": [partition]}]}


@pytest.fixture
def cluster() -> Cluster:
    return Cluster({"billing": 1, "search": 2})


def test_who_listed_a_group_is_asked_for_its_commits(cluster: Cluster) -> None:
    list_groups(cluster.connection)

    assert commits(cluster.connection, ["billing", "search"]) == {"billing": SEVEN, "search": SEVEN}
    assert {*cluster.asked()} == {1, 2}
    assert len(cluster.asked()) == 2
    assert not cluster.brokers.sent(FindCoordinatorRequest)


def test_a_group_that_was_not_listed_has_its_coordinator_asked_for(cluster: Cluster) -> None:
    list_groups(cluster.connection)
    cluster.coordinators["audit"] = 2

    assert commits(cluster.connection, ["billing", "audit"]) == {"billing": SEVEN, "audit": SEVEN}
    (request,) = cluster.brokers.sent(FindCoordinatorRequest)
    assert request.coordinator_keys == ["audit"]


def test_a_coordinator_that_moved_since_the_listing_is_asked_for_anew(cluster: Cluster) -> None:
    list_groups(cluster.connection)
    cluster.coordinators["billing"] = 2

    assert commits(cluster.connection, ["billing", "search"]) == {"billing": SEVEN, "search": SEVEN}
    (request,) = cluster.brokers.sent(FindCoordinatorRequest)
    assert request.coordinator_keys == ["billing"]


def test_each_listing_takes_the_place_of_the_one_before(cluster: Cluster) -> None:
    list_groups(cluster.connection)
    cluster.coordinators["billing"] = 2
    list_groups(cluster.connection)

    assert commits(cluster.connection, ["billing"]) == {"billing": SEVEN}
    assert cluster.asked() == [2]


@pytest.mark.parametrize("stale", [1, 2])
def test_of_two_brokers_that_list_a_group_the_one_that_leads_is_asked(stale: int) -> None:
    """A broker may go on listing a group, with its old commits or as dead, after another has taken
    over: it counts as live, and its members and commits are the leader's."""
    cluster = Cluster({"billing": 3 - stale})
    cluster.still_lists["billing"] = stale
    (group,) = list_groups(cluster.connection)
    assert group == ListedGroup("billing", GroupKind.CLASSIC, "Unknown", "consumer")

    assert commits(cluster.connection, ["billing"]) == {"billing": SEVEN}
    assert members(cluster.connection, [group]) == {"billing": GroupMembers(frozenset({"orders"}))}
    assert cluster.asked() == cluster.asked(DescribeGroupsRequest) == [3 - stale]


def test_an_old_listing_is_not_relied_on(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    list_groups(cluster.connection)
    later = time.monotonic() + METADATA_FRESH_S + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)

    assert commits(cluster.connection, ["billing"]) == {"billing": SEVEN}
    assert len(cluster.brokers.sent(FindCoordinatorRequest)) == 1
