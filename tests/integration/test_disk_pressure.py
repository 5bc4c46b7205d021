"""A broker on a small disk: consumed records are kept as long as there is room, and no longer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from devkit.embedded import EmbeddedKafka
from devkit.embedded.disk import MIB, CannotMount, small_disks
from retentiond.errors import KafkaUnavailable
from retentiond.kafka.interface import LogDir, LogDirs, OffsetBound
from retentiond.model import Failure, Reason, TopicPartition, Verdict
from retentiond.tell.figures.pressure import say_relief
from retentiond.tell.report import CycleReport
from tests.contract.real import TIMEOUT_S, RealDriver
from tests.support.brokers.command import Document
from tests.support.brokers.cycles import Retentiond, row_of
from tests.support.brokers.three import OFFSETS_TOPIC, Three
from tests.support.tiers import OwnKafka
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker

RULES = {"below_free": "40%", "until_free": "60%"}

BROKER = {
    "log.retention.check.interval.ms": "200",
    "file.delete.delay.ms": "200",
    "log.segment.delete.delay.ms": "200",
    # One that writes ahead fills a small disk by itself.
    "log.index.size.max.bytes": "4096",
    "log.preallocate": "false",
    "offsets.topic.num.partitions": "1",
    "metadata.log.segment.bytes": str(8 * MIB),
}

RECORD = bytes(10_000)


@pytest.fixture
def small_cluster(own_kafka: OwnKafka, tmp_path: Path) -> Iterator[Any]:
    """Makes brokers whose log directories lie on so many disks of 64 MiB, which they share out."""
    with ExitStack() as until_the_end:

        def make(brokers: int, disks: int) -> EmbeddedKafka:
            try:
                folders = until_the_end.enter_context(
                    small_disks(tmp_path / "disks", *[64 * MIB] * disks)
                )
            except CannotMount as error:
                pytest.skip(f"nothing can be mounted here ({error}), and a full disk needs it")
            data = [folder / "data" for folder in folders]
            by_broker = {number + 1: data[number::brokers] for number in range(brokers)}
            kafka = own_kafka(brokers, config=BROKER, data_folders=by_broker)
            return until_the_end.enter_context(kafka)

        yield make


@pytest.fixture
def small_kafka(small_cluster: Any) -> Iterator[Any]:
    """Makes a broker with a log directory on each of so many disks of 64 MiB."""
    with ExitStack() as until_the_end:

        def make(disks: int = 1) -> RealDriver:
            return until_the_end.enter_context(closing(RealDriver(small_cluster(1, disks))))

        yield make


@pytest.fixture
def three(small_cluster: Any) -> Iterator[Three]:
    """Three brokers, each on a disk of its own."""
    with closing(Three(small_cluster(3, 3))) as three:
        yield three


def relaxed(topic: str) -> Document:
    """Records stay for a day, and go at once under pressure."""
    return {
        "name": topic,
        "retention.commitoffset.enable": True,
        "retention.commitoffset.hours": 24,
        "retention.commitoffset.pressure.ms": 0,
    }


def relieving(driver: RealDriver, folder: Path, topic: str) -> Retentiond:
    return Retentiond(driver.kafka, folder, relaxed(topic), disk_pressure=RULES)


def fill(driver: RealDriver, topic: str, size: int, partition: int = 0) -> int:
    """So many bytes; the number of records that were written, fewer once the disk is full."""
    written = 0
    producer = Producer(
        {
            "bootstrap.servers": driver.broker.bootstrap_servers,
            "linger.ms": 5,
            "log_level": 0,
            "message.timeout.ms": 5000,
        }
    )

    def count(error: object, _message: object) -> None:
        nonlocal written
        written += error is None

    for _ in range(size // len(RECORD)):
        producer.produce(topic, RECORD, partition=partition, on_delivery=count)
        producer.poll(0)
    producer.flush(TIMEOUT_S)
    return written


def directories(found: LogDirs) -> Sequence[LogDir]:
    """Those of the only broker."""
    (of_broker,) = found.brokers.values()
    assert not isinstance(of_broker, Failure)
    return of_broker


def is_offline(log_dir: LogDir) -> bool:
    return log_dir.failure is not None


def free_share(driver: RealDriver) -> dict[str, float]:
    """By log directory, by the broker's own account."""
    return {each.path: share_of(each) for each in directories(driver.kafka.log_dirs())}


