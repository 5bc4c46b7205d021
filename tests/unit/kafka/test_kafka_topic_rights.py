"""What this principal may do, by Kafka's names; what is not told is never taken for granted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from retentiond.kafka.topics import NOT_TOLD, Operations, topic_rights
from retentiond.model import Failure
from tests.support.builders.scripted_brokers import Brokers, BrokersClient, make

DELETE, DESCRIBE, NOT_KNOWN = 6, 8, 30


def told(*topics: dict[str, Any]) -> tuple[Mapping[str, Operations | Failure], Brokers]:
    manager = Brokers(lambda *_: make(MetadataResponse, topics=list(topics)))
    return topic_rights(BrokersClient(manager), [topic["name"] for topic in topics]), manager


def test_operations_are_told_by_name_and_unknown_ones_left_out() -> None:
    found, manager = told(
        {"name": "orders", "authorized_operations": {DELETE, DESCRIBE, NOT_KNOWN}}
    )
    assert found == {"orders": frozenset({"DELETE", "DESCRIBE"})}
    (request,) = manager.sent(MetadataRequest)
    assert request.include_topic_authorized_operations
    assert not request.allow_auto_topic_creation


def test_what_is_not_told_is_not_taken_for_granted() -> None:
    found, _ = told({"name": "orders", "authorized_operations": None})
    assert found == {"orders": NOT_TOLD}


def test_a_topic_that_may_not_be_seen_and_one_that_is_not_there_differ() -> None:
    found, _ = told({"name": "hidden", "error_code": 29}, {"name": "absent", "error_code": 3})
    codes = [each.code for each in found.values() if isinstance(each, Failure)]
    assert codes == ["TOPIC_AUTHORIZATION_FAILED", "UNKNOWN_TOPIC_OR_PARTITION"]


def test_without_topics_nothing_is_asked() -> None:
    found, manager = told()
    assert (found, manager.requests) == ({}, [])
