"""Timestamps and clocks that lie, on a real broker.

The age guards a record only as far as its timestamp tells the truth. Where it does not, the
bound errs to the side of keeping; records that are all dated back are bound by consumption alone.
What a look-up says of records without a timestamp, or behind deleted ones, is the contract suite's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.contract.real import RealDriver
from tests.faults.held import log_start
from tests.support.brokers.command import consumed
from tests.support.brokers.cycles import Retentiond, Told, deleted_up_to, row_of, told
from tests.support.builders.gather_worlds import HOUR_MS

pytestmark = pytest.mark.broker

MINUTE_MS = HOUR_MS // 60

ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1), "retention.ms": "-1"}
"""Kafka refuses records that are dated an hour ahead by default, and lets old ones go."""


class Aged:
    """Topics with records of chosen ages, all of them read; they can be deleted after an hour."""

    def __init__(self, driver: RealDriver, folder: Path, name: str) -> None:
        self._driver = driver
        self._folder = folder
        self._name = name
        self.topics: list[str] = []

    def topic(self, *ages_minutes: int, config: Mapping[str, str] = ANY_TIME) -> str:
        """With a record of each age in that order; a negative one lies ahead."""
        topic = f"{self._name}-{len(self.topics)}"
        self._driver.create_topic(topic, config=config)
        now = self._driver.now_ms
        self._driver.produce(topic, [now - age * MINUTE_MS for age in ages_minutes])
        self._driver.commit(f"readers-of-{self._name}", {(topic, 0): len(ages_minutes)})
        self.topics.append(topic)
        return topic

    def retentiond(self) -> Retentiond:
        hour = [consumed(topic) | {"retention.commitoffset.ms": HOUR_MS} for topic in self.topics]
        return Retentiond(self._driver.kafka, self._folder, *hour)

    def log_start(self, topic: str) -> int:
        return log_start(self._driver.broker, topic)


@pytest.fixture
def aged(driver: RealDriver, tmp_path: Path, topic_name: str) -> Aged:
    return Aged(driver, tmp_path, topic_name)


def test_no_record_is_deleted_behind_the_first_one_that_says_it_is_young(aged: Aged) -> None:
    stalled = aged.topic(-600, 120, 120, 120)
    after_two = aged.topic(120, 120, -600, 120)
    out_of_order = aged.topic(120, 90, 5, 120, 120)
    arrived_now = aged.topic(
        120, 120, config={**ANY_TIME, "message.timestamp.type": "LogAppendTime"}
    )
    imported = aged.topic(600_000, 600_000, 600_000)
    report = aged.retentiond().cycle()

    sentence = "the oldest record is dated less than 1 hour ago, or in the future"
    young = Told("nothing", "too_young", sentence)
    assert told(report, stalled) == young
    assert row_of(report, stalled).retention_offset == 0

    assert told(report, after_two) == Told("delete", "consumed", "records from 2 on are too young")
    assert told(report, out_of_order) == told(report, after_two)

    assert told(report, arrived_now) == young

    assert told(report, imported) == Told(
        "delete", "consumed", "everything older than the consumed retention is consumed"
    )
    assert [aged.log_start(topic) for topic in aged.topics] == [0, 2, 2, 0, 3]


def test_a_host_whose_clock_jumps_by_an_hour_deletes_nothing_that_is_young(
    aged: Aged, driver: RealDriver
) -> None:
    """Records of 30 and of 90 minutes: a host an hour ahead takes both for old, one an hour
    behind takes neither; the broker's clock tells the truth to the former."""
    topic = aged.topic(90, 30)
    retentiond = aged.retentiond()

    behind = retentiond.cycle(now=lambda: driver.now_ms - HOUR_MS)
    assert told(behind, topic).reason == "too_young"
    assert aged.log_start(topic) == 0

    ahead = retentiond.cycle(now=lambda: driver.now_ms + HOUR_MS)
    assert deleted_up_to(ahead, topic) == aged.log_start(topic) == 1
    assert told(retentiond.cycle(), topic).reason == "too_young"
