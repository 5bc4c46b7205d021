"""Tiered storage (KIP-405): records that lie in remote storage alone, on a real broker.

Its remote storage is a folder. There is one thread for remote reads, and a short queue.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import (
    AclOperation,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from retentiond.kafka.cluster import KafkaCluster
from retentiond.kafka.interface import OffsetBound
from retentiond.kafka.settings.properties import translate
from retentiond.model import TopicPartition
from retentiond.tell.figures.answers import TopicAnswer
from retentiond.tell.report import CycleReport
from retentiond.tools.delete_records.bounds import every_partition, work_out
from tests.contract.real import TIMEOUT_S, RealDriver, connect
from tests.faults.held import log_start
from tests.support.brokers.command import consumed
from tests.support.brokers.cycles import Retentiond, deleted_up_to, row_of, told
from tests.support.brokers.deleting import Bench
from tests.support.brokers.guarded import ENOUGH, EVERY_TOPIC, Guarded, guarded_kafka, rule
from tests.support.tiers import OwnKafka
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker

HOUR_MS = 3_600_000

OLD_MS, YOUNG_MS = 50 * HOUR_MS, HOUR_MS // 2

RECORD_BYTES = 100_000

A_SEGMENT = 10
"""Records of that size that fit into one."""

TIERED = {
    "remote.storage.enable": "true",
    "local.retention.bytes": "1",  # the active segment alone
    "retention.ms": "-1",
    "segment.bytes": str(1_048_576),
    "segment.ms": str(30 * 24 * HOUR_MS),
    "message.timestamp.after.max.ms": str(2**62),
}


@pytest.fixture(scope="module")
def driver(own_kafka: OwnKafka) -> Iterator[RealDriver]:
    few = {"remote.log.reader.threads": "1", "remote.log.reader.max.pending.tasks": "6"}
    with (
        own_kafka(tiered=True, config=few) as kafka,
        closing(RealDriver(kafka)) as made,
    ):
        yield made


def produce(driver: RealDriver, topic: str, ages_ms: Sequence[int]) -> None:
    now_ms = driver.now_ms
    driver.produce(topic, [now_ms - age_ms for age_ms in ages_ms], value=b"v" * RECORD_BYTES)


def local_start(driver: RealDriver, topic: str, partition: int = 0) -> int:
    at = TopicPartition(topic, partition)
    found = driver.kafka.offsets([at], OffsetBound.LOCAL_START)[at]
    assert isinstance(found, int)
    return found


def ages_left(driver: RealDriver, topic: str, end: int) -> list[int]:
    """Of all records that a consumer still finds, by offset, in hours."""
    settings = {"bootstrap.servers": driver.broker.bootstrap_servers, "group.id": "not-committing"}
    start = log_start(driver.broker, topic)
    with closing(Consumer(settings | {"enable.auto.commit": False})) as consumer:
        consumer.assign([ConfluentPartition(topic, 0, OFFSET_BEGINNING)])
        found = consumer.consume(end - start, TIMEOUT_S)
    assert [message.offset() for message in found] == list(range(start, end))
    return [(driver.now_ms - message.timestamp()[1]) // HOUR_MS for message in found]


def entry(topic: str, ms: int = HOUR_MS) -> dict[str, object]:
    return consumed(topic, **{"retention.commitoffset.ms": ms})


@pytest.mark.parametrize("end_is_young", [False, True], ids=["old-end", "young-end"])
def test_young_records_in_remote_storage_stay_though_deleted_ones_hide_them(
    driver: RealDriver,
    tmp_path: Path,
    topic_name: str,
    end_is_young: bool,
) -> None:
    """The first segment's only young record is deleted, and the second one has another. A broker
    looks no further in remote storage than the first; what is local is all old, or has its own."""
    driver.create_topic(topic_name, config=TIERED)
    first = [YOUNG_MS] + [OLD_MS] * (A_SEGMENT - 1)
    second = [OLD_MS] * 5 + [YOUNG_MS] + [OLD_MS] * 4
    local = [OLD_MS] * A_SEGMENT + [YOUNG_MS if end_is_young else OLD_MS] * 2
    produce(driver, topic_name, first + second + local)
    end = len(first + second + local)
    driver.commit(f"readers-of-{topic_name}", {(topic_name, 0): end})
    eventually(lambda: local_start(driver, topic_name), lambda start: start == end - 2)
    at = TopicPartition(topic_name, 0)
    with closing(connect(driver.broker.bootstrap_servers, client_id="somebody else")) as other:
        assert other.delete_records({at: 1}) == {at: 1}
    an_hour_ago = driver.now_ms - HOUR_MS
    (by_hand,) = work_out(driver.kafka, every_partition(driver.kafka, [topic_name]), an_hour_ago)
    assert by_hand.cutoff is None or by_hand.cutoff <= len(first) + 5

    retentiond = Retentiond(driver.kafka, tmp_path, entry(topic_name))
    for _ in range(3):
        retentiond.cycle()
    young = 1 + 2 * end_is_young
    assert ages_left(driver, topic_name, end).count(0) == young
    assert log_start(driver.broker, topic_name) > 1  # and what is surely old goes


def test_a_tiered_topic_without_such_records_is_deleted_from_up_to_the_first_young_one(
    driver: RealDriver, tmp_path: Path, topic_name: str
) -> None:
    """Of five segments four are in remote storage alone; an hour lies between two records."""
    driver.create_topic(topic_name, config=TIERED)
    ages = [50 * HOUR_MS - offset * HOUR_MS for offset in range(5 * A_SEGMENT)]
    produce(driver, topic_name, ages)
    driver.commit(f"readers-of-{topic_name}", {(topic_name, 0): len(ages)})
    eventually(lambda: local_start(driver, topic_name), lambda start: start == 4 * A_SEGMENT)
    retentiond = Retentiond(driver.kafka, tmp_path, entry(topic_name, 61 * HOUR_MS // 2))
    report = retentiond.cycle()
    assert deleted_up_to(report, topic_name) == 20  # in remote storage
    row = row_of(report, topic_name)
    assert row.predicted_bytes == 0  # nothing of it is on the disk
    retentiond = Retentiond(driver.kafka, tmp_path / "2", entry(topic_name, HOUR_MS // 2))
    eventually(
        lambda: deleted_up_to(retentiond.cycle(), topic_name), lambda cutoff: cutoff == len(ages)
    )  # all of what is remote, in some steps, and then of what is local


def test_bytes_are_about_the_disks_also_where_all_is_remote(
    driver: RealDriver,
    tmp_path: Path,
    topic_name: str,
) -> None:
    """Half of it is in remote storage alone at first; after that, all of it is."""
    driver.create_topic(topic_name, config=TIERED)
    produce(driver, topic_name, [OLD_MS] * (2 * A_SEGMENT + 5))
    driver.commit(f"readers-of-{topic_name}", {(topic_name, 0): 2 * A_SEGMENT + 5})
    eventually(lambda: local_start(driver, topic_name), lambda start: start == 2 * A_SEGMENT)
    retentiond = Retentiond(driver.kafka, tmp_path, entry(topic_name), dry_run=True)
    topic = only_topic(retentiond.cycle())
    assert topic.size_bytes == driver.broker.disk_bytes(topic_name) > 0
    by_hand = Bench(driver, tmp_path)
    said = by_hand.run("--dry-run", "--offset-json-file", by_hand.file((topic_name, 0, -1)))
    assert "about 0 B on disk" in said.out

    keep_nothing_local = ConfigResource(
        ResourceType.TOPIC,
        topic_name,
        incremental_configs=[
            ConfigEntry("local.retention.ms", "1", incremental_operation=AlterConfigOpType.SET)
        ],
    )
    admin = driver.broker.admin()
    admin.incremental_alter_configs([keep_nothing_local])[keep_nothing_local].result(TIMEOUT_S)
    end = 2 * A_SEGMENT + 5
    eventually(lambda: local_start(driver, topic_name), lambda start: start == end)
    eventually(lambda: driver.broker.disk_bytes(topic_name), lambda size: size == 0)
    topic = only_topic(retentiond.cycle())
    assert (topic.size_bytes, topic.predicted_bytes) == (0, 0)


def only_topic(report: CycleReport) -> TopicAnswer:
    (answer,) = report.answers.topics
    return answer


def test_more_tiered_partitions_than_a_broker_can_look_up_at_once_are_all_looked_up(
    driver: RealDriver, tmp_path: Path, topic_name: str
) -> None:
    partitions = 16
    driver.create_topic(topic_name, partitions, TIERED | {"segment.ms": "60000"})
    for partition in range(partitions):  # a segment each
        driver.produce(topic_name, [driver.now_ms - OLD_MS] * 2, partition)
    for partition in range(partitions):
        driver.produce(topic_name, [driver.now_ms - YOUNG_MS, driver.now_ms], partition)
    ends = {(topic_name, partition): 4 for partition in range(partitions)}
    driver.commit(f"readers-of-{topic_name}", ends)
    every = [TopicPartition(topic_name, partition) for partition in range(partitions)]
    eventually(
        lambda: set(driver.kafka.offsets(every, OffsetBound.LOCAL_START).values()),
        lambda starts: starts == {3},
        timeout_s=60,
    )
    retentiond = Retentiond(driver.kafka, tmp_path, entry(topic_name))
    report = retentiond.cycle()
    assert {told(report, topic_name, each).verdict for each in range(partitions)} == {"delete"}
    assert {deleted_up_to(report, topic_name, each) for each in range(partitions)} == {2}


@pytest.fixture
def guarded() -> Iterator[Guarded]:
    with guarded_kafka(tiered=True) as made:
        yield made


def test_without_read_a_tiered_topic_whose_timestamps_nothing_else_tells_is_held(
    guarded: Guarded, tmp_path: Path, topic_name: str
) -> None:
    """Old records in remote storage, and half an hour old ones behind them: a look-up can't tell
    whether the old ones have timestamps."""
    driver = guarded.driver
    driver.create_topic(topic_name, config=TIERED)
    produce(driver, topic_name, [OLD_MS] * A_SEGMENT + [YOUNG_MS] * 2)
    driver.commit("readers", {(topic_name, 0): A_SEGMENT + 2})
    eventually(lambda: local_start(driver, topic_name), lambda start: start == A_SEGMENT)
    guarded.grant(*ENOUGH)
    held = told(Retentiond(guarded.port, tmp_path, entry(topic_name)).cycle(), topic_name)
    assert (held.verdict, held.reason) == ("hold", "offset_unreadable")
    assert "grant this principal READ on the topic" in str(held.sentence)
    assert log_start(driver.broker, topic_name) == 0

    guarded.grant(*ENOUGH, rule(EVERY_TOPIC, AclOperation.READ))
    with closing(KafkaCluster(translate(guarded.section), lambda *_: None)) as port:
        report = Retentiond(port, tmp_path / "2", entry(topic_name)).cycle()
    assert deleted_up_to(report, topic_name) == A_SEGMENT
