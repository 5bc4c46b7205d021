"""Targets that are worked out: every doubt keeps records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from retentiond.errors import UsageError
from retentiond.kafka.interface import AGE_NOT_YET_KNOWN, OffsetBound
from retentiond.model import Failure, Outcome, TopicPartition
from retentiond.tools.delete_records.bounds import every_partition, read_targets, work_out
from retentiond.tools.delete_records.partitions import Item
from tests.support.builders.deletable_topics import AT, Deletable, topic

BEFORE_MS = 1_000

UNREADABLE = Failure("LEADER_NOT_AVAILABLE", "no leader")


def cluster(
    *,
    start: int | Failure = 2,
    high: int | Failure = 10,
    stable: int | Failure | None = None,
    by_time: int | Failure | None = None,
) -> Deletable:
    return Deletable(
        topics={"orders": topic()},
        bounds={
            OffsetBound.LOG_START: {AT: start},
            OffsetBound.HIGH_WATERMARK: {AT: high},
            OffsetBound.LAST_STABLE: {AT: high if stable is None else stable},
        },
        times={AT: by_time},
    )


def of(asked: Deletable) -> Item:
    (item,) = work_out(asked, every_partition(asked, ["orders"]), BEFORE_MS)
    return item


def test_records_before_the_first_younger_one_go() -> None:
    asked = cluster(by_time=7)
    item = of(asked)
    assert asked.asked_at == [{AT: BEFORE_MS}]
    assert (item.target, item.records, item.is_pending) == (7, 5, True)
    assert (item.log_start_offset, item.high_watermark, item.topic_id) == (2, 10, "id")


def test_where_none_is_younger_the_end_that_was_read_before_is_the_target() -> None:
    assert of(cluster(by_time=None)).target == 10


def test_a_partition_with_nothing_so_old_is_left_out_with_the_reason() -> None:
    item = of(cluster(by_time=1))
    assert (item.target, item.is_pending, item.has_failed, item.records) == (None, False, False, 0)
    assert item.error == "nothing to delete: it begins at 2, and 1 is the bound"


def test_records_of_an_open_transaction_stay() -> None:
    assert of(cluster(stable=6)).target == 6
    assert of(cluster(stable=6, by_time=8)).target == 6


@pytest.mark.parametrize(
    "asked",
    [
        cluster(start=UNREADABLE),
        cluster(high=UNREADABLE),
        cluster(stable=UNREADABLE),
        cluster(by_time=UNREADABLE),
    ],
)
def test_an_offset_that_cant_be_read_fails_the_partition(asked: Deletable) -> None:
    item = of(asked)
    assert (item.outcome, item.target) == (Outcome.FAILED, None)
    assert item.error is not None
    assert "can't be read (LEADER_NOT_AVAILABLE: no leader)" in item.error


def test_where_nobody_can_tell_whether_a_topic_is_tiered_no_age_is_believed() -> None:
    asked = replace(cluster(by_time=7), configs={"orders": UNREADABLE})
    item = of(asked)
    assert (item.outcome, item.target) == (Outcome.FAILED, None)
    assert item.error == "its offset by time can't be read (LEADER_NOT_AVAILABLE: no leader)"
    assert asked.asked_at == []


NOT_YET = Failure(AGE_NOT_YET_KNOWN, "a few at a time")


def test_what_waits_for_its_turn_in_remote_storage_is_asked_again() -> None:
    asked = cluster(by_time=NOT_YET)
    asked.topics = {"orders": topic(partitions=2)}
    other = TopicPartition("orders", 1)
    for offsets in asked.bounds.values():
        cast(dict[TopicPartition, Any], offsets)[other] = offsets[AT]
    turns: Iterator[dict[TopicPartition, Any]] = iter([{AT: 7, other: NOT_YET}, {other: 8}])

    def offsets_at(
        timestamps_ms: Mapping[TopicPartition, int], logs: object = None, now_ms: object = None
    ) -> dict[TopicPartition, Any]:
        found = next(turns)
        assert found.keys() == timestamps_ms.keys()
        return found

    asked.offsets_at = offsets_at  # type: ignore[method-assign]  # as said

    first, second = work_out(asked, every_partition(asked, ["orders"]), BEFORE_MS)

    assert (first.target, second.target) == (7, 8)


def test_what_comes_no_further_in_remote_storage_fails() -> None:
    asked = cluster(by_time=NOT_YET)
    item = of(asked)
    assert (item.outcome, item.target) == (Outcome.FAILED, None)
    assert len(asked.asked_at) == 1


@pytest.mark.parametrize(("year", "warns"), [(2001, False), (2999, True)])
def test_a_time_in_the_future_is_a_warning(year: int, warns: bool) -> None:
    text = f"{year}-02-01T12:00:00Z"
    found = read_targets(file=None, topics=["orders"], older_than=None, to_datetime=text)
    expected = f"--to-datetime {text} is in the future: every record is older"
    assert found.warnings == ((expected,) if warns else ())


def test_an_unknown_topic_is_refused_before_anything_is_deleted() -> None:
    with pytest.raises(UsageError, match="topic 'nosuch': UNKNOWN_TOPIC_OR_PARTITION"):
        work_out(cluster(), every_partition(cluster(), ["orders", "nosuch"]), BEFORE_MS)


def test_a_topic_of_kafkas_own_is_refused() -> None:
    asked = replace(cluster(), topics={"inner": replace(topic("inner"), is_internal=True)})
    with pytest.raises(UsageError, match=r"topic 'inner': .*never deleted from"):
        work_out(asked, every_partition(asked, ["inner"]), BEFORE_MS)


def test_a_topic_named_twice_is_one() -> None:
    assert (
        len(work_out(cluster(), every_partition(cluster(), ["orders", "orders"]), BEFORE_MS)) == 1
    )
