"""Which brokers have a partition's replicas, by what each broker answers."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import RequestTimedOutError
from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from retentiond.kafka.log_dirs import TopicReplicas, read_replicas, read_retention_ms
from retentiond.kafka.network_client import NetworkClient
from retentiond.model import Failure
from tests.support.builders.scripted_brokers import Brokers, BrokersClient, make

TOPIC_ID = uuid.UUID(int=0xFB << 120)

AS_PRINTED = "-wAAAAAAAAAAAAAAAAAAAA"


def topics(*topics: dict[str, Any]) -> Any:
    return make(MetadataResponse, topics=[{"topic_id": TOPIC_ID, **each} for each in topics])


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What DescribeCluster says, which goes another way than the requests sent by hand."""
    said: dict[str, Any] = {
        "cluster_id": "K",
        "brokers": [
            {"broker_id": 1, "is_fenced": False},
            {"broker_id": 2, "is_fenced": False},
            {"broker_id": 3, "is_fenced": True},
        ],
        "authorized_operations": ["DESCRIBE"],
    }

    async def describe(_: NetworkClient) -> dict[str, Any]:
        return said

    monkeypatch.setattr(NetworkClient, "describe_cluster", describe)
    return said


def metadata(answers: Mapping[int | None, Any], version: int = 2) -> Brokers:
    def answer(request: Any, node: int | None) -> Any:
        if isinstance(request, MetadataRequest) and node is None:
            return SimpleNamespace(brokers=[], topics=[])
        return answers[node]

    return Brokers(answer, {DescribeClusterRequest: version})


@pytest.mark.parametrize(("version", "tells"), [(1, False), (2, True)])
def test_only_newer_clusters_tell_which_brokers_are_down(
    cluster: dict[str, Any], version: int, tells: bool
) -> None:
    answer = MetadataResponse(topics=[])
    brokers = metadata({1: answer, 2: answer}, version)
    assert read_replicas(BrokersClient(brokers), []).tells_fenced is tells


def test_every_live_broker_is_asked_for_each_topic_by_its_name(cluster: dict[str, Any]) -> None:
    partitions = [
        {"partition_index": 0, "replica_nodes": [1, 2]},
        {"partition_index": 1, "replica_nodes": [2], "error_code": 5},
    ]
    answer = topics({"name": "orders", "partitions": partitions}, {"name": "gone", "error_code": 3})
    brokers = metadata({1: answer, 2: RequestTimedOutError()})
    view = read_replicas(BrokersClient(brokers), ["orders", "gone"])
    assert view.cluster_id == "K"
    assert view.registered == {1, 2, 3}
    assert view.may_describe_cluster
    assert view.answers[1] == {
        "orders": TopicReplicas(
            AS_PRINTED, {0: frozenset({1, 2}), 1: frozenset({2})}, frozenset({1})
        ),
        "gone": None,
    }
    assert isinstance(view.answers[2], Failure)
    asked = [request for node, request in brokers.requests if node is not None]
    assert len(asked) == 2
    for request in asked:
        assert [each.name for each in request.topics] == ["orders", "gone"]
        assert not request.allow_auto_topic_creation


def test_a_topic_that_may_not_be_seen_is_a_failure_and_not_absent(cluster: dict[str, Any]) -> None:
    answer = topics({"name": "orders", "error_code": 29, "partitions": []})
    view = read_replicas(BrokersClient(metadata({1: answer, 2: answer})), ["orders"])
    assert not isinstance(view.answers[1], Failure)
    found = view.answers[1]["orders"]
    assert isinstance(found, Failure)
    assert found.code == "TOPIC_AUTHORIZATION_FAILED"


@pytest.mark.parametrize("operations", [["ALTER"], [], None])
def test_a_principal_that_may_not_describe_the_cluster_is_told(
    cluster: dict[str, Any], operations: list[str] | None
) -> None:
    cluster["authorized_operations"] = operations
    answer = MetadataResponse(topics=[])
    view = read_replicas(BrokersClient(metadata({1: answer, 2: answer})), [])
    assert not view.may_describe_cluster


def retention(error_code: int = 0, **values: str | None) -> int | Failure | None:
    configs = [{"name": f"log.retention.{unit}", "value": value} for unit, value in values.items()]
    results = [{"error_code": error_code, "configs": configs}]
    return _retention(make(DescribeConfigsResponse, results=results))


def _retention(answer: Any) -> int | Failure | None:
    brokers = Brokers(lambda *_: answer)
    found = read_retention_ms(BrokersClient(brokers), 7)
    ((node, request),) = brokers.requests
    assert isinstance(request, DescribeConfigsRequest)
    (resource,) = request.resources
    assert (node, resource.resource_type, resource.resource_name) == (7, 4, "7")
    return found


def test_milliseconds_beat_minutes_beat_hours() -> None:
    assert retention(ms="5", minutes="2", hours="168") == 5
    assert retention(ms=None, minutes="2", hours="168") == 120_000
    assert retention(ms=None, minutes=None, hours="168") == 604_800_000
    assert retention(ms="0", minutes="2", hours="168") == 0


def test_minus_one_is_unlimited() -> None:
    assert retention(ms="-1", minutes=None, hours="168") is None
    assert retention(ms=None, minutes=None, hours="-1") is None


def test_a_broker_that_does_not_tell_is_a_failure() -> None:
    assert isinstance(retention(), Failure)
    assert isinstance(_retention(RequestTimedOutError()), Failure)
    assert isinstance(retention(error_code=31), Failure)
