"""Limits on a real broker: whoever is left out comes first next time, after a restart as well."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from retentiond.errors import KafkaUnavailable
from retentiond.kafka.interface import Kafka
from retentiond.model import Outcome
from retentiond.tell.report import CycleReport
from tests.contract.real import RealDriver
from tests.faults.held import log_start
from tests.support.brokers.cycles import (
    NO_SPARK,
    Retentiond,
    deleted_up_to,
    planned_by_the_oracle,
)

pytestmark = pytest.mark.broker


@pytest.fixture
def busy(driver: RealDriver, topic_name: str) -> Iterator[list[str]]:
    """Three topics, and one group that keeps up with all of them."""
    topics = [f"{topic_name}-{letter}" for letter in "abc"]
    for topic in topics:
        driver.create_topic(topic)
    with planned_by_the_oracle():
        yield topics


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
    retentiond = Retentiond(
        driver.kafka, NO_SPARK, tmp_path, *busy, limits={"partitions_per_cycle": 1}
    )
    turns = []
    for cycle in range(1, 5):
        read_on(driver, busy, 2 * cycle)
        turns += touched(retentiond.cycle(), busy)
    assert turns == ["a", "b", "c", "a"]


def test_a_batch_that_came_too_late_goes_first_in_the_next_cycle(
    driver: RealDriver,
    tmp_path: Path,
    busy: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of slices of one partition only the first is in time, in every cycle."""
    monkeypatch.setattr("retentiond.act.slices.MOST_PARTITIONS", 1)
    retentiond = Retentiond(driver.kafka, NO_SPARK, tmp_path, *busy)

    turns = []
    for cycle in range(1, 4):
        read_on(driver, busy, 2 * cycle)
        kafka: Any = _OnlyOnce(driver.kafka)
        report = retentiond.cycle(kafka=kafka)
        outcomes = [each.outcome for each in report.outcomes.values()]
        assert sorted(outcomes) == [Outcome.DELETED, Outcome.NOT_ATTEMPTED, Outcome.NOT_ATTEMPTED]
        turns += touched(report, busy)
    assert turns == ["a", "b", "c"]
    assert [log_start(driver.broker, topic) for topic in busy] == [2, 4, 6]


class _OnlyOnce:
    """A cluster that can't be looked at any more after its first deletion."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._has_deleted = False

    def __getattr__(self, name: str) -> object:
        if name == "look_before_deleting" and self._has_deleted:
            raise KafkaUnavailable("nobody answers")
        self._has_deleted |= name == "delete_records"
        return getattr(self._kafka, name)
