"""Twelve topics, each with a slow group of its own, which has read three records of ten, and a
fast one, which has read nine. Whoever overlooks a slow group deletes nine.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial

from devkit.embedded import EmbeddedKafka
from retentiond.kafka.cluster import KafkaCluster
from retentiond.kafka.interface import Kafka
from retentiond.model import Reason
from retentiond.tell.report import CycleReport
from tests.contract.real import RealDriver, connect
from tests.faults.held import log_start_if_led
from tests.support.brokers.cycles import Retentiond, deleted_up_to
from tests.support.waiting import eventually

TOPICS = tuple(f"orders-{number}" for number in range(12))

RECORDS, FAST, SLOW = 10, 9, 3


def produce_and_read(driver: RealDriver) -> None:
    """The slow groups are on every partition of the offsets topic."""
    for topic in TOPICS:
        driver.filled_topic(topic, {slow_group(topic): SLOW})
    driver.commit("fast", {(topic, 0): FAST for topic in TOPICS})


def slow_group(topic: str) -> str:
    return f"slow-{topic}"


def patient(kafka: EmbeddedKafka) -> KafkaCluster:
    """With a time-out that a test can wait for."""
    return connect(kafka.bootstrap_servers, socket_timeout_ms="3000")


class Forgetful(Retentiond):
    """Each cycle is its first one: no memory makes up for a group that it overlooks."""

    def first_cycle(
        self, before_guard: Callable[[], object] | None = None, kafka: Kafka | None = None
    ) -> CycleReport:
        shutil.rmtree(self.config.state_dir, ignore_errors=True)
        report = self.cycle(before_guard=before_guard, kafka=kafka)
        for row in report.plan.rows:
            assert report.plan.complete or row.reason is Reason.GROUP_LIST_INCOMPLETE
            assert deleted_up_to(report, row.topic) in (None, SLOW), row
        return report


def log_starts(kafka: EmbeddedKafka) -> set[int]:
    """Once each topic is led: elections are what these tests are about."""
    return {
        eventually(partial(log_start_if_led, kafka, topic), lambda start: start is not None) or 0
        for topic in TOPICS
    }