def share_of(log_dir: LogDir) -> float:
    assert log_dir.usable_bytes is not None
    assert log_dir.total_bytes
    return log_dir.usable_bytes / log_dir.total_bytes


def sooner(report: CycleReport) -> list[int]:
    """Partitions that are deleted from because of pressure."""
    return [
        row.partition
        for row in report.plan.rows
        if row.verdict is Verdict.DELETE and row.consumed_retention_ms == 0
    ]


def directory_of(driver: RealDriver, topic: str) -> dict[int, str]:
    """Where each partition lies."""
    return {
        replica.partition: each.path
        for each in directories(driver.kafka.log_dirs())
        for replica in each.replicas
        if replica.topic == topic
    }


def test_consumed_records_go_as_far_as_a_full_disk_needs_and_stay_otherwise(
    small_kafka: Any, tmp_path: Path, topic_name: str
) -> None:
    driver: RealDriver = small_kafka()
    driver.create_topic(topic_name, 4, {"segment.bytes": str(MIB)})
    ends = {number: fill(driver, topic_name, 9 * MIB, number) for number in range(4)}
    driver.commit("readers", {(topic_name, number): end for number, end in ends.items()})
    retentiond = relieving(driver, tmp_path, topic_name)
    (before,) = free_share(driver).values()
    assert before < 0.6

    report = retentiond.cycle()

    if before >= 0.4:  # no pressure yet: fill it up to there
        assert sooner(report) == []
        assert not any(row.under_pressure for row in report.plan.rows)
        ends[0] += fill(driver, topic_name, int((before - 0.36) * 64 * MIB), 0)
        report = retentiond.cycle()
    chosen = sooner(report)
    (relief,) = report.disk.relief or ()
    print(before, free_share(driver), report.disk, *report.plan.rows, sep="\n")
    assert all(row.under_pressure for row in report.plan.rows)
    assert 0 < len(chosen) < 4  # no more than is needed
    assert relief.short_bytes == 0
    for row in report.plan.rows:
        assert (row.verdict is Verdict.DELETE) == (row.partition in chosen)
        assert row.consumed_retention_ms == (0 if row.partition in chosen else 24 * 3600 * 1000)

    again = retentiond.cycle()  # the bytes of the first are on their way, so nothing more goes
    assert sooner(again) == []
    eventually(lambda: free_share(driver), lambda now: min(now.values()) >= 0.6)
    last = retentiond.cycle()
    assert not any(row.under_pressure for row in last.plan.rows)
    assert row_of(last, topic_name, chosen[0]).log_start_offset
    assert [each.row.partition for each in retentiond.audit] == chosen


def test_only_the_directory_that_runs_full_is_relieved(
    small_kafka: Any, tmp_path: Path, topic_name: str
) -> None:
    driver: RealDriver = small_kafka(2)
    driver.create_topic(topic_name, 4, {"segment.bytes": str(MIB)})
    lies = directory_of(driver, topic_name)
    full = min(lies.values())  # it has the metadata, too, and the broker ends without it
    here = [number for number, directory in lies.items() if directory == full]
    assert len(here) == 2
    ends = {
        number: fill(driver, topic_name, (21 if number in here else 5) * MIB, number)
        for number in range(4)
    }
    driver.commit("readers", {(topic_name, number): end for number, end in ends.items()})
    retentiond = relieving(driver, tmp_path, topic_name)

    report = retentiond.cycle()

    print(free_share(driver), *report.plan.rows, sep="\n")
    assert [each.log_dir.log_dir for each in report.disk.relief or ()] == [full]
    assert {row.partition for row in report.plan.rows if row.under_pressure} == set(here)
    assert set(sooner(report)) < {*here, None}
    assert sooner(report)

    (other,) = {*lies.values()} - {full}
    there = next(number for number in range(4) if number not in here)
    fill(driver, topic_name, 80 * MIB, there)  # more than it takes: Kafka takes it offline
    eventually(driver.kafka.log_dirs, lambda found: any(map(is_offline, directories(found))))
    fill(driver, topic_name, 20 * MIB, here[0])
    at = TopicPartition(topic_name, here[0])
    end = driver.kafka.offsets([at], OffsetBound.HIGH_WATERMARK)[at]
    assert not isinstance(end, Failure)
    driver.commit("readers", {(topic_name, here[0]): end})

    report = retentiond.cycle()

    print(*report.plan.rows, *report.disk.problems, sep="\n")
    assert any(other in problem for problem in report.disk.problems)
    assert [each.log_dir.log_dir for each in report.disk.relief or ()] == [full]


