"""Two minutes of the bench, and that its consumers notice what it is made to find.

The bench's own judgement is tested in ``tests/unit/devkit/test_ledger_judge.py``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition

from devkit.embedded import EmbeddedKafka
from devkit.ledger.book import Book
from devkit.ledger.judge import Kind, judge
from devkit.ledger.readers import Reader
from devkit.ledger.record import encode
from devkit.ledger.scenario import Group, Partition, Protocol, Topic, Writing
from tests.support.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.thorough("the ledger")]

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.mark.spark
@pytest.mark.timeout(1500)
def test_no_reader_loses_a_record_while_brokers_are_killed_and_the_daemon_is_misled(
    tmp_path: Path,
) -> None:
    report = tmp_path / "report.json"
    done = subprocess.run(
        [sys.executable, "-m", "devkit.ledger", "--seconds", "120", "--json", str(report)],
        env={**os.environ, "PYTHONPATH": str(SCRIPTS)},
        capture_output=True,
        text=True,
        timeout=1400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(report.read_text())
    assert found["problems"] == []
    assert not any(found["findings"].values())
    assert all(found["records deleted"].values()), "a topic from which nothing was deleted"
    assert all(found["faults"].values()), "a kind of fault that never came"
    assert found["records delivered"] > found["records written"] > 0


@pytest.mark.parametrize("protocol", [Protocol.CLASSIC, Protocol.CONSUMER])
def test_a_consumer_of_the_bench_notices_that_unread_records_were_deleted(
    kafka: EmbeddedKafka, topic_name: str, protocol: Protocol, tmp_path: Path
) -> None:
    book = Book()
    log_file = tmp_path / "members.log"
    at = (topic_name, 0)
    kafka.create_topic(topic_name)
    book.created(topic_name, "any", since_ms=0)
    write(kafka, book, at, range(10))
    read(kafka, book, at, protocol, log_file, up_to=10)
    write(kafka, book, at, range(10, 20))
    admin = kafka.admin()
    unread = TopicPartition(*at, 15)
    admin.delete_records([unread])[unread].result(30)
    read(kafka, book, at, protocol, log_file, up_to=20)
    assert [(each.start, each.end) for each in book.losses if each.reset] == [(10, 15)]
    found = judge(book, [], {at: 15}, kafka.cluster_id).findings
    assert [each.kind for each in found] == [Kind.RESET, Kind.MISSING]


def write(kafka: EmbeddedKafka, book: Book, at: Partition, offsets: range) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for offset in offsets:
        producer.produce(at[0], encode(1000 + offset), partition=at[1])
    assert producer.flush(30) == 0
    for offset in offsets:
        book.wrote((at[0], 0, at[1]), offset, 1000 + offset)


def read(
    kafka: EmbeddedKafka,
    book: Book,
    at: Partition,
    protocol: Protocol,
    log_file: Path,
    *,
    up_to: int,
) -> None:
    """A consumer that is gone once the group has committed that."""
    topic = Topic(at[0], partitions=1, writing=Writing.PLAIN, records_per_second=0)
    group = Group(f"{at[0]}-readers", (topic,), protocol)
    reader = Reader(kafka.bootstrap_servers, group, book, "any", log_file)
    reader.calm_down()
    reader.start()
    try:
        eventually(lambda: book.position(group.name, at), lambda offset: offset == up_to)
    finally:
        reader.stop()
        reader.join()
    assert reader.error is None
