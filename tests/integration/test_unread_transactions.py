"""A consumer of transactions stands before the last commit marker, which is no record."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from devkit.embedded import EmbeddedKafka
from retentiond.clock import now_ms
from retentiond.kafka.cluster import KafkaCluster
from retentiond.kafka.interface import OffsetBound
from retentiond.kafka.settings.properties import translate
from retentiond.model import TopicPartition
from retentiond.tell.figures.margins import LagReader
from tests.support.builders.guard_readings import deletions
from tests.support.builders.lag_logs import HOUR_MS, Logs
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker

TIMEOUT_S = 30.0


def test_the_marker_of_an_idle_topic_is_never_told_as_a_loss(
    kafka: EmbeddedKafka, topic_name: str
) -> None:
    kafka.create_topic(topic_name, 1)
    servers = {"bootstrap.servers": kafka.bootstrap_servers}
    producer = Producer({**servers, "transactional.id": topic_name})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    for _ in range(3):
        producer.produce(topic_name, b"value", b"key", partition=0)
    producer.commit_transaction(TIMEOUT_S)

    at = TopicPartition(topic_name, 0)
    with closing(KafkaCluster(translate(servers), lambda *_: None)) as cluster:
        end = 4  # with the marker, which is written after the producer is told
        eventually(lambda: cluster.offsets([at], OffsetBound.HIGH_WATERMARK)[at] == end)
        for committed, log_start, is_told in ((3, 0, False), (2, 0, True), (2, 3, False)):
            logs = Logs([0] * end)
            logs.commit("billing", committed)
            logs.partitions[TopicPartition("orders", 0)].delete_to(log_start)
            if log_start:
                assert cluster.delete_records({at: log_start}) == {at: log_start}
            planned = logs.snapshot()  # an hour before the retention of 100 reaches all of it
            topics = (replace(planned.topics[0], name=topic_name),)
            snapshot = replace(planned, topics=topics, taken_at_ms=now_ms() + 99 * HOUR_MS)
            report = LagReader().report(cluster, snapshot, deletions([at]), lambda: False)
            assert report.problem is None
            assert bool(report.margins) is is_told, (committed, log_start)
