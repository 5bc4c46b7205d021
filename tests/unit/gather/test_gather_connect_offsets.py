"""MirrorMaker 2's positions in Kafka Connect's offsets topic: what it has replicated, or none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from retentiond.config import ExternalReader
from retentiond.gather.external_positions import read_external
from retentiond.kafka.interface import KeyedRecord
from retentiond.model import Commit, Failure
from tests.support.fakes import FakeCluster

TOPIC = "mm2-offsets.east.internal"

CONNECTOR = "MirrorSourceConnector"

NOW_MS = 1_700_000_000_000


def record(
    topic: str, partition: object, value: object, *, cluster: str = "east", more: str = CONNECTOR
) -> KeyedRecord:
    """As Connect's JSON converter writes it."""
    source = {"cluster": cluster, "partition": partition, "topic": topic}
    return KeyedRecord(7, encoded([more, source]), None if value is None else encoded(value))


def encoded(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def read(*records: KeyedRecord, **more: str) -> Any:
    kafka = FakeCluster()
    kafka.last[TOPIC] = records
    return read_external(reader(**more), NOW_MS, kafka)


def reader(**more: str) -> ExternalReader:
    return ExternalReader.model_validate(
        {"name": "mirror", "connect_offsets": {"topic": TOPIC, "connector": CONNECTOR, **more}}
    )


def failed(*records: KeyedRecord, **more: str) -> str:
    failure = read(*records, **more)
    assert isinstance(failure, Failure)
    return failure.message


def test_the_next_read_is_one_past_the_last_record_that_was_replicated() -> None:
    """MirrorSourceTask seeks to the offset that it has committed, plus one."""
    assert read(record("orders", 0, {"offset": 41}), record("orders", 1, {"offset": 0})) == (
        Commit("orders", 0, 42),
        Commit("orders", 1, 1),
    )


@pytest.mark.parametrize("value", [None, {"offset": -1}])
def test_a_tombstone_and_an_offset_below_zero_are_no_position(value: object) -> None:
    found = read(record("orders", 0, value), record("orders", 1, {"offset": 6}))
    assert found == (Commit("orders", 1, 7),)


def test_a_position_that_is_null_is_none() -> None:
    null = record("orders", 0, {})._replace(value=b"null")
    assert read(null, record("orders", 1, {"offset": 6})) == (Commit("orders", 1, 7),)


def test_other_connectors_are_passed_over_whatever_they_keep() -> None:
    others = (
        KeyedRecord(0, encoded(["jdbc", {"table": "orders"}]), encoded({"id": 7})),
        KeyedRecord(0, encoded(["jdbc", None]), b"no JSON"),
        record("orders", 0, {"offset": 2}, more="MirrorCheckpointConnector"),
    )
    assert read(*others, record("orders", 0, {"offset": 41})) == (Commit("orders", 0, 42),)


def test_of_two_keys_of_one_partition_the_smaller_position_counts() -> None:
    written_otherwise = KeyedRecord(
        3,
        encoded([CONNECTOR, {"topic": "orders", "partition": 0, "cluster": "east"}]),
        encoded({"offset": 10}),
    )
    newer = record("orders", 0, {"offset": 41})
    assert read(written_otherwise, newer) == (Commit("orders", 0, 11),)
    assert read(newer, written_otherwise) == (Commit("orders", 0, 11),)


@pytest.mark.parametrize("turned", [False, True])
def test_of_two_keys_of_which_one_has_no_position_none_counts(turned: bool) -> None:
    same = [record("orders", 0, None)._replace(partition=3), record("orders", 0, {"offset": 41})]
    others = [record("orders", 1, {"offset": 0})]
    assert read(*(reversed(same) if turned else same), *others) == (Commit("orders", 1, 1),)


def test_a_position_in_another_cluster_is_not_taken_for_this_one() -> None:
    ours, theirs = (
        record("orders", 0, {"offset": at}, cluster=each)
        for each, at in (("east", 41), ("south", 999))
    )
    assert read(ours, theirs, cluster="east") == (Commit("orders", 0, 42),)
    assert failed(ours, theirs) == (
        f"topic {TOPIC} has positions of connector {CONNECTOR} in several clusters (east, south): "
        "name this one's alias as connect_offsets.cluster"
    )
    assert failed(theirs, cluster="east") == (
        f"topic {TOPIC} has no position of connector {CONNECTOR} in cluster east"
    )


def test_a_connector_without_any_position_is_a_failure() -> None:
    assert failed() == f"topic {TOPIC} has no position of connector {CONNECTOR}"


NOT_MIRRORS = f"the positions of connector {CONNECTOR} in topic {TOPIC} are none of {CONNECTOR}'s"
NO_OFFSET = f"a position of connector {CONNECTOR} in topic {TOPIC} is no offset"


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        (KeyedRecord(0, None, b"{}"), f"topic {TOPIC} has a key that is none of Kafka Connect's"),
        (KeyedRecord(0, b"{}", b"{}"), f"topic {TOPIC} has a key that is none of Kafka Connect's"),
        (KeyedRecord(0, b"\x00\x01", b"{}"), "its offsets topic has a record that is no JSON"),
        (KeyedRecord(0, encoded([CONNECTOR, {"table": "orders"}]), b"{}"), NOT_MIRRORS),
        (KeyedRecord(0, encoded([CONNECTOR, None]), b"{}"), NOT_MIRRORS),
        (record("orders", "0", {"offset": 1}), NOT_MIRRORS),
        (record("orders", True, {"offset": 1}), NOT_MIRRORS),
        (record("orders", -1, {"offset": 1}), NOT_MIRRORS),
        (record("orders", 0, {"offset": "1"}), NO_OFFSET),
        (record("orders", 0, {"offset": 1.0}), NO_OFFSET),
        (record("orders", 0, {"offset": True}), NO_OFFSET),
        (record("orders", 0, {"position": 1}), NO_OFFSET),
        (record("orders", 0, {"offset": 2**63 - 1}), NO_OFFSET),
        (
            record("orders", 0, {})._replace(value=b'{"offset":1,"offset":900}'),
            "its position has a key that is given twice or is no text",
        ),
    ],
)
def test_what_can_not_be_understood_is_a_failure(odd: KeyedRecord, why: str) -> None:
    assert failed(record("orders", 0, {"offset": 41}), odd) == why


def test_a_topic_that_can_not_be_read_is_a_failure() -> None:
    failure = read_external(reader(), NOW_MS, FakeCluster())
    assert isinstance(failure, Failure)
    assert failure.message.startswith(f"topic {TOPIC} can't be read (UNKNOWN_TOPIC_OR_PART")
