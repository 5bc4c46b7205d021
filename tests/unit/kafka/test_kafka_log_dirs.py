"""DescribeLogDirs of each broker, and what counts as an orphan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import kafka.errors as kp_errors
from kafka.protocol.admin import DescribeLogDirsRequest, DescribeLogDirsResponse
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from retentiond.kafka.interface import LogDir, LogDirs, Replica
from retentiond.kafka.log_dirs import NOT_ALLOWED, NOT_YET, log_dirs
from retentiond.model import Failure, TopicPartition
from tests.support.builders.scripted_brokers import NO_ANSWER, Brokers, BrokersClient, make

NOT_AUTHORIZED = 29
UNKNOWN_TOPIC = 3

Assignment = Mapping[str, Sequence[Sequence[int]]]
"""By topic: the brokers of each of its partitions."""


def directory(path: str, sizes: Mapping[tuple[str, int], int], **figures: Any) -> Any:
    is_future = figures.pop("is_future_key", False)
    topics = [
        {
            "name": topic,
            "partitions": [
                {"partition_index": number, "partition_size": size, "is_future_key": is_future}
            ],
        }
        for (topic, number), size in sizes.items()
    ]
    return {"log_dir": path, "topics": topics, "total_bytes": -1, "usable_bytes": -1, **figures}


@dataclass
class Cluster:
    """What brokers say. ``later``: of the metadata when one is asked by name, if that differs."""

    assigned: Assignment
    disks: dict[int, Any]
    later: Assignment | None = None
    hidden: frozenset[str] = frozenset()
    gone_meanwhile: bool = False
    looks: list[int | None] = field(default_factory=list)

    def look(self, give_up: Callable[[], bool] = lambda: False) -> LogDirs:
        return log_dirs(BrokersClient(Brokers(self._answer)), give_up)

    def _answer(self, request: Any, node: int | None) -> Any:
        if isinstance(request, MetadataRequest):
            return self._metadata(request)
        assert isinstance(request, DescribeLogDirsRequest)
        assert request.topics is None
        assert node is not None
        self.looks.append(node)
        answer = self.disks[node]
        if isinstance(answer, list):
            again = self.gone_meanwhile and self.looks.count(node) > 1
            return make(DescribeLogDirsResponse, results=[] if again else answer)
        return answer

    def _metadata(self, request: Any) -> Any:
        if request.topics is None:
            topics = [_topic(*each) for each in self.assigned.items() if each[0] not in self.hidden]
        else:
            assert not request.allow_auto_topic_creation
            now = self.assigned if self.later is None else self.later
            topics = [self._named(each.name, now) for each in request.topics]
        brokers = [{"node_id": node} for node in self.disks]
        return make(MetadataResponse, brokers=brokers, topics=topics)

    def _named(self, name: str, now: Assignment) -> Any:
        if name in self.hidden:
            return {"name": name, "error_code": NOT_AUTHORIZED, "partitions": []}
        if name not in now:
            return {"name": name, "error_code": UNKNOWN_TOPIC, "partitions": []}
        return _topic(name, now[name])


def _topic(name: str, partitions: Sequence[Sequence[int]]) -> Any:
    replicas = [
        {"partition_index": number, "replica_nodes": list(brokers)}
        for number, brokers in enumerate(partitions)
    ]
    return {"name": name, "partitions": replicas}


def orphans(found: LogDirs) -> dict[int, list[Replica]]:
    return {
        broker: [each for one in answer for each in one.replicas if each.is_orphan]
        for broker, answer in found.brokers.items()
        if not isinstance(answer, Failure)
    }


def test_each_broker_shows_its_directories_and_the_metadata_who_is_to_hold_what() -> None:
    disks = {
        1: [directory("/a", {("orders", 0): 10}, total_bytes=100, usable_bytes=50)],
        2: [
            directory("/a", {("orders", 0): 12}),
            directory("/b", {("orders", 0): 4}, is_future_key=True),
        ],
    }
    found = Cluster({"orders": [[1, 2]]}, disks).look()
    assert found == LogDirs(
        {
            1: (LogDir("/a", (Replica("orders", 0, 10),), 100, 50),),
            2: (
                LogDir("/a", (Replica("orders", 0, 12),)),
                LogDir("/b", (Replica("orders", 0, 4, True),)),
            ),
        },
        {TopicPartition("orders", 0): (1, 2)},
    )


def test_a_broker_that_fails_is_a_failure_and_the_others_are_read() -> None:
    disks = {1: kp_errors.KafkaConnectionError("gone"), 2: [directory("/a", {})]}
    found = Cluster({}, disks).look()
    assert isinstance(found.brokers[1], Failure)
    assert found.brokers[2] == (LogDir("/a"),)


def test_brokers_that_have_not_answered_in_time_are_failures_and_the_others_are_read() -> None:
    disks = {1: NO_ANSWER, 2: [directory("/a", {("gone", 0): 5})], 3: NO_ANSWER}
    asked = iter([False, False])
    found = Cluster({}, disks).look(give_up=lambda: next(asked, True))
    assert (found.brokers[1], found.brokers[3]) == (NOT_YET, NOT_YET)
    assert orphans(found) == {2: [Replica("gone", 0, 5, is_orphan=True)]}


def test_a_principal_that_is_shown_no_directory_may_not_see_them() -> None:
    assert Cluster({}, {1: []}).look().brokers == {1: NOT_ALLOWED}


def test_one_that_is_told_so_is_not_shown_nothing_either() -> None:
    refused = DescribeLogDirsResponse(results=[], error_code=31)
    found = Cluster({}, {1: refused}).look().brokers[1]
    assert isinstance(found, Failure)
    assert found.code == "CLUSTER_AUTHORIZATION_FAILED"


def test_a_directory_that_is_offline_has_a_failure() -> None:
    (found,) = _directories(Cluster({}, {1: [directory("/a", {}, error_code=56)]}))
    assert (found.path, found.replicas) == ("/a", ())
    assert found.failure is not None


def test_what_no_metadata_place_on_a_broker_is_an_orphan() -> None:
    disks = {1: [directory("/a", {("gone", 0): 5, ("orders", 0): 7})], 2: [directory("/a", {})]}
    found = Cluster({"orders": [[2]]}, disks).look()
    assert orphans(found)[1] == [
        Replica("gone", 0, 5, is_orphan=True),
        Replica("orders", 0, 7, is_orphan=True),
    ]


def test_where_everything_is_in_its_place_each_broker_is_asked_once() -> None:
    cluster = Cluster({"orders": [[1]]}, {1: [directory("/a", {("orders", 0): 5})]})
    assert orphans(cluster.look()) == {1: []}
    assert cluster.looks == [1]


def test_a_topic_that_was_just_created_makes_no_orphan() -> None:
    disks = {1: [directory("/a", {("new", 0): 0})]}
    assert orphans(Cluster({}, disks, later={"new": [[1]]}).look()) == {1: []}


def test_a_reassignment_that_was_just_begun_makes_no_orphan() -> None:
    disks = {1: [directory("/a", {("orders", 0): 9})], 2: [directory("/a", {("orders", 0): 1})]}
    cluster = Cluster({"orders": [[1]]}, disks, later={"orders": [[1, 2]]})
    assert orphans(cluster.look()) == {1: [], 2: []}


def test_a_folder_that_is_gone_a_moment_later_was_no_orphan() -> None:
    cluster = Cluster({}, {1: [directory("/a", {("gone", 0): 5})]}, gone_meanwhile=True)
    assert orphans(cluster.look()) == {1: []}


def test_a_topic_that_may_not_be_described_is_no_orphan() -> None:
    disks = {1: [directory("/a", {("secret", 0): 5})]}
    assert orphans(Cluster({"secret": [[1]]}, disks, hidden=frozenset({"secret"})).look()) == {
        1: []
    }


def test_a_broker_whose_metadata_can_not_be_read_again_has_no_orphans() -> None:
    cluster = Cluster({}, {1: [directory("/a", {("gone", 0): 5})]})
    answer: Callable[[Any, int | None], Any] = cluster._answer

    def refusing(request: Any, node: int | None) -> Any:
        if isinstance(request, MetadataRequest) and request.topics is not None:
            return kp_errors.KafkaConnectionError("gone")
        return answer(request, node)

    found = log_dirs(BrokersClient(Brokers(refusing)))
    assert orphans(found) == {1: []}


def _directories(cluster: Cluster) -> Sequence[LogDir]:
    found = cluster.look().brokers[1]
    assert not isinstance(found, Failure)
    return found
