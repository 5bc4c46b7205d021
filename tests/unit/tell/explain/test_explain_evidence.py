"""What is asked beside the plan, and what is not there to be explained."""

from __future__ import annotations

from pathlib import Path

import pytest

from retentiond.errors import KafkaUnavailable, UsageError
from retentiond.memory.remembered import NOTHING
from retentiond.model import Failure
from retentiond.tell.explain.evidence import Ahead, partitions_at
from retentiond.tell.explain.evidence import evidence as gathered
from tests.support.builders.explained_plans import evidence, only
from tests.support.builders.gather_worlds import CLICKS_0, HOUR_MS, ORDERS_0, ORDERS_1, healthy
from tests.support.builders.group_memories import taken
from tests.support.builders.reports import report
from tests.support.fakes import BrokerState, FakeCluster


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


def test_a_cluster_that_falls_silent_leaves_the_explanation_without_its_brokers(
    kafka: FakeCluster, tmp_path: Path
) -> None:
    before = evidence(kafka, tmp_path)
    for broker in kafka.brokers:
        kafka.brokers[broker] = BrokerState.DEAD
    planned = report(before.report.plan.rows)
    found = gathered(kafka, planned, before.snapshot, before.remembered, [ORDERS_0])
    assert (found.brokers, found.ahead) == ({}, {})
    assert only(found, "orders").on_disk[-1].endswith("as far as they tell.")
