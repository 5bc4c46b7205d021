"""Which records are looked at to know how old others are, and what becomes of what is read."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pytest
from kafka.record.memory_records import MemoryRecordsBuilder

from retentiond.kafka.interface import AGE_UNKNOWN, LogRange
from retentiond.kafka.offsets.by_time import AGE_IS_HIDDEN, Found, Log
from retentiond.kafka.offsets.record_stamps import (
    NEEDS_READ,
    REFUSED_FOR_S,
    RecordStamps,
    in_doubt,
    stamp_at,
)
from retentiond.kafka.topics import Leader
from retentiond.model import Failure, TopicPartition

AT = TopicPartition("orders", 0)
MINUTE_MS = 60_000
NOW_MS = 10**9
HOUR_AGO_MS = NOW_MS - 60 * MINUTE_MS
FIRST_AND_LAST = {AT: (10, 19)}
LED: Mapping[TopicPartition, Log | None] = {AT: ("id", Leader(1, 5))}
REFUSED = Failure("TOPIC_AUTHORIZATION_FAILED", "no READ")


def doubtful(answer: int | Failure | None, stamp_ms: int | None = None) -> Any:
    """Of a log from 10 to 20."""
    stamps = {} if stamp_ms is None or not isinstance(answer, int) else {(AT, answer): stamp_ms}
    return in_doubt({AT: HOUR_AGO_MS}, {AT: answer}, stamps, {AT: LogRange(10, 20)}, NOW_MS)


@pytest.mark.parametrize(
    ("answer", "stamp_ms", "asked"),
    [
        (10, NOW_MS, {}),  # nothing is in front of it
        (20, HOUR_AGO_MS + 3 * MINUTE_MS, {}),
        (20, HOUR_AGO_MS + 4 * MINUTE_MS, FIRST_AND_LAST),
        (25, NOW_MS, FIRST_AND_LAST),
        (11, NOW_MS, {AT: (10, 10)}),
        (None, None, FIRST_AND_LAST),
        (AGE_IS_HIDDEN, None, {AT: (10,)}),
        (REFUSED, None, {}),
    ],
)
def test_records_are_looked_at_unless_the_answer_is_dated_right_after_the_time(
    answer: int | Failure | None, stamp_ms: int | None, asked: Any
) -> None:
    assert doubtful(answer, stamp_ms) == asked


def batch(stamps_ms: Sequence[int], *, first: int = 0, compression: int = 0) -> bytes:
    builder = MemoryRecordsBuilder(2, compression, 1 << 20)
    for stamp_ms in stamps_ms:
        builder.append(timestamp=stamp_ms, key=b"key", value=b"value", headers=[])
    builder.close()
    written = bytearray(builder.buffer())
    written[:8] = first.to_bytes(8, "big")
    return bytes(written)


@pytest.mark.parametrize("compression", [0, 1])
@pytest.mark.parametrize("undated_ms", [-1, -2, -62_135_596_800_000])
def test_each_record_of_a_batch_has_its_own_timestamp(undated_ms: int, compression: int) -> None:
    records = batch([5, undated_ms, 0, 7], first=10, compression=compression)
    records += batch([undated_ms], first=20)
    told = [stamp_at(offset, records) for offset in (10, 11, 12, 13, 14, 20)]
    assert told == [5, AGE_UNKNOWN, 0, 7, AGE_UNKNOWN, AGE_UNKNOWN]


@pytest.mark.parametrize("records", [None, b"", batch([5])[:-3]])
def test_a_record_that_does_not_come_is_a_failure(records: bytes | None) -> None:
    told = stamp_at(3, records)
    assert isinstance(told, Failure)
    assert told is not AGE_UNKNOWN


class Log10:
    """Ten records from 10 on, a batch each, of which some have no timestamp."""

    def __init__(self, *undated: int, refuses: bool = False, first_dated: int | None = None):
        self.undated = undated
        self.refuses = refuses
        self.first_dated = first_dated
        self.fetched: list[int] = []

    def fetch(self, offsets: Mapping[TopicPartition, int], _: int) -> Mapping[TopicPartition, Any]:
        self.fetched += offsets.values()
        if self.refuses:
            return dict.fromkeys(offsets, REFUSED)
        return {
            at: batch([-1 if offset in self.undated else 5], first=offset)
            for at, offset in offsets.items()
        }

    def first(self, partitions: Collection[TopicPartition]) -> Found:
        return dict.fromkeys(partitions, self.first_dated)

    def unknown(self, stamps: RecordStamps, led: Any = LED) -> Mapping[TopicPartition, Failure]:
        return stamps.unknown(FIRST_AND_LAST, led, self.fetch, self.first)


@pytest.mark.parametrize("undated", [10, 19])
def test_the_age_is_unknown_if_the_first_or_the_last_record_has_no_timestamp(undated: int) -> None:
    assert Log10(undated).unknown(RecordStamps()) == {AT: AGE_UNKNOWN}


def test_what_has_a_timestamp_is_fetched_once_while_the_leader_leads() -> None:
    log, stamps = Log10(), RecordStamps()
    for _ in range(2):
        assert not log.unknown(stamps)
    assert log.fetched == [10, 19]
    assert not log.unknown(stamps, {AT: ("id", Leader(1, 6))})
    stamps.keep([])
    assert not log.unknown(stamps)
    assert log.fetched == [10, 19] * 3


@pytest.mark.parametrize(
    ("first_dated", "unknown"),
    [(10, {}), (11, {AT: AGE_UNKNOWN}), (None, {AT: AGE_UNKNOWN})],
)
def test_without_the_right_to_read_a_look_up_tells_about_the_first_record(
    first_dated: int | None, unknown: Mapping[TopicPartition, Failure]
) -> None:
    log, stamps = Log10(refuses=True, first_dated=first_dated), RecordStamps()
    for _ in range(2):
        assert log.unknown(stamps) == unknown
    assert log.fetched == [10]  # it is not tried in each cycle


def test_without_the_right_to_read_nothing_is_known_of_records_in_remote_storage() -> None:
    """Of these `first_dated` tells nothing."""
    log, stamps = Log10(refuses=True), RecordStamps()
    for _ in range(2):
        assert stamps.unknown(FIRST_AND_LAST, LED, log.fetch, lambda _: {}) == {AT: NEEDS_READ}


def test_a_right_that_is_granted_is_noticed_after_some_minutes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log, stamps = Log10(refuses=True), RecordStamps()
    assert log.unknown(stamps)
    log.refuses = False
    assert log.unknown(stamps)
    later_s = time.monotonic() + REFUSED_FOR_S
    monkeypatch.setattr(time, "monotonic", lambda: later_s)
    assert not log.unknown(stamps)


def test_a_batch_that_is_too_large_for_a_common_response_is_fetched_alone() -> None:
    log, per_request = Log10(), []

    def fetch(offsets: Mapping[TopicPartition, int], most: int) -> Mapping[TopicPartition, Any]:
        per_request.append(most)
        return log.fetch(offsets, most) if most == 1 else dict.fromkeys(offsets, b"")

    fetches: Callable[..., Any] = fetch
    assert not RecordStamps().unknown(FIRST_AND_LAST, LED, fetches, log.first)
    assert per_request == [50, 1, 50, 1]
