"""A broker on a small disk: consumed records are kept as long as there is room, and no longer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from devkit.embedded.small_disks import MIB, CannotMount, small_disks
from retentiond.kafka.interface import LogDir, LogDirs, OffsetBound
from retentiond.model import Failure, Reason, TopicPartition, Verdict
from retentiond.spark.session import SparkSessions
from retentiond.tell.pressure import say_relief
from retentiond.tell.report import CycleReport
from tests.contract.real import TIMEOUT_S, RealDriver
from tests.support.brokers.command import Document
from tests.support.brokers.cycles import Retentiond, row_of
from tests.support.tiers import OwnKafka
from tests.support.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark]

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
def small_kafka(own_kafka: OwnKafka, tmp_path: Path) -> Iterator[Any]:
    """Makes a broker with a log directory on each of so many disks of 64 MiB."""
    with ExitStack() as until_the_end:

        def make(disks: int = 1) -> RealDriver:
            try:
                folders = until_the_end.enter_context(
                    small_disks(tmp_path / "disks", *[64 * MIB] * disks)
                )
            except CannotMount as error:
                pytest.skip(f"nothing can be mounted here ({error}), and a full disk needs it")
            log_dirs = ",".join(str(folder / "data") for folder in folders)
            kafka = until_the_end.enter_context(
                own_kafka(config={**BROKER, "log.dirs": log_dirs}, log_dirs=disks)
            )
            return until_the_end.enter_context(closing(RealDriver(kafka)))

        yield make


def relaxed(topic: str) -> Document:
    """Records stay for a day, and go at once under pressure."""
    return {
        "name": topic,
        "retention.commitoffset.enable": True,
        "retention.commitoffset.hours": 24,
        "retention.commitoffset.pressure.ms": 0,
    }


def relieving(driver: RealDriver, spark: SparkSessions, folder: Path, topic: str) -> Retentiond:
    return Retentiond(driver.kafka, spark, folder, relaxed(topic), disk_pressure=RULES)


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
    small_kafka: Any, spark: SparkSessions, tmp_path: Path, topic_name: str
) -> None:
    driver: RealDriver = small_kafka()
    driver.create_topic(topic_name, 4, {"segment.bytes": str(MIB)})
    ends = {number: fill(driver, topic_name, 9 * MIB, number) for number in range(4)}
    driver.commit("readers", {(topic_name, number): end for number, end in ends.items()})
    retentiond = relieving(driver, spark, tmp_path, topic_name)
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
    small_kafka: Any, spark: SparkSessions, tmp_path: Path, topic_name: str
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
    retentiond = relieving(driver, spark, tmp_path, topic_name)

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
    small_kafka: Any, spark: SparkSessions, tmp_path: Path, topic_name: str
) -> None:
    driver: RealDriver = small_kafka()
    driver.create_topic(topic_name, 2, {"segment.bytes": str(MIB)})
    ends = {number: fill(driver, topic_name, 22 * MIB, number) for number in range(2)}
    driver.commit("fast", {(topic_name, number): end for number, end in ends.items()})
    driver.commit("slow", {(topic_name, 0): 250, (topic_name, 1): 0})
    retentiond = relieving(driver, spark, tmp_path, topic_name)

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
