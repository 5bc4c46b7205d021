"""Kafka Connect's offsets topic on a real broker, written as its workers write it: exactly-once
ones in transactions, with a tombstone where a position is taken back."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as ConfluentPartition

from devkit.embedded import EmbeddedKafka
from retentiond.config import Config
from retentiond.kafka.cluster import KafkaCluster
from retentiond.kafka.interface import KeyedRecord
from retentiond.kafka.offsets import last_records
from retentiond.model import Failure, GroupKind, TopicPartition
from tests.contract.real import RealDriver, connect
from tests.support.brokers.gathering import snapshot
from tests.support.builders.gather_worlds import commits, groups
from tests.support.tiers import OwnKafka
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker

CONNECTOR = "MirrorSourceConnector"

TIMEOUT_S = 30.0


@pytest.fixture
def driver(any_kafka: EmbeddedKafka) -> Iterator[RealDriver]:
    with closing(RealDriver(any_kafka)) as made:
        yield made


@pytest.fixture
def offsets_topic(driver: RealDriver, topic_name: str) -> str:
    driver.create_topic(topic_name, 3, {"cleanup.policy": "compact"})
    return topic_name


class Worker:
    """Writes positions of source partitions; by itself, or in transactions."""

    def __init__(
        self,
        driver: RealDriver,
        topic: str,
        transactional_id: str | None = None,
        compression: str = "none",
    ) -> None:
        self._topic = topic
        exactly_once = {"transactional.id": transactional_id} if transactional_id else {}
        self.producer = Producer(
            {
                "bootstrap.servers": driver.broker.bootstrap_servers,
                "log_level": 0,
                "compression.type": compression,
                **exactly_once,
            }
        )
        if transactional_id:
            self.producer.init_transactions(TIMEOUT_S)

    def write(self, topic: str, partition: int, offset: int | None) -> None:
        source = {"cluster": "east", "partition": partition, "topic": topic}
        self.produce(
            json.dumps([CONNECTOR, source]).encode(),
            None if offset is None else json.dumps({"offset": offset}).encode(),
        )

    def produce(self, key: bytes, value: bytes | None) -> None:
        self.producer.produce(self._topic, value, key)
        assert self.producer.flush(TIMEOUT_S) == 0

    @contextmanager
    def transaction(self, *, commits: bool) -> Iterator[None]:
        self.producer.begin_transaction()
        yield
        if commits:
            self.producer.commit_transaction(TIMEOUT_S)
        else:
            self.producer.abort_transaction(TIMEOUT_S)


def read(kafka: KafkaCluster, topic: str) -> dict[tuple[str, int], int | None]:
    """By source partition, the last offset; None: a tombstone."""
    found = kafka.last_records(topic)
    assert not isinstance(found, Failure), found
    return dict(map(position, found))


def position(record: KeyedRecord) -> tuple[tuple[str, int], int | None]:
    _, source = json.loads(record.key or b"")
    value = None if record.value is None else json.loads(record.value)["offset"]
    return (source["topic"], source["partition"]), value


def test_each_reading_says_what_was_written_last(driver: RealDriver, offsets_topic: str) -> None:
    worker = Worker(driver, offsets_topic)
    assert read(driver.kafka, offsets_topic) == {}
    for offset in range(50):
        for partition in range(10):
            worker.write("orders", partition, offset * 10 + partition)
    assert read(driver.kafka, offsets_topic) == {("orders", at): 490 + at for at in range(10)}
    worker.write("orders", 3, None)
    worker.write("orders", 4, 7)
    assert read(driver.kafka, offsets_topic) == {
        ("orders", at): {3: None, 4: 7}.get(at, 490 + at) for at in range(10)
    }


def codecs_in(log: bytes) -> set[int]:
    """Of its batches. A producer leaves one as it is that compression would make no smaller, as one
    of a single record."""
    found, at = set(), 0
    while log[at : at + 12].strip(b"\0"):
        found.add(log[at + 22] & 7)
        at += 12 + int.from_bytes(log[at + 8 : at + 12])
    return found


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("by", ["producer", "broker"])
def test_every_codec_of_kafka_is_read(
    driver: RealDriver, topic_name: str, compression: str, by: str
) -> None:
    """Packed by librdkafka, or by Java where the topic says so."""
    settings = {"cleanup.policy": "compact"}
    if by == "broker":
        settings["compression.type"] = compression
    driver.create_topic(topic_name, 1, settings)
    worker = Worker(driver, topic_name, compression=compression if by == "producer" else "none")
    for partition in range(2000):
        source = {"cluster": "east", "partition": partition, "topic": "orders"}
        worker.producer.produce(
            topic_name,
            json.dumps({"offset": partition}).encode(),
            json.dumps([CONNECTOR, source]).encode(),
        )
    assert worker.producer.flush(TIMEOUT_S) == 0
    assert read(driver.kafka, topic_name) == {("orders", at): at for at in range(2000)}
    (node, *_) = driver.broker.nodes
    (log,) = (node.log_dirs[0] / f"{topic_name}-0").glob("*.log")
    codecs = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
    assert codecs[compression] in codecs_in(log.read_bytes())


def test_of_transactions_what_is_committed_counts_and_neither_the_aborted_nor_the_open(
    driver: RealDriver, offsets_topic: str
) -> None:
    worker = Worker(driver, offsets_topic, f"worker-{offsets_topic}")
    with worker.transaction(commits=True):
        worker.write("orders", 0, 10)
        worker.write("orders", 1, 11)
    with worker.transaction(commits=False):
        worker.write("orders", 0, 900)
        worker.write("orders", 2, 901)
    committed = {("orders", 0): 10, ("orders", 1): 11}
    await_read(driver.kafka, offsets_topic, committed)
    with worker.transaction(commits=True):
        worker.write("orders", 1, 902)
        assert read(driver.kafka, offsets_topic) == committed
    await_read(driver.kafka, offsets_topic, {**committed, ("orders", 1): 902})


def await_read(
    kafka: KafkaCluster, topic: str, expected: Mapping[tuple[str, int], int | None]
) -> None:
    """A transaction's end shows a moment after the coordinator's answer."""
    eventually(lambda: read(kafka, topic), lambda found: found == expected)
    assert read(kafka, topic) == expected


def test_a_topic_that_is_recreated_is_read_anew(driver: RealDriver, offsets_topic: str) -> None:
    worker = Worker(driver, offsets_topic)
    worker.write("orders", 0, 900)
    worker.write("orders", 1, 900)
    assert len(read(driver.kafka, offsets_topic)) == 2
    driver.delete_topic(offsets_topic)
    missing = driver.kafka.last_records(offsets_topic)
    assert isinstance(missing, Failure)
    assert offsets_topic not in driver.kafka.topic_names()
    driver.create_topic(offsets_topic, 3, {"cleanup.policy": "compact"})
    again = Worker(driver, offsets_topic)
    for offset in (1, 2, 3):
        again.write("orders", 0, offset)
    assert read(driver.kafka, offsets_topic) == {("orders", 0): 3}


def test_what_a_leader_has_lost_counts_no_more(own_kafka: OwnKafka, topic_name: str) -> None:
    """Its disk went back to before a write, and the log has grown past where it was read to."""
    with own_kafka() as kafka, closing(RealDriver(kafka)) as driver:
        driver.create_topic(topic_name, 1, {"cleanup.policy": "compact"})
        worker = Worker(driver, topic_name)
        worker.write("orders", 0, 5)
        (node,) = kafka.nodes
        (log,) = (node.log_dirs[0] / f"{topic_name}-0").glob("*.log")
        kept_bytes = log.stat().st_size
        worker.write("orders", 0, 900)
        assert read(driver.kafka, topic_name) == {("orders", 0): 900}
        node.kill()
        os.truncate(log, kept_bytes)
        node.start()
        again = Worker(driver, topic_name)
        for offset in range(3):
            again.write("another", 0, offset)
        eventually(
            lambda: driver.kafka.last_records(topic_name),
            lambda found: not isinstance(found, Failure),  # connections are made again
        )
        assert read(driver.kafka, topic_name) == {("orders", 0): 5, ("another", 0): 2}


def test_what_was_cut_off_the_topic_counts_no_more(driver: RealDriver, topic_name: str) -> None:
    driver.create_topic(topic_name, 1, {"cleanup.policy": "compact,delete"})
    worker = Worker(driver, topic_name)
    worker.write("orders", 0, 5)
    assert read(driver.kafka, topic_name) == {("orders", 0): 5}
    first = ConfluentPartition(topic_name, 0, 1)
    admin = driver.broker.admin()
    admin.delete_records([first])[first].result(TIMEOUT_S)
    assert read(driver.kafka, topic_name) == {}


def test_a_reading_goes_on_where_the_one_before_ended_and_after_an_hour_begins_again(
    driver: RealDriver, offsets_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tombstone may have come and gone in an hour. A reading without time tells what it has yet
    to read."""
    worker = Worker(driver, offsets_topic)
    for partition in range(30):
        worker.write("orders", partition, partition)
    expected = {("orders", at): at for at in range(30)}

    def left() -> str:
        with monkeypatch.context() as patch:
            patch.setattr(last_records, "MOST_SECONDS", -1.0)
            found = driver.kafka.last_records(offsets_topic)
        return found.message if isinstance(found, Failure) else ""

    still = (
        f"offsets of topic {offsets_topic} are still to be read; the next reading goes on from here"
    )
    assert left() == f"30 {still}"
    assert read(driver.kafka, offsets_topic) == expected
    assert left() == ""
    worker.write("orders", 0, 900)
    assert left() == f"1 {still}"
    assert read(driver.kafka, offsets_topic) == {**expected, ("orders", 0): 900}
    monkeypatch.setattr(last_records, "KEPT_FOR_S", -1.0)
    assert left() == f"31 {still}"


