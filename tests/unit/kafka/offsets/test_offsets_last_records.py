"""What a leader's answer to Fetch means for the last records of a topic; brokers are
tests/integration/test_connect_offsets.py's."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka import codec
from kafka.errors import RequestTimedOutError
from kafka.record.memory_records import MemoryRecordsBuilder
from kafka.record.util import calc_crc32c

from retentiond.kafka.offsets.last_records import LastRecords, _part
from retentiond.model import Failure, TopicPartition

AT = TopicPartition("offsets", 0)

TOPIC_AUTHORIZATION_FAILED = 29


@pytest.fixture
def last() -> LastRecords:
    made = LastRecords(cast(Any, None), cast(Any, None), cast(Any, None), "offsets")
    made._next[AT] = 10
    return made


def part(records: bytes = b"", *, stable: int = 20, error: int = 0) -> SimpleNamespace:
    return SimpleNamespace(
        records=records, last_stable_offset=stable, error_code=error, aborted_transactions=None
    )


def response(*parts: SimpleNamespace, throttled_ms: int = 0, error: int = 0) -> SimpleNamespace:
    return SimpleNamespace(
        error_code=error,
        throttle_time_ms=throttled_ms,
        responses=[SimpleNamespace(partitions=list(parts))],
    )


def batch(*values: bytes) -> bytes:
    """From offset 0 on."""
    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=10_000)
    for value in values:
        builder.append(timestamp=1, key=b"key", value=value, headers=[])
    builder.close()
    return bytes(builder.buffer())


def test_what_compaction_has_left_nothing_of_is_passed(last: LastRecords) -> None:
    assert last._take(AT, part(), 20) is None
    assert last._next[AT] == 20
    assert last._last == {}


def test_a_leader_that_knows_no_such_end_yet_is_asked_again(last: LastRecords) -> None:
    failure = last._take(AT, part(stable=19), 20)
    assert isinstance(failure, Failure)
    assert failure.code == "OFFSET_NOT_AVAILABLE"
    assert last._next[AT] == 10


def test_an_answer_that_a_quota_has_emptied_proves_nothing(last: LastRecords) -> None:
    throttled = _part(response(part(), throttled_ms=50))
    assert isinstance(throttled, Failure)
    assert last._take(AT, throttled, 20) is throttled
    assert last._next[AT] == 10


def test_the_records_of_a_throttled_answer_count(last: LastRecords) -> None:
    last._next[AT] = 0
    taken = _part(response(part(batch(b"a", b"b")), throttled_ms=50))
    assert last._take(AT, taken, 2) is None
    assert (last._last, last._next[AT]) == ({(AT, b"key"): b"b"}, 2)
    assert last._kept_bytes == len(b"keyb")


def test_a_missing_right_says_which(last: LastRecords) -> None:
    failure = last._take(AT, part(error=TOPIC_AUTHORIZATION_FAILED), 20)
    assert isinstance(failure, Failure)
    assert failure.message == (
        "grant this principal READ on the topic (kafka-acls --add --topic offsets --operation Read)"
    )


def test_records_below_the_position_alone_are_no_progress(last: LastRecords) -> None:
    assert isinstance(last._take(AT, part(batch(b"a")), 20), Failure)
    assert last._next[AT] == 10
    assert last._last == {}


def test_a_codec_that_is_not_here_is_named_with_its_package(
    last: LastRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    last._next[AT] = 0
    compressed = bytearray(batch(b"a"))
    struct.pack_into(">h", compressed, 21, 4)  # the attributes say zstd
    struct.pack_into(">I", compressed, 17, calc_crc32c(bytes(compressed[21:])))
    monkeypatch.setattr(codec, "zstd", None)
    failure = last._take(AT, part(bytes(compressed)), 1)
    assert isinstance(failure, Failure)
    assert "compressed with zstd" in failure.message
    assert "install the package zstandard" in failure.message
    assert (last._next[AT], last._last) == (0, {})


@pytest.mark.parametrize(
    "answer", [RequestTimedOutError(), response(error=6), response(), response(part(), part())]
)
def test_any_other_answer_is_a_failure(answer: object) -> None:
    assert isinstance(_part(answer), Failure)
