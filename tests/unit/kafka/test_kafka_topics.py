"""What topics are: one broker's answer, and what becomes of a topic that it says no about."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError
from kafka.protocol.admin import DescribeConfigsRequest, DescribeConfigsResponse
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from retentiond.kafka import topics
from retentiond.kafka.interface import NOT_ANSWERED, TopicConfig
from retentiond.kafka.topics import KEYS, Leader, Leaders
from retentiond.model import Failure, TopicPartition
from tests.support.builders.scripted_brokers import Brokers, BrokersClient, make

TOPIC_ID = uuid.UUID(bytes=bytes([0xFB, 0xFF] * 8))

TEXTS = {
    "cleanup.policy": "compact, delete",
    "retention.ms": "-1",
    "retention.bytes": "7",
    "segment.bytes": "11",
    "segment.ms": "13",
    "remote.storage.enable": "false",
}


def metadata(request: MetadataRequest, error: int = 0, *, left_out: str = "") -> Any:
    partitions = [
        {"partition_index": number, "leader_id": number, "leader_epoch": 5} for number in (2, 0, 1)
    ]
    topics = [
        {
            "name": asked.name,
            "topic_id": TOPIC_ID,
            "error_code": 0 if asked.name == "orders" else error,
            "partitions": partitions,
        }
        for asked in request.topics
        if asked.name != left_out
    ]
    return make(MetadataResponse, topics=topics)


def configs(request: DescribeConfigsRequest, error: int = 0, *, left_out: str = "") -> Any:
    """Without the setting that is left out."""
    results = [
        {
            "resource_name": asked.resource_name,
            "error_code": 0 if asked.resource_name == "orders" else error,
            "configs": [
                {"name": key, "value": TEXTS[key]}
                for key in asked.configuration_keys or ()
                if key != left_out
            ],
        }
        for asked in request.resources
    ]
    return make(DescribeConfigsResponse, results=results)


def connection(answer: Callable[[Any], Any]) -> BrokersClient:
    return BrokersClient(Brokers(lambda request, node: answer(request)))


def test_a_description_has_the_id_as_kafkas_tools_print_it_and_the_partitions_in_order() -> None:
    leaders = Leaders()

    found = topics.describe_topics(connection(metadata), leaders, ["orders"])

    described = found["orders"]
    assert not isinstance(described, Failure)
    assert described.topic_id == "-__7__v_-__7__v_-__7_w"
    assert described.partitions == (0, 1, 2)
    assert not described.is_internal


def test_a_description_tells_who_leads_so_that_a_look_up_need_not_ask() -> None:
    leaders = Leaders()
    asked = connection(metadata)
    topics.describe_topics(asked, leaders, ["orders"])
    at = TopicPartition("orders", 2)

    assert asked.run(lambda link: leaders.of(link, [at])) == {at: Leader(2, 5)}
    assert len(asked.brokers.requests) == 1


def test_kafkas_own_topics_are_internal_whatever_the_metadata_say() -> None:
    name = "__share_group_state"

    found = topics.describe_topics(connection(metadata), Leaders(), [name])[name]

    assert not isinstance(found, Failure)
    assert found.is_internal


def test_a_config_is_asked_for_by_its_keys_alone() -> None:
    asked = connection(configs)

    found = topics.topic_configs(asked, ["orders"])

    assert found == {
        "orders": TopicConfig(
            cleanup_policy=frozenset({"compact", "delete"}),
            retention_ms=None,
            retention_bytes=7,
            segment_bytes=11,
            segment_ms=13,
        )
    }
    ((_, request),) = asked.brokers.requests
    ((resource),) = request.resources
    assert (resource.resource_type, resource.configuration_keys) == (2, list(KEYS))


@pytest.mark.parametrize(
    ("error", "code", "grant"),
    [(3, "UNKNOWN_TOPIC_OR_PARTITION", None), (29, "TOPIC_AUTHORIZATION_FAILED", True)],
)
def test_a_topic_that_is_refused_fails_in_its_place(
    error: int, code: str, grant: bool | None
) -> None:
    names = ["orders", "secret"]
    described = topics.describe_topics(
        connection(lambda request: metadata(request, error)), Leaders(), names
    )
    configured = topics.topic_configs(connection(lambda request: configs(request, error)), names)
    for operation, answers in (("Describe", described), ("DescribeConfigs", configured)):
        failure = answers["secret"]
        assert isinstance(failure, Failure)
        assert failure.code == code
        assert not grant or f"--topic secret --operation {operation})" in failure.message
        assert not isinstance(answers["orders"], Failure)


def test_a_topic_without_an_id_is_described_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "TOPIC_ID", uuid.UUID(int=0))

    described = topics.describe_topics(connection(metadata), Leaders(), ["orders"])["orders"]

    assert not isinstance(described, Failure)
    assert (described.topic_id, described.partitions) == (None, (0, 1, 2))


@pytest.mark.parametrize("left_out", ["cleanup.policy", "retention.ms", "retention.bytes"])
def test_a_config_without_what_decides_is_a_failure(left_out: str) -> None:
    asked = connection(lambda request: configs(request, left_out=left_out))

    found = topics.topic_configs(asked, ["orders"])["orders"]

    assert isinstance(found, Failure)
    assert left_out in found.message


@pytest.mark.parametrize("left_out", ["segment.bytes", "segment.ms"])
def test_a_config_without_what_only_informs_is_one(left_out: str) -> None:
    asked = connection(lambda request: configs(request, left_out=left_out))

    found = topics.topic_configs(asked, ["orders"])["orders"]

    assert not isinstance(found, Failure)
    assert None in (found.segment_bytes, found.segment_ms)


def test_a_topic_that_the_answer_leaves_out_is_a_failure() -> None:
    asked = connection(lambda request: metadata(request, left_out="audit"))

    found = topics.describe_topics(asked, Leaders(), ["orders", "audit"])

    assert found["audit"] is NOT_ANSWERED


def test_where_one_broker_does_not_answer_the_others_are_asked() -> None:
    def respond(request: Any, node: int | None) -> Any:
        return metadata(request) if node == 2 else KafkaConnectionError("gone")

    brokers = Brokers(respond, nodes=[1, 2, 3])

    found = topics.describe_topics(BrokersClient(brokers), Leaders(), ["orders"])

    assert not isinstance(found["orders"], Failure)
    assert [node for node, _ in brokers.requests] == [None, 1, 2, 3]


def test_where_none_answers_the_first_error_is_raised() -> None:
    brokers = Brokers(lambda request, node: KafkaConnectionError(f"{node} is gone"), nodes=[1, 2])

    with pytest.raises(KafkaConnectionError, match="None is gone"):
        topics.describe_topics(BrokersClient(brokers), Leaders(), ["orders"])
