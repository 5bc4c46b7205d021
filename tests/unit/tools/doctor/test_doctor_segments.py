"""How long a segment stays open, by what is known, and when that is worth a word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from retentiond.formatting import MINUTE_MS
from retentiond.model import Failure, TopicPartition
from retentiond.tools.doctor.finding import Level, PartitionLog
from retentiond.tools.doctor.segments import AGES_MS, check_segments, open_for
from tests.support.builders.examined_clusters import DAY_MS, GIB, HOUR_MS, bad, config, only, topic

OPTIONS = "--bootstrap-server broker:9092"

MIB = 2**20

ORDERS = config({"name": "orders", "retention.commitoffset.hours": 1})

AT = TopicPartition("orders", 0)


def log(start: int = 0, end: int = 1000, size_bytes: int | None = GIB, **ago: int) -> PartitionLog:
    """``day``, ``hour``, ``minute``: the first younger offset, by default the log start."""
    offsets = {
        age: ago.get(name, start)
        for age, name in zip(AGES_MS, ("day", "hour", "minute"), strict=True)
    }
    return PartitionLog(start, end, size_bytes, offsets)


def open_ms(found: PartitionLog, segment_bytes: int = GIB, segment_ms: int = 7 * DAY_MS) -> object:
    told = open_for(found, segment_bytes, segment_ms)
    return None if told is None else (told.at_least_ms, told.at_most_ms)


def test_a_segment_is_full_as_soon_as_the_last_days_records_fill_it() -> None:
    # 500 of 1,000 records came within the day: half of 1 GiB a day
    assert open_ms(log(day=500)) == (2 * DAY_MS, 2 * DAY_MS)


def test_segment_ms_closes_it_at_the_latest() -> None:
    assert open_ms(log(day=999)) == (7 * DAY_MS, 7 * DAY_MS)


def test_where_all_records_are_younger_than_a_day_the_last_hour_counts() -> None:
    assert open_ms(log(hour=500)) == (2 * HOUR_MS, 2 * HOUR_MS)


def test_where_all_are_younger_than_an_hour_the_last_minute_counts() -> None:
    assert open_ms(log(minute=500)) == (2 * MINUTE_MS, 2 * MINUTE_MS)


def test_without_an_older_record_nothing_is_known_but_segment_ms() -> None:
    assert open_ms(log()) == (0, 7 * DAY_MS)


def test_where_nothing_was_written_within_the_day_only_time_closes_it() -> None:
    assert open_ms(log(day=1000)) == (7 * DAY_MS, 7 * DAY_MS)


def test_deleted_records_may_take_up_to_a_segment_of_what_is_on_disk() -> None:
    # of 4 GiB at most 1 is dead: 1,000 live records take 3 to 4 GiB
    at_least, at_most = (DAY_MS // 2, round(DAY_MS * 2 / 3))
    assert open_ms(log(5000, 6000, 4 * GIB, day=5500)) == (at_least, at_most)


def test_where_all_that_is_on_disk_may_be_dead_the_bound_is_segment_ms() -> None:
    assert open_ms(log(5000, 6000, 500 * MIB, day=5500)) == (round(DAY_MS * 4.096), 7 * DAY_MS)


def test_where_no_disk_is_read_only_segment_ms_is_known() -> None:
    assert open_ms(log(size_bytes=None, day=500)) == (0, 7 * DAY_MS)


def test_a_partition_without_records_or_bytes_has_nothing_to_free() -> None:
    assert open_ms(log(7, 7, 0)) is None
    assert open_ms(log(7, 7, None)) is None


def test_a_partition_whose_records_are_all_deleted_still_holds_its_open_segment() -> None:
    assert open_ms(log(7, 7, MIB)) == (0, 7 * DAY_MS)


def test_a_topic_that_stays_open_for_days_is_a_warning_that_says_what_it_rests_on() -> None:
    found = only(check_segments([topic("orders", ORDERS)], {AT: log(day=500)}, OPTIONS))
    assert (found.level, found.subject) == (Level.WARNING, "topic orders")
    assert "stays open for about 2 days" in found.sentence
    assert "500 records written in the last day and 1.0 GiB on disk" in found.sentence
    assert "segment.bytes 1.0 GiB, segment.ms 7 days" in found.sentence
    assert found.remedy is not None
    assert found.remedy.startswith(f"`kafka-configs {OPTIONS} --alter")
    assert "--entity-name orders --add-config segment.ms=3600000" in found.remedy


def test_what_is_not_known_is_said_to_be_so() -> None:
    found = only(check_segments([topic("orders", ORDERS)], {AT: log()}, OPTIONS))
    assert "may stay open for up to 7 days (no record is old enough" in found.sentence


def test_of_several_partitions_the_slowest_counts() -> None:
    two = replace(topic("orders", ORDERS), partitions=(0, 1))
    other = TopicPartition("orders", 1)
    sure = only(check_segments([two], {AT: log(day=700), other: log(hour=500)}, OPTIONS))
    assert "stays open for about 3 days" in sure.sentence
    logs = {AT: log(hour=1), other: log(5000, 6000, 500 * MIB, hour=5500)}
    perhaps = only(check_segments([two], logs, OPTIONS))
    assert "may stay open for up to 7 days (by 500 records written in the last hour" in (
        perhaps.sentence
    )


def test_segments_that_are_closed_within_a_day_are_ok() -> None:
    assert bad(check_segments([topic("orders", ORDERS)], {AT: log(hour=500)}, OPTIONS)) == []
    an_hour = topic("orders", ORDERS, segment_ms=HOUR_MS)
    assert bad(check_segments([an_hour], {AT: log()}, OPTIONS)) == []


@pytest.mark.parametrize(("hours", "is_said"), [(47, True), (48, False)])
def test_a_segment_may_stay_open_for_as_long_as_records_are_kept(hours: int, is_said: bool) -> None:
    mine = config({"name": "orders", "retention.commitoffset.hours": hours})
    assert (
        bool(bad(check_segments([topic("orders", mine)], {AT: log(day=500)}, OPTIONS))) is is_said
    )


def test_several_topics_are_one_finding_and_the_slowest_come_first() -> None:
    mine = config({"pattern": ".*", "retention.commitoffset.hours": 1})
    names = [f"topic-{number}" for number in range(6)]
    logs: Mapping[TopicPartition, PartitionLog | Failure] = {
        TopicPartition(name, 0): log(day=500 if name != "topic-5" else 900) for name in names
    }
    found = only(check_segments([topic(name, mine) for name in names], logs, OPTIONS))
    assert (found.subject, found.names) == ("6 topics", tuple(names))
    assert found.sentence.startswith("a segment stays open too long: until it is closed, ")
    assert "segment.ms; for about: topic-5 7 days, topic-0 2 days" in found.sentence
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
