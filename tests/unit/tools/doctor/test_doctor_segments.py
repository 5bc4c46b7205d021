"""When a segment stays open so long that it is worth a word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from retentiond.model import Failure, TopicPartition
from retentiond.tools.doctor.finding import Level, PartitionLog
from retentiond.tools.doctor.segments import check_segments
from tests.support.builders.examined_clusters import DAY_MS, GIB, HOUR_MS, bad, config, only, topic

OPTIONS = "--bootstrap-server broker:9092"

MIB = 2**20

ORDERS = config({"name": "orders", "retention.commitoffset.hours": 1})

AT = TopicPartition("orders", 0)


def log(size_bytes: int | None = MIB, start: int = 0, end: int = 1000) -> PartitionLog:
    return PartitionLog(start, end, size_bytes)


def test_a_topic_smaller_than_a_segment_that_is_closed_after_days_is_a_warning() -> None:
    found = only(check_segments([topic("orders", ORDERS)], {AT: log()}, OPTIONS))
    assert (found.level, found.subject) == (Level.WARNING, "topic orders")
    assert "may stay open for up to 7 days (its largest log takes 1.0 MiB; " in found.sentence
    assert "segment.bytes 1.0 GiB, segment.ms 7 days" in found.sentence
    assert found.remedy is not None
    assert found.remedy.startswith(f"`kafka-configs {OPTIONS} --alter")
    assert "--entity-name orders --add-config segment.ms=3600000" in found.remedy


def test_a_log_as_large_as_a_segment_has_closed_one() -> None:
    two = replace(topic("orders", ORDERS), partitions=(0, 1))
    other = TopicPartition("orders", 1)
    assert bad(check_segments([two], {AT: log(), other: log(GIB)}, OPTIONS)) == []


def test_where_no_disk_is_read_that_is_said() -> None:
    found = only(check_segments([topic("orders", ORDERS)], {AT: log(None)}, OPTIONS))
    assert "how much it takes on disk is not known" in found.sentence


def test_a_partition_without_records_or_bytes_has_nothing_to_free() -> None:
    for size in (0, None):
        assert bad(check_segments([topic("orders", ORDERS)], {AT: log(size, 7, 7)}, OPTIONS)) == []
    assert bad(check_segments([topic("orders", ORDERS)], {AT: log(MIB, 7, 7)}, OPTIONS)) != []


def test_segments_that_are_closed_within_a_day_are_ok() -> None:
    an_hour = topic("orders", ORDERS, segment_ms=HOUR_MS)
    assert bad(check_segments([an_hour], {AT: log()}, OPTIONS)) == []


@pytest.mark.parametrize(("hours", "is_said"), [(47, True), (48, False)])
def test_a_segment_may_stay_open_for_as_long_as_records_are_kept(hours: int, is_said: bool) -> None:
    mine = topic(
        "orders",
        config({"name": "orders", "retention.commitoffset.hours": hours}),
        segment_ms=2 * DAY_MS,
    )
    assert bool(bad(check_segments([mine], {AT: log()}, OPTIONS))) is is_said


def test_several_topics_are_one_finding_and_the_slowest_come_first() -> None:
    mine = config({"pattern": ".*", "retention.commitoffset.hours": 1})
    names = [f"topic-{number}" for number in range(6)]
    logs: Mapping[TopicPartition, PartitionLog | Failure] = {
        TopicPartition(name, 0): log() for name in names
    }
    topics = [
        topic(name, mine, segment_ms=(7 if name == "topic-5" else 2) * DAY_MS) for name in names
    ]
    found = only(check_segments(topics, logs, OPTIONS))
    assert (found.subject, found.names) == ("6 topics", tuple(names))
    assert found.sentence.startswith("a segment may stay open too long: until it is closed, ")
    assert "segment.ms: topic-5 7 days, topic-0 2 days" in found.sentence
    assert "and 2 more" in found.sentence


def test_a_partition_that_could_not_be_read_is_said() -> None:
    unread = Failure("LEADER_NOT_AVAILABLE", "no leader")
    found = list(check_segments([topic("orders", ORDERS)], {AT: unread}, OPTIONS))
    assert [(each.level, each.subject) for each in found] == [(Level.WARNING, "segments of orders")]


def test_where_a_configuration_is_not_known_nothing_is_said_to_be_well() -> None:
    unknown = topic("orders", ORDERS, segment_ms=None)
    assert not [*check_segments([unknown], {AT: log()}, OPTIONS)]


def test_of_a_tiered_topic_it_says_what_that_means_instead() -> None:
    tiered = topic("orders", ORDERS, remote_storage=True)
    (found,) = check_segments([tiered], {AT: log()}, OPTIONS)
    assert (found.level, found.subject) == (Level.OK, "topic orders")
    assert "goes from the remote storage and from the brokers' disks" in found.sentence