def test_no_record_goes_that_a_group_has_yet_to_read_however_full_the_disk_is(
    small_kafka: Any, tmp_path: Path, topic_name: str
) -> None:
    driver: RealDriver = small_kafka()
    driver.create_topic(topic_name, 2, {"segment.bytes": str(MIB)})
    ends = {number: fill(driver, topic_name, 22 * MIB, number) for number in range(2)}
    driver.commit("fast", {(topic_name, number): end for number, end in ends.items()})
    driver.commit("slow", {(topic_name, 0): 250, (topic_name, 1): 0})
    retentiond = relieving(driver, tmp_path, topic_name)

    report = retentiond.cycle()

    assert sooner(report) == [0]
    assert row_of(report, topic_name, 0).cutoff == 250
    assert row_of(report, topic_name, 1).reason is Reason.NOT_CONSUMED
    (relief,) = report.disk.relief or ()
    assert relief.short_bytes > 0
    assert list(relief.kept_bytes) == ["slow"]
    assert "most is kept for slow" in say_relief(relief)
    assert driver.kafka.offsets(
        [TopicPartition(topic_name, number) for number in range(2)], OffsetBound.LOG_START
    ) == {(topic_name, 0): 250, (topic_name, 1): 0}


def complete_cycle(retentiond: Retentiond) -> CycleReport:
    """The first that sees all groups and the disks. Until then a coordinator that has just moved
    hides groups, and a frozen broker hides every disk, or lets the whole cycle fail."""

    def cycle() -> CycleReport | KafkaUnavailable:
        try:
            return retentiond.cycle()
        except KafkaUnavailable as error:
            return error

    def sees_all(found: CycleReport | KafkaUnavailable) -> bool:
        return isinstance(found, CycleReport) and found.plan.complete and bool(found.disk.space)

    found = eventually(cycle, sees_all)
    assert isinstance(found, CycleReport)
    return found


def fill_first_of_three(three: Three, topic: str) -> int:
    """Broker 1's disk runs under pressure, and nobody else's: partition 0 is on 1 and 2, and
    partition 1 on 2 and 3. All is read. The end of partition 0."""
    three.kafka.create_topic(topic, 3, {"segment.bytes": str(MIB)}, replication_factor=1)
    three.place(topic, {0: [1, 2], 1: [2, 3], 2: [1]})
    ends = {number: fill(three.driver, topic, 11 * MIB, number) for number in range(2)}
    fill(three.driver, topic, 34 * MIB, 2)
    three.driver.commit("readers", {(topic, 0): ends[0], (topic, 1): ends[1], (topic, 2): 0})
    three.place(OFFSETS_TOPIC, {0: [1, 2, 3]})
    return ends[0]


def log_starts(three: Three, topic: str) -> dict[int, int | Failure]:
    asked = [TopicPartition(topic, number) for number in range(3)]
    found = three.driver.kafka.offsets(asked, OffsetBound.LOG_START)
    return {at.partition: offset for at, offset in found.items()}


def test_a_partition_on_several_brokers_goes_sooner_for_the_one_whose_disk_is_full(
    three: Three, tmp_path: Path, topic_name: str
) -> None:
    end = fill_first_of_three(three, topic_name)
    retentiond = relieving(three.driver, tmp_path, topic_name)

    report = complete_cycle(retentiond)

    print(*report.plan.rows, report.disk.relief, sep="\n")
    assert [each.log_dir.broker for each in report.disk.relief or ()] == [1]
    assert [row.under_pressure for row in report.plan.rows] == [True, False, True]
    assert log_starts(three, topic_name) == {0: end, 1: 0, 2: 0}
    (relief,) = report.disk.relief or ()
    assert relief.short_bytes > 0  # partition 2, which nobody has read, fills the disk
    assert list(relief.kept_bytes) == ["readers"]
    eventually(
        lambda: sizes(three, topic_name, 0),
        lambda found: {*found} == {1, 2} and max(found.values()) < 2 * MIB,
    )


def sizes(three: Three, topic: str, partition: int) -> dict[int, int]:
    """Of a partition's replicas, by broker."""
    return {
        broker: replica.size_bytes
        for broker, found in three.driver.kafka.log_dirs().brokers.items()
        if not isinstance(found, Failure)
        for log_dir in found
        for replica in log_dir.replicas
        if (replica.topic, replica.partition) == (topic, partition)
    }
