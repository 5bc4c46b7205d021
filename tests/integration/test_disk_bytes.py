"""Bytes on a real broker's disk: what deletions were to free, and what they have freed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer

from retentiond.kafka.interface import LogDir
from retentiond.model import Failure, TopicPartition
from tests.contract.real import TIMEOUT_S, RealDriver
from tests.support.brokers.command import write
from tests.support.brokers.cycles import Retentiond, row_of
from tests.support.command_here import run_here
from tests.support.tiers import OwnKafka
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker

MIB = 2**20
"""Of a segment: the least that Kafka 4 takes."""

NEAR = 0.1
"""Of the actual bytes."""

BROKER = {"log.retention.check.interval.ms": "500", "file.delete.delay.ms": "500"}


@pytest.fixture(scope="module")
def driver(own_kafka: OwnKafka) -> Iterator[RealDriver]:
    with own_kafka(config=BROKER) as kafka, closing(RealDriver(kafka)) as made:
        yield made


def fill(driver: RealDriver, topic: str, partitions: int, sizes: list[int]) -> list[int]:
    """Records of those sizes into each partition, some more into each further one; the ends."""
    producer = Producer(
        {"bootstrap.servers": driver.broker.bootstrap_servers, "linger.ms": 5, "log_level": 0}
    )
    driver.create_topic(topic, partitions, {"segment.bytes": str(MIB)})
    ends = []
    for partition in range(partitions):
        records = sizes[: len(sizes) * (partition + 1) // partitions]
        for size in records:
            producer.produce(topic, bytes(size), partition=partition)
            producer.poll(0)
        ends.append(len(records))
        assert producer.flush(TIMEOUT_S) == 0
    return ends


def sizes(driver: RealDriver, topics: list[str]) -> dict[TopicPartition, int]:
    """By the broker's own account."""
    (directory,) = directories(driver)
    return {
        TopicPartition(each.topic, each.partition): each.size_bytes
        for each in directory.replicas
        if each.topic in topics
    }


def directories(driver: RealDriver) -> Sequence[LogDir]:
    (found,) = driver.kafka.log_dirs().brokers.values()
    assert not isinstance(found, Failure)
    return found


def on_disk(driver: RealDriver, topics: list[str]) -> int:
    """By the files."""
    return sum(driver.broker.disk_bytes(topic) for topic in topics)


def test_the_predicted_bytes_of_many_segments_are_near_the_bytes_that_the_broker_frees(
    driver: RealDriver, tmp_path: Path, topic_name: str
) -> None:
    dice = random.Random(5)
    small, mixed, large = (f"{topic_name}-{what}" for what in ("small", "mixed", "large"))
    topics = [small, mixed, large]
    ends = {
        small: fill(driver, small, 3, [2000] * 15_000),
        mixed: fill(driver, mixed, 2, [dice.randint(10, 40_000) for _ in range(1500)]),
        large: fill(driver, large, 2, [100_000] * 300),
    }
    shares = {small: 0.7, mixed: 0.45, large: 1.0}
    retentiond = Retentiond(driver.kafka, tmp_path, *topics)

    def delete(share_of: dict[str, float]) -> tuple[int, int]:
        """Bytes of one cycle's deletions: predicted, and found to be gone from the disk."""
        before, files_before = sizes(driver, topics), on_disk(driver, topics)
        commits = {
            (topic, number): int(end * share_of[topic])
            for topic in topics
            for number, end in enumerate(ends[topic])
        }
        driver.commit("readers", commits)
        report = retentiond.cycle()
        assert report.disk.problems == ()
        predicted = report.answers.predicted_bytes
        assert predicted is not None
        eventually(
            lambda: sizes(driver, topics),
            lambda now: all(now[at] < size for at, size in before.items()),
        )
        return predicted, files_before - on_disk(driver, topics)

    predicted, freed = delete({topic: share / 2 for topic, share in shares.items()})
    assert predicted == pytest.approx(freed, rel=NEAR)
    report = retentiond.cycle()
    assert sum(report.disk.freed_bytes.values()) == freed
    assert sum(each.freed_bytes or 0 for each in retentiond.audit) == freed
    assert row_of(report, large).verdict.value == "nothing"

    again, freed_again = delete(shares)
    assert again == pytest.approx(freed_again, rel=NEAR)
    seen = retentiond.cycle().disk
    assert sum(seen.freed_bytes.values()) == freed_again
    assert sum(seen.size_bytes.values()) == on_disk(driver, topics)


def test_a_dry_run_of_delete_records_tells_the_bytes(
    driver: RealDriver, tmp_path: Path, topic_name: str
) -> None:
    ends = fill(driver, topic_name, 2, [2000] * 12_000)
    entries = [
        {"topic": topic_name, "partition": number, "offset": -1} for number in range(len(ends))
    ]
    offsets = write(tmp_path / "offsets.json", {"partitions": entries})
    command = ("delete-records", "--bootstrap-server", driver.broker.bootstrap_servers)
    options = ("--offset-json-file", offsets, "--dry-run", "--output", "json")
    done = run_here(*command, *options, cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    predicted = sum(each["predicted_bytes"] for each in done.plan["partitions"])

    before, size_before = sizes(driver, [topic_name]), on_disk(driver, [topic_name])
    cutoffs = {TopicPartition(topic_name, number): end for number, end in enumerate(ends)}
    driver.kafka.delete_records(cutoffs)
    eventually(
        lambda: sizes(driver, [topic_name]),
        lambda now: all(now[at] < size for at, size in before.items()),
    )
    assert predicted == pytest.approx(size_before - on_disk(driver, [topic_name]), rel=NEAR)