def test_what_takes_too_much_memory_is_a_failure(
    driver: RealDriver, offsets_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Worker(driver, offsets_topic).produce(b"key", b"x" * 100)
    with monkeypatch.context() as patch:
        patch.setattr(last_records, "MOST_KEPT_BYTES", 102)
        failure = driver.kafka.last_records(offsets_topic)
    assert isinstance(failure, Failure)
    assert failure.code == "TOO_LARGE"
    assert driver.kafka.last_records(offsets_topic) != failure


def test_another_cluster_that_has_the_topic_is_read_and_its_failures_are_its_own(
    driver: RealDriver, offsets_topic: str
) -> None:
    """Named as another one, the same broker; this cluster answers on."""
    Worker(driver, offsets_topic).write("orders", 0, 6)
    config = mirrored(
        "orders", offsets_topic, {"bootstrap.servers": driver.broker.bootstrap_servers}
    )
    (reader,) = config.entries[0].policy.external_readers
    assert reader.connect_offsets is not None
    with closing(connect(driver.broker.bootstrap_servers)) as kafka:
        found = kafka.last_records(offsets_topic, reader.connect_offsets.kafka)
        assert not isinstance(found, Failure), found
        assert list(map(position, found)) == [(("orders", 0), 6)]
        assert kafka.last_records(offsets_topic, reader.connect_offsets.kafka) == found
        nowhere = mirrored("orders", offsets_topic, {"bootstrap.servers": "127.0.0.1:1"})
        (reader,) = nowhere.entries[0].policy.external_readers
        assert reader.connect_offsets is not None
        failure = kafka.last_records(offsets_topic, reader.connect_offsets.kafka)
        assert isinstance(failure, Failure)
        assert failure.code == "KafkaUnavailable"
        assert kafka.cluster_id()


def mirrored(topic: str, offsets_topic: str, kafka: dict[str, str] | None = None) -> Config:
    where = {} if kafka is None else {"kafka": kafka}
    place = {"topic": offsets_topic, "connector": CONNECTOR, **where}
    return Config.model_validate(
        {
            "kafka": {"bootstrap.servers": "not used here:9092"},
            "topics": [
                {
                    "name": topic,
                    "retention.commitoffset.enable": True,
                    "groups": {"external": [{"name": "mirror", "connect_offsets": place}]},
                }
            ],
        }
    )


def test_a_mirror_counts_on_its_topic_with_the_offset_that_it_reads_next(
    driver: RealDriver, offsets_topic: str
) -> None:
    topic = f"{offsets_topic}-source"
    driver.create_topic(topic, 2)
    worker = Worker(driver, offsets_topic)
    worker.write(topic, 0, 41)
    worker.write("another", 1, 5)
    taken = snapshot(driver.kafka, mirrored(topic, offsets_topic))
    mirror = groups(taken)["mirror"]
    assert (mirror.kind, mirror.problem) == (GroupKind.EXTERNAL, None)
    ours = {at: offset for (group, at), offset in commits(taken).items() if group == "mirror"}
    assert ours == {TopicPartition(topic, 0): 42}  # and none on partition 1, which holds it

    broken = snapshot(driver.kafka, mirrored(topic, f"{offsets_topic}-none"))
    assert groups(broken)["mirror"].problem is not None
    ours = {at: offset for (group, at), offset in commits(broken).items() if group == "mirror"}
    assert ours == {TopicPartition(topic, 0): None, TopicPartition(topic, 1): None}
