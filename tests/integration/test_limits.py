"""Limits on a real broker: whoever is left out comes first next time, after a restart as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from retentiond.tell.report import CycleReport
from tests.contract.real import RealDriver
from tests.support.brokers.cycles import Retentiond, deleted_up_to

pytestmark = pytest.mark.broker


@pytest.fixture
def busy(driver: RealDriver, topic_name: str) -> list[str]:
    """Three topics, and one group that keeps up with all of them."""
    topics = [f"{topic_name}-{letter}" for letter in "abc"]
    for topic in topics:
        driver.create_topic(topic)
    return topics


def read_on(driver: RealDriver, topics: list[str], end: int) -> None:
    for topic in topics:
        driver.produce(topic, [driver.now_ms] * 2)
        driver.commit(f"readers-of-{topics[0]}", {(topic, 0): end})


def touched(report: CycleReport, topics: list[str]) -> list[str]:
    return [topic[-1] for topic in topics if deleted_up_to(report, topic) is not None]


def test_every_busy_topic_has_its_turn_under_a_limit_of_one_partition(
    driver: RealDriver, tmp_path: Path, busy: list[str]
) -> None:
    """A `Retentiond` opens its state again for each cycle, as a restart does."""
    retentiond = Retentiond(driver.kafka, tmp_path, *busy, limits={"partitions_per_cycle": 1})
    turns = []
    for cycle in range(1, 5):
        read_on(driver, busy, 2 * cycle)
        turns += touched(retentiond.cycle(), busy)
    assert turns == ["a", "b", "c", "a"]
