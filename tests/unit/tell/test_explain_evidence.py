"""What an explanation is made from: what is asked beside the plan, and the groups that count."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

from retentiond.errors import KafkaUnavailable, UsageError
from retentiond.memory.remembered import NOTHING
from retentiond.model import Failure
from retentiond.tell.explained_evidence import Ahead, partitions_at, topic_readers
from retentiond.tell.explained_evidence import evidence as gathered
from tests.support import oracle
from tests.support.builders.explained_plans import alone, evidence, only
from tests.support.builders.gather_worlds import (
    CLICKS_0,
    HOUR_MS,
    ORDERS_0,
    ORDERS_1,
    config,
    entry,
    healthy,
)
from tests.support.builders.group_memories import taken
from tests.support.builders.guard_readings import Reading
from tests.support.builders.reports import report
from tests.support.fakes import BrokerState, FakeCluster
from tests.support.strategies import worlds


@pytest.fixture
def kafka() -> FakeCluster:
    return healthy()


def test_a_topic_has_all_its_partitions_or_the_one_that_is_named(kafka: FakeCluster) -> None:
    snapshot = taken(kafka)
    assert partitions_at(snapshot, "orders", None) == (ORDERS_0, ORDERS_1)
    assert partitions_at(snapshot, "orders", 1) == (ORDERS_1,)


@pytest.mark.parametrize(
    ("topic", "partition", "sentence"),
    [
        ("nowhere", None, "there is no topic nowhere in the cluster, or this principal may not"),
        ("orders", 2, "topic orders has no partition 2, only 0 to 1"),
        ("clicks", 7, "topic clicks has no partition 7, only 0"),
    ],
)
def test_what_is_not_there_is_an_error_of_the_command(
    kafka: FakeCluster, topic: str, partition: int | None, sentence: str
) -> None:
    with pytest.raises(UsageError) as refused:
        partitions_at(taken(kafka), topic, partition)
    assert str(refused.value).startswith(sentence)


def test_of_a_topic_whose_metadata_is_unread_the_row_that_it_has_can_be_explained(
    kafka: FakeCluster,
) -> None:
    kafka.fail("describe_topics", "orders", Failure("TOPIC_AUTHORIZATION_FAILED", "no"))
    with pytest.raises(KafkaUnavailable, match="TOPIC_AUTHORIZATION_FAILED"):
        partitions_at(taken(kafka), "orders", 1)
    assert partitions_at(taken(kafka), "orders", None) == (ORDERS_0,)


def test_only_the_partitions_asked_about_are_searched_for_records_of_the_future(
    kafka: FakeCluster,
) -> None:
    for at in (ORDERS_0, CLICKS_0):
        kafka.produce(at.topic, 0, 1, timestamp_ms=kafka.now_ms + 2 * HOUR_MS)
    found = gathered(kafka, report(), taken(kafka), NOTHING, [ORDERS_0])
    assert found.ahead == {ORDERS_0: Ahead(6, HOUR_MS)}


def test_a_cluster_that_falls_silent_still_has_an_explanation(
    kafka: FakeCluster, tmp_path: Path
) -> None:
    before = evidence(kafka, tmp_path)
    for broker in kafka.brokers:
        kafka.brokers[broker] = BrokerState.DEAD
    planned = report(before.report.plan.rows)
    found = gathered(kafka, planned, before.snapshot, before.remembered, [ORDERS_0])
    assert found.ahead == {}
    assert only(found, "orders").on_disk


@pytest.mark.long
@given(worlds())
def test_as_many_groups_count_as_the_plan_says(world: Reading) -> None:
    snapshot = world.snapshot()
    for row in oracle.plan(snapshot):
        counting, _ = topic_readers(snapshot, NOTHING, row.topic)
        assert len(counting) == row.groups


def test_each_group_says_why_it_counts(kafka: FakeCluster, tmp_path: Path) -> None:
    kafka.fail("commits", "stranger", Failure("GROUP_AUTHORIZATION_FAILED", "no"))
    policy = config(entry("clicks", groups={"required": ["billing", "pipeline"]}))
    groups = alone(evidence(kafka, tmp_path, policy), "clicks").groups
    traces = {each.group_id: each.reader.trace for each in groups}
    assert traces == {
        "billing": "is required by the policy",
        "newcomer": "is subscribed to the topic",
        "pipeline": "commits on the topic",
        "search": "commits on the topic",
        "stranger": "can't be read, so it may read any topic",
    }
