"""A streams group on a real broker: it counts like every other reader."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from devkit.embedded import EmbeddedKafka
from retentiond.collect.snapshot import Snapshot
from retentiond.kafka.port import GroupMembers
from retentiond.model import GroupKind, Reason, TopicPartition, Verdict
from retentiond.plan.plan import decide
from retentiond.plan.session import SparkSessions
from tests.contract.real import RealDriver
from tests.integration.gathering import HOUR_MS, commits, groups, policy, snapshot
from tests.integration.streams_app import copying
from tests.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark]


@pytest.fixture
def driver(kafka: EmbeddedKafka) -> Iterator[RealDriver]:
    with closing(RealDriver(kafka)) as made:
        yield made


def test_a_streams_group_bounds_what_it_reads_like_any_other(
    kafka: EmbeddedKafka,
    driver: RealDriver,
    spark: SparkSessions,
    topic_name: str,
    tmp_path: Path,
) -> None:
    copy = f"{topic_name}-copy"
    driver.create_topic(topic_name, partitions=2)
    driver.create_topic(copy)
    driver.produce(topic_name, [driver.now_ms - 2 * HOUR_MS] * 7)
    config = policy(topic_name)

    def taken() -> Snapshot:
        return snapshot(driver.kafka, config)

    with copying(kafka, topic_name, topic_name, copy, tmp_path):
        eventually(
            lambda: commits(taken()).get((topic_name, TopicPartition(topic_name, 0))),
            lambda offset: offset == 7,
        )
        reading = groups(taken())[topic_name]
        assert (reading.kind, reading.failure) == (GroupKind.STREAMS, None)
        members = driver.kafka.members(
            [group for group in driver.kafka.list_groups() if group.group_id == topic_name]
        )
        assert members == {topic_name: GroupMembers(frozenset({topic_name}))}
        driver.produce(topic_name, [driver.now_ms - 2 * HOUR_MS] * 3, partition=1)
        eventually(
            lambda: commits(taken()).get((topic_name, TopicPartition(topic_name, 1))),
            lambda offset: offset == 3,
        )

    first, second = decide(spark, taken())
    assert (first.verdict, first.cutoff, first.binding_group) == (Verdict.DELETE, 7, topic_name)
    assert (second.verdict, second.cutoff) == (Verdict.DELETE, 3)


def test_a_streams_group_without_a_commit_holds_what_its_topology_reads(
    kafka: EmbeddedKafka,
    driver: RealDriver,
    spark: SparkSessions,
    topic_name: str,
    tmp_path: Path,
) -> None:
    copy = f"{topic_name}-copy"
    driver.create_topic(topic_name)
    driver.create_topic(copy)
    config = policy(topic_name)
    with copying(kafka, topic_name, topic_name, copy, tmp_path):
        eventually(
            lambda: groups(snapshot(driver.kafka, config)).get(topic_name),
            lambda group: group is not None and group.state == "Stable",
        )
    # It ended before there was anything to read, and what it reads is still its topology.
    driver.produce(topic_name, [driver.now_ms - 2 * HOUR_MS] * 4)

    (row,) = decide(spark, snapshot(driver.kafka, config))

    assert (row.verdict, row.reason) == (Verdict.HOLD, Reason.GROUP_WITHOUT_COMMIT)
    assert row.binding_group == topic_name
