"""What this principal may do, by Kafka's names; what is not told is never taken for granted."""

from __future__ import annotations

from typing import Any

from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from retentiond.kafka.connection import Link
from retentiond.kafka.rights import NOT_TOLD, Rights, rights
from retentiond.model import Failure
from tests.unit.kafka.brokers import Brokers, BrokersConnection

Topic = MetadataResponse.MetadataResponseTopic

DELETE, DESCRIBE, NOT_KNOWN = 6, 8, 30


class Admin:
    def __init__(self, manager: Brokers, operations: list[str] | None) -> None:
        self._manager = manager
        self._operations = operations

    async def _describe_cluster(self) -> dict[str, Any]:
        return {"authorized_operations": self._operations}


class Allowing(BrokersConnection):
    def __init__(self, manager: Brokers, operations: list[str] | None) -> None:
        super().__init__(manager)
        self._operations = operations

    def run(self, request: Any) -> Any:
        admin: Any = Admin(self.brokers, self._operations)
        return self.brokers.run(request(Link(admin)))


def told(*topics: Any, cluster: list[str] | None = None) -> tuple[Rights, Brokers]:
    manager = Brokers(lambda *_: MetadataResponse(topics=list(topics)))
    return rights(Allowing(manager, cluster), [topic.name for topic in topics]), manager


def test_operations_are_told_by_name_and_unknown_ones_left_out() -> None:
    found, manager = told(
        Topic(name="orders", authorized_operations={DELETE, DESCRIBE, NOT_KNOWN}),
        cluster=["DESCRIBE"],
    )
    assert found == Rights(frozenset({"DESCRIBE"}), {"orders": frozenset({"DELETE", "DESCRIBE"})})
    (request,) = manager.sent(MetadataRequest)
    assert request.include_topic_authorized_operations
    assert not request.allow_auto_topic_creation


def test_what_is_not_told_is_not_taken_for_granted() -> None:
    found, _ = told(Topic(name="orders", authorized_operations=None))
    assert found == Rights(NOT_TOLD, {"orders": NOT_TOLD})


def test_a_topic_that_may_not_be_seen_and_one_that_is_not_there_differ() -> None:
    found, _ = told(Topic(name="hidden", error_code=29), Topic(name="absent", error_code=3))
    codes = [each.code for each in found.topics.values() if isinstance(each, Failure)]
    assert codes == ["TOPIC_AUTHORIZATION_FAILED", "UNKNOWN_TOPIC_OR_PARTITION"]


def test_without_topics_none_is_asked_for() -> None:
    found, manager = told(cluster=[])
    assert found == Rights(frozenset(), {})
    assert manager.requests == []
