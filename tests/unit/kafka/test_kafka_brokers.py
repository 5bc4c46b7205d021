"""The brokers one by one: who is there, who answers, who is known only by what it should hold."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError
from kafka.protocol.admin import DescribeClusterRequest, DescribeClusterResponse
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
)

from retentiond.errors import KafkaUnavailable
from retentiond.kafka.brokers import NEWEST_RELEASE, NOT_ALIVE, brokers
from retentiond.kafka.brokers import Brokers as Found
from retentiond.model import Failure, TopicPartition
from tests.support.builders.scripted_brokers import Brokers, BrokersClient, make

LIST_OFFSETS, LIST_GROUPS, UNHEARD_OF = 2, 16, 12345

DESCRIBE_ACLS, DESCRIBE_LOG_DIRS, STREAMS_GROUP_DESCRIBE = 29, 35, 89


def metadata(alive: list[int], partitions: dict[int, tuple[int, list[int]]]) -> Any:
    """One topic whose partitions have (leader, replicas)."""
    of_orders = [
        {"partition_index": number, "leader_id": leader, "replica_nodes": replicas}
        for number, (leader, replicas) in partitions.items()
    ]
    return make(
        MetadataResponse,
        cluster_id="mine",
        brokers=[{"node_id": each, "host": f"host-{each}", "port": 9092} for each in alive],
        topics=[{"name": "orders", "partitions": of_orders}],
    )


def api_versions(*versions: tuple[int, int], **more: Any) -> Any:
    keys = [{"api_key": key, "min_version": 0, "max_version": highest} for key, highest in versions]
    return make(ApiVersionsResponse, api_keys=keys, **more)


def seen(told: Any, answers: dict[int, Any], fenced: tuple[int, ...] = ()) -> Found:
    """``told``: the metadata of every broker, or by the broker."""

    def answer(request: Any, node: int | None) -> Any:
        if isinstance(request, MetadataRequest):
            return told[node] if isinstance(told, dict) else told
        if isinstance(request, DescribeClusterRequest):
            return described(fenced)
        assert isinstance(request, ApiVersionsRequest)
        return answers[node or 0]

    manager = Brokers(answer)
    known = [SimpleNamespace(node_id=node) for node in (told if isinstance(told, dict) else [1])]
    manager.cluster.brokers = lambda: known
    return brokers(BrokersClient(manager))


def described(fenced: tuple[int, ...]) -> Any:
    """Brokers before 4.0 show no fenced ones; those after show all."""
    brokers = [
        {"broker_id": each, "host": f"host-{each}", "port": 9092, "is_fenced": each in fenced}
        for each in (1, *fenced)
    ]
    return make(DescribeClusterResponse, cluster_id="mine", brokers=brokers)


def test_what_a_broker_speaks_tells_its_release_and_unheard_of_requests_are_left_out() -> None:
    answer = api_versions((LIST_OFFSETS, 11), (LIST_GROUPS, 5), (UNHEARD_OF, 1))
    (found,) = seen(metadata([1], {}), {1: answer}).brokers
    assert found.release == (4, 2)
    assert (found.address, found.is_alive) == ("host-1:9092", True)


@pytest.mark.parametrize("version", [1, 2])
def test_what_came_with_the_newest_release_tells_it_from_that_before(version: int) -> None:
    before = (DESCRIBE_LOG_DIRS, 5)
    for answer, release in (
        (api_versions(before, (STREAMS_GROUP_DESCRIBE, 0)), (4, 3)),
        (api_versions(before, (STREAMS_GROUP_DESCRIBE, version)), NEWEST_RELEASE),
    ):
        (found,) = seen(metadata([1], {}), {1: answer}).brokers
        assert found.release == release


@pytest.mark.parametrize(("level", "release"), [(7, (3, 3)), (8, (3, 4))])
def test_a_feature_tells_3_4_from_3_3_which_speaks_the_same(
    level: int, release: tuple[int, int]
) -> None:
    feature = {"name": "metadata.version", "min_version": 1, "max_version": level}
    answer = api_versions((DESCRIBE_ACLS, 3), supported_features=[feature])
    (found,) = seen(metadata([1], {}), {1: answer}).brokers
    assert found.release == release


def test_a_broker_that_does_not_answer_is_alive_with_a_failure() -> None:
    answers = {1: api_versions((LIST_OFFSETS, 11)), 2: KafkaConnectionError("refused")}
    _, silent = seen(metadata([1, 2], {}), answers).brokers
    assert (silent.broker_id, silent.is_alive) == (2, True)
    assert isinstance(silent.release, Failure)


def test_an_error_code_is_a_failure() -> None:
    (found,) = seen(metadata([1], {}), {1: api_versions(error_code=35)}).brokers
    assert isinstance(found.release, Failure)
    assert found.release.code == "UNSUPPORTED_VERSION"


def test_fenced_brokers_and_those_that_only_assignments_name_are_not_alive() -> None:
    told = metadata([1], {0: (1, [1, 3])})
    one, two, three = seen(told, {1: api_versions((LIST_OFFSETS, 11))}, (2,)).brokers
    assert (one.is_alive, two.is_alive, three.is_alive) == (True, False, False)
    assert (two.address, three.address) == ("host-2:9092", None)
    assert two.release == three.release == NOT_ALIVE


def test_partitions_without_a_leader_are_named() -> None:
    told = metadata([1], {0: (1, [1]), 1: (-1, [2])})
    found = seen(told, {1: api_versions((LIST_OFFSETS, 11))})
    assert found.leaderless == (TopicPartition("orders", 1),)


def test_a_broker_too_old_to_be_told_has_no_release() -> None:
    (found,) = seen(metadata([1], {}), {1: api_versions((LIST_GROUPS, 0))}).brokers
    assert not isinstance(found.release, Failure)
    assert found.release < (1, 0)


def test_a_broker_that_is_silent_is_not_the_one_that_is_asked_about_the_others() -> None:
    told = {1: KafkaConnectionError("frozen"), 2: metadata([1, 2], {})}
    answers = {1: KafkaConnectionError("frozen"), 2: api_versions((LIST_OFFSETS, 11))}
    silent, sound = seen(told, answers).brokers
    assert isinstance(silent.release, Failure)
    assert not isinstance(sound.release, Failure)


def test_where_no_broker_answers_the_cluster_can_not_be_asked() -> None:
    with pytest.raises(KafkaUnavailable, match="none of the 1 brokers answers"):
        seen({1: KafkaConnectionError("frozen")}, {})
