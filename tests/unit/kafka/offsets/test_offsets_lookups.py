"""Look-ups of offsets: who is asked, what about, and what becomes of an answer that is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from kafka.errors import (
    KafkaConnectionError,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
)
from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from retentiond.kafka import topics
from retentiond.kafka.broker_errors import Means, means
from retentiond.kafka.interface import (
    AGE_UNKNOWN,
    NOT_ANSWERED,
    TOLD_TWICE,
    LogRange,
    OffsetBound,
)
from retentiond.kafka.offsets import lookups as offsets
from retentiond.kafka.offsets.lookups import Offsets
from retentiond.kafka.topics import Leaders
from retentiond.kafka.wire.by_hand import LIST_OFFSETS_VERSION
from retentiond.model import Failure, TopicPartition
from tests.support.builders.scripted_brokers import Brokers, BrokersClient, make

LED = {
    TopicPartition("orders", 0): (1, 5),
    TopicPartition("orders", 1): (2, 6),
    TopicPartition("audit", 0): (1, 7),
}
"""Leader and leader epoch."""

Led = Mapping[TopicPartition, tuple[int, int]]


def metadata(request: MetadataRequest, led: Led) -> Any:
    partitions = {
        topic.name: [
            {"partition_index": at.partition, "leader_id": node, "leader_epoch": epoch}
            for at, (node, epoch) in led.items()
            if at.topic == topic.name
        ]
        for topic in request.topics
    }
    topics = [
        {"name": name, "error_code": 0 if of else 3, "partitions": of}
        for name, of in partitions.items()
    ]
    return make(MetadataResponse, topics=topics)


def offset_of(at: TopicPartition, node: int) -> int:
    return 100 * node + at.partition


def answered(
    request: ListOffsetsRequest,
    node: int,
    errors: Mapping[TopicPartition, int] | None = None,
    offset: Callable[[TopicPartition, int], int] = offset_of,
) -> Any:
    """In another order than asked, as Kafka may."""

    def told(topic: str, each: Any) -> dict[str, Any]:
        at = TopicPartition(topic, each.partition_index)
        return {
            "partition_index": at.partition,
            "error_code": (errors or {}).get(at, 0),
            "offset": offset(at, node),
            "timestamp": each.timestamp,
        }

    topics = [
        {"name": topic.name, "partitions": [told(topic.name, it) for it in topic.partitions[::-1]]}
        for topic in reversed(request.topics)
    ]
    return make(ListOffsetsResponse, topics=topics)


def decoded(request: Any) -> ListOffsetsRequest:
    """As a broker reads it."""
    return ListOffsetsRequest[LIST_OFFSETS_VERSION].decode(request.encode())


def cluster(
    answer: Callable[[ListOffsetsRequest, int], Any] = answered,
    led: Callable[[], Led] = lambda: LED,
) -> tuple[Offsets, Brokers]:
    def respond(request: Any, node: int | None) -> Any:
        if isinstance(request, MetadataRequest):
            return metadata(request, led())
        assert node is not None
        return answer(decoded(request), node)

    brokers = Brokers(respond)
    return Offsets(BrokersClient(brokers), Leaders()), brokers


def asked(brokers: Brokers) -> list[tuple[int | None, dict[TopicPartition, tuple[int, int]]]]:
    """(node, {partition: (leader epoch, timestamp)}) of each look-up."""
    return [
        (
            node,
            {
                TopicPartition(topic.name, each.partition_index): (
                    each.current_leader_epoch,
                    each.timestamp,
                )
                for topic in request.topics
                for each in topic.partitions
            },
        )
        for node, request in look_ups(brokers)
    ]


def look_ups(brokers: Brokers) -> list[tuple[int | None, ListOffsetsRequest]]:
    return [
        (node, decoded(request))
        for node, request in brokers.requests
        if isinstance(request, ListOffsetsRequest)
    ]


@pytest.mark.parametrize(
    ("bound", "special", "isolation"),
    [
        (OffsetBound.LOG_START, -2, 0),
        (OffsetBound.HIGH_WATERMARK, -1, 0),
        (OffsetBound.LAST_STABLE, -1, 1),
    ],
)
def test_each_leader_is_asked_once_for_what_it_leads(
    bound: OffsetBound, special: int, isolation: int
) -> None:
    client, brokers = cluster()

    found = client.offsets(LED.keys(), bound)

    assert found == {at: offset_of(at, node) for at, (node, _) in LED.items()}
    assert sorted(asked(brokers), key=lambda each: each[0] or 0) == [
        (node, {at: (epoch, special) for at, (leader, epoch) in LED.items() if leader == node})
        for node in (1, 2)
    ]
    assert {each.isolation_level for _, each in look_ups(brokers)} == {isolation}
    assert {each.replica_id for _, each in look_ups(brokers)} == {-1}


def test_who_leads_is_remembered_for_a_while_unless_that_is_to_be_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client, brokers = cluster()

    for _ in range(3):
        client.offsets(LED.keys(), OffsetBound.LOG_START)
    assert len(brokers.sent(MetadataRequest)) == 1

    client._leaders.forget()
    client.offsets(LED.keys(), OffsetBound.LOG_START)
    assert len(brokers.sent(MetadataRequest)) == 2

    monkeypatch.setattr(topics, "METADATA_FRESH_S", 0.0)
    client.offsets(LED.keys(), OffsetBound.LOG_START)
    assert len(brokers.sent(MetadataRequest)) == 3


def test_many_partitions_of_one_leader_are_asked_about_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(offsets, "BOUNDS_PER_REQUEST", 2)
    monkeypatch.setattr(offsets, "TIMES_PER_REQUEST", 1)
    client, brokers = cluster()

    assert len(client.offsets(LED.keys(), OffsetBound.LOG_START)) == len(LED)
    assert sorted(len(partitions) for _, partitions in asked(brokers)) == [1, 2]

    brokers.requests.clear()
    assert len(client.offsets_at(dict.fromkeys(LED, 1_700_000_000_000))) == len(LED)
    assert [len(partitions) for _, partitions in asked(brokers)] == [1, 1, 1]


@pytest.mark.parametrize("code", [code for code in range(200) if means(code) is Means.METADATA])
def test_a_moved_leader_is_looked_up_and_asked(code: int) -> None:
    now = dict(LED)
    moved = TopicPartition("orders", 1)

    def respond(request: ListOffsetsRequest, node: int) -> Any:
        now[moved] = (3, 9)
        return answered(request, node, {} if node == 3 else {moved: code})

    client, brokers = cluster(respond, lambda: now)

    found = client.offsets(LED.keys(), OffsetBound.LOG_START)

    assert found == {at: offset_of(at, node) for at, (node, _) in now.items()}
    assert asked(brokers)[-1] == (3, {moved: (9, -2)})
    assert [each.name for each in brokers.sent(MetadataRequest)[-1].topics] == ["orders"]


def test_an_error_that_no_leader_would_mend_is_taken_as_it_is() -> None:
    refused = TopicPartition("orders", 0)
    client, brokers = cluster(lambda request, node: answered(request, node, {refused: 29}))

    found = client.offsets(LED.keys(), OffsetBound.LOG_START)

    failure = found.pop(refused)  # type: ignore[attr-defined]  # a dict
    assert isinstance(failure, Failure)
    assert failure.code == "TOPIC_AUTHORIZATION_FAILED"
    assert "kafka-acls --add --topic orders --operation Describe" in failure.message
    assert all(isinstance(each, int) for each in found.values())
    assert len(asked(brokers)) == 2


def test_a_silent_leader_is_not_waited_for_twice() -> None:
    def respond(request: ListOffsetsRequest, node: int) -> Any:
        return RequestTimedOutError("30000 ms") if node == 2 else answered(request, node)

    client, brokers = cluster(respond)

    found = client.offsets(LED.keys(), OffsetBound.HIGH_WATERMARK)

    assert found[TopicPartition("orders", 1)] is offsets.SILENT_LEADER
    assert [node for node, _ in asked(brokers)].count(2) == 1
    assert len(brokers.sent(MetadataRequest)) == 2


def test_whoever_leads_instead_of_a_silent_one_is_asked() -> None:
    now = dict(LED)
    moved = TopicPartition("orders", 1)

    def respond(request: ListOffsetsRequest, node: int) -> Any:
        now[moved] = (1, 7)
        return RequestTimedOutError("30000 ms") if node == 2 else answered(request, node)

    client, _ = cluster(respond, lambda: now)

    assert client.offsets(LED.keys(), OffsetBound.HIGH_WATERMARK)[moved] == offset_of(moved, 1)


def test_a_connection_that_was_lost_is_tried_again() -> None:
    lost = [KafkaConnectionError("closed")]

    def respond(request: ListOffsetsRequest, node: int) -> Any:
        return lost.pop() if node == 2 and lost else answered(request, node)

    client, _ = cluster(respond)

    found = client.offsets(LED.keys(), OffsetBound.HIGH_WATERMARK)

    assert found == {at: offset_of(at, node) for at, (node, _) in LED.items()}


def test_what_nobody_leads_and_what_is_not_there_fail_in_their_place() -> None:
    led = {**LED, TopicPartition("orders", 2): (-1, 5)}
    client, _ = cluster(led=lambda: led)
    missing = [TopicPartition("orders", 7), TopicPartition("unknown", 0)]

    found = client.offsets([*led, *missing], OffsetBound.LOG_START)

    assert found[TopicPartition("orders", 2)] is topics.NO_LEADER
    assert found[missing[0]] is topics.NO_PARTITION
    assert isinstance(found[missing[1]], Failure)
    assert {at for at, each in found.items() if isinstance(each, int)} == LED.keys()


def test_a_partition_that_the_answer_leaves_out_is_no_offset() -> None:
    client, _ = cluster(lambda request, node: ListOffsetsResponse(topics=[]))

    found = client.offsets(LED.keys(), OffsetBound.LOG_START)

    assert found == dict.fromkeys(LED, NOT_ANSWERED)


def test_a_partition_that_the_answer_tells_twice_is_no_offset() -> None:
    def twice(request: ListOffsetsRequest, node: int) -> Any:
        answer = answered(request, node)
        answer.topics += answered(request, node, offset=lambda *_: 99).topics
        return answer

    found = cluster(twice)[0].offsets(LED.keys(), OffsetBound.LOG_START)

    assert found == dict.fromkeys(LED, TOLD_TWICE)


def test_a_negative_offset_is_none() -> None:
    client, _ = cluster(lambda request, node: answered(request, node, offset=lambda *_: -1))

    found = client.offsets(LED.keys(), OffsetBound.LOG_START)

    assert found == dict.fromkeys(LED, offsets.NO_OFFSET)


def test_any_other_negative_answer_about_a_time_is_no_answer() -> None:
    """Only -1 says that no record is that young."""
    client, _ = cluster(lambda request, node: answered(request, node, offset=lambda *_: -1001))

    assert client.offsets_at(dict.fromkeys(LED, 1000)) == dict.fromkeys(LED, offsets.NO_OFFSET)


def test_a_time_goes_out_as_it_is_and_no_young_record_is_none() -> None:
    """What speaks against that is asked for at once: here the largest timestamp, -3 in these
    answers, is older."""
    client, brokers = cluster(lambda request, node: answered(request, node, offset=lambda *_: -1))
    times = {at: 1000 + number for number, at in enumerate(LED)}

    assert client.offsets_at(times) == dict.fromkeys(LED)

    stamps = {at: stamp for _, each in asked(brokers) for at, (_, stamp) in each.items()}
    assert {at: stamp for _, each in asked(brokers)[:2] for at, (_, stamp) in each.items()} == times
    assert set(stamps.values()) == {-3}


@pytest.mark.parametrize(
    ("now_ms", "found"), [(1_000_000 + 10 * 60_000, AGE_UNKNOWN), (1_000_000 + 60 * 60_000, 5)]
)
def test_how_late_a_record_at_the_answer_may_be_goes_by_the_time_of_the_reading(
    now_ms: int, found: int | Failure
) -> None:
    """It is dated two minutes after the time that was asked about: a fifth of ten minutes, and a
    thirtieth of an hour. The host's own clock is many years ahead."""
    at = TopicPartition("audit", 0)

    def respond(request: Any, node: int | None) -> Any:
        if isinstance(request, MetadataRequest):
            return metadata(request, LED)
        if isinstance(request, FetchRequest):
            refused = {"partition_index": 0, "error_code": TopicAuthorizationFailedError.errno}
            return make(FetchResponse, responses=[{"topic": at.topic, "partitions": [refused]}])
        answer = answered(decoded(request), node or 0, offset=lambda *_: 5)
        answer.topics[0].partitions[0].timestamp += 2 * 60_000
        return answer

    client = Offsets(BrokersClient(Brokers(respond)), Leaders())
    assert client.offsets_at({at: 1_000_000}, {at: LogRange(0, 9)}, now_ms) == {at: found}


def test_of_topics_that_are_not_listed_any_more_nothing_is_remembered() -> None:
    lookups, brokers = cluster()
    leads = lookups._leaders
    lookups.learn_tiered({"orders": False, "audit": False})
    lookups.offsets(LED, OffsetBound.LOG_START)
    read = [len(remembered) for remembered in (leads._topics, leads._read_at, leads._ids)]
    assert read == [2, 2, 2]

    leads.keep({"orders", "other"})
    lookups.keep({"orders", "other"})
    orders = [at for at in LED if at.topic == "orders"]
    before = len(brokers.requests)
    assert set(lookups.offsets(orders, OffsetBound.LOG_START)) == set(orders)

    assert leads._topics.keys() == leads._read_at.keys() == leads._ids.keys() == {"orders"}
    assert lookups._tiered.keys() == {"orders"}
    later = [request for _, request in brokers.requests[before:]]
    assert not any(isinstance(request, MetadataRequest) for request in later)


def test_a_topic_that_was_not_listed_is_asked_for_anew() -> None:
    lookups, _ = cluster()
    found = lookups.offsets(LED, OffsetBound.LOG_START)
    lookups._leaders.keep(set())
    assert lookups.offsets(LED, OffsetBound.LOG_START) == found
