"""What the brokers show, put together by partition; and how long that is waited for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

import pytest

from retentiond.disks.log_dirs import (
    LATE,
    DiskReader,
    DiskReading,
    Orphans,
    ReplicaFolder,
    disk_reading,
    no_disk_reading,
)
from retentiond.errors import KafkaUnavailable
from retentiond.kafka.interface import LogDir, LogDirs, Replica
from retentiond.model import Failure, TopicPartition
from tests.support.builders.disk_readings import AT, replica

DOWN = Failure("DOWN", "it does not answer")


def look(
    brokers: Mapping[int, Sequence[LogDir] | Failure], assigned: tuple[int, ...]
) -> DiskReading:
    return disk_reading(LogDirs(brokers, {AT: assigned}), [AT])


def directory(path: str, *sizes: int, is_future: bool = False) -> LogDir:
    return LogDir(path, tuple(Replica(*AT, size, is_future) for size in sizes))


def test_a_partition_is_found_on_all_its_brokers() -> None:
    found = look({1: [directory("/a", 10)], 2: [directory("/a"), directory("/b", 12)]}, (1, 2))
    assert found.replicas(AT) == (
        ReplicaFolder(1, "/a", 10, False),
        ReplicaFolder(2, "/b", 12, False),
    )
    assert found.size_bytes(AT) == 22
    assert found.size_of(replica(2, "/b")) == 12
    assert found.size_of(replica(2, "/a")) is None


@pytest.mark.parametrize(
    ("second", "why"),
    [
        ({2: DOWN}, "DOWN: it does not answer"),
        ({}, "it is not there"),  # the metadata do not show it any more
    ],
)
def test_a_broker_that_is_not_read_leaves_its_partitions_sizes_unknown(
    second: dict[int, Failure], why: str
) -> None:
    found = look({1: [directory("/a", 10)], **second}, (1, 2))
    assert (found.replicas(AT), found.size_bytes(AT)) == (None, None)
    assert found.problems == (f"the disks of broker 2 can't be read: {why}",)


def test_the_log_directories_of_a_partition_are_known_together_or_not_at_all() -> None:
    a, b, moving = directory("/a", 10), directory("/b", 10), directory("/c", 10, is_future=True)
    assert look({2: [a], 1: [b, moving]}, (1, 2)).log_dirs() == {AT: ((1, "/b"), (2, "/a"))}
    assert look({1: [b], 2: DOWN}, (1, 2)).log_dirs() == {}


def test_a_broker_that_is_not_read_and_holds_nothing_of_it_does_not_matter() -> None:
    assert look({1: [directory("/a", 10)], 2: DOWN}, (1,)).size_bytes(AT) == 10


def test_a_partition_that_no_metadata_show_is_not_known() -> None:
    found = disk_reading(LogDirs({1: [directory("/a")]}, {}), [AT])
    assert (found.replicas(AT), found.size_bytes(AT)) == (None, None)


def test_a_directory_that_is_offline_leaves_what_lies_in_it_unknown() -> None:
    found = look({1: [LogDir("/a", failure=DOWN), directory("/b")]}, (1,))
    assert found.size_bytes(AT) is None
    assert found.problems == ("/a of broker 1: DOWN: it does not answer",)
    assert found.orphans == (Orphans(1, "/b", 0, 0),)


def test_a_replica_under_move_counts_in_the_size_and_not_as_a_replica() -> None:
    found = look({1: [directory("/a", 10), directory("/b", 4, is_future=True)]}, (1,))
    assert found.replicas(AT) == (ReplicaFolder(1, "/a", 10, False),)
    assert found.size_bytes(AT) == 14


def test_orphans_are_counted_by_directory_and_belong_to_no_partition() -> None:
    orphans = (Replica(*AT, 7, False, True), Replica("gone", 3, 5, False, True))
    found = look({1: [LogDir("/a", orphans)]}, (2,))
    assert found.orphans == (Orphans(1, "/a", 2, 12),)
    assert found.folders == {}


def test_where_nothing_can_be_asked_nothing_is_known() -> None:
    found = no_disk_reading(DOWN)
    assert (found.replicas(AT), found.size_bytes(AT)) == (None, None)
    assert found.problems == ("the brokers' disks can't be read: DOWN: it does not answer",)


FOUND = LogDirs({}, {TopicPartition("orders", 0): (1,)})


def test_a_reading_is_there_when_it_is_asked_for() -> None:
    reader = DiskReader()
    reader.begin(lambda _give_up: FOUND)
    assert reader.result() is FOUND


def test_before_the_first_reading_there_is_none() -> None:
    assert DiskReader().result() == LATE


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (KafkaUnavailable("nobody answers"), Failure("KafkaUnavailable", "nobody answers")),
        (ZeroDivisionError(), Failure("ZeroDivisionError", "the reading failed")),  # a bug
    ],
)
def test_a_reading_that_fails_is_a_failure(error: Exception, failure: Failure) -> None:
    def fails(_give_up: object) -> LogDirs:
        raise error

    reader = DiskReader()
    reader.begin(fails)
    assert reader.result() == failure


def test_a_reading_ends_with_what_was_answered_when_it_is_waited_for_no_longer() -> None:
    def without_the_slow_one(give_up: Callable[[], bool]) -> LogDirs:
        while not give_up():
            time.sleep(0.001)
        return FOUND

    reader = DiskReader(max_wait_s=0.01)
    reader.begin(without_the_slow_one)
    assert reader.result() is FOUND


def test_a_reading_that_hangs_is_not_joined_by_another_and_not_given_later() -> None:
    """A plan and its report go by the same one."""
    go_on, begun, ended = threading.Event(), [], threading.Event()

    def hangs(_give_up: object) -> LogDirs:
        begun.append(1)
        go_on.wait(10)
        ended.set()
        return FOUND

    reader = DiskReader(max_wait_s=0.01, max_end_s=0.01)
    reader.begin(hangs)
    assert reader.result() == LATE
    reader.begin(hangs)
    go_on.set()
    ended.wait(10)
    assert reader.result() == LATE
    assert begun == [1]


def test_all_that_lies_in_the_logs_counts_in_their_size_orphans_and_moves_too() -> None:
    orphan = Replica("gone", 3, 5, False, True)
    brokers = {
        1: [directory("/a", 10), directory("/b", 4, is_future=True)],
        2: [LogDir("/a", (orphan, Replica("other", 0, 30)))],
    }
    assert look(brokers, (1,)).log_bytes == 49


def test_the_size_of_all_logs_is_not_known_where_one_can_not_be_read() -> None:
    assert look({1: [directory("/a", 10)], 2: DOWN}, (1,)).log_bytes is None
    assert look({1: [directory("/a", 10), LogDir("/b", failure=DOWN)]}, (1,)).log_bytes is None
    assert no_disk_reading(DOWN).log_bytes is None
