"""A partition explained, and a topic: figures, reasons, groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from retentiond.model import Reason, Verdict
from retentiond.tell.explanation import explained
from tests.support.builders.explained_plans import evidence, only, remember
from tests.support.builders.gather_worlds import HOUR_MS, ORDERS_1, config, entry, healthy
from tests.support.fakes import FakeCluster, Transaction


@pytest.fixture
def kafka() -> FakeCluster:
    """`healthy`, where every reader of ``orders`` has committed on all of it."""
    kafka = healthy()
    kafka.commit("search", {ORDERS_1: 6})
    return kafka


def test_the_end_is_what_is_decided(kafka: FakeCluster, tmp_path: Path) -> None:
    kafka.produce("orders", 0, 3, transaction=Transaction())
    assert only(evidence(kafka, tmp_path), "orders").end == 6


def test_partitions_are_put_together_by_reason_the_most_first(
    kafka: FakeCluster, tmp_path: Path
) -> None:
    kafka.create_topic("wide", 5)
    for partition in range(5):
        kafka.produce("wide", partition, 4, timestamp_ms=kafka.now_ms - 2 * HOUR_MS)
    kafka.commit("billing", {("wide", number): 4 for number in (0, 1, 3)})
    kafka.commit("billing", {("wide", 4): 0})
    alike = explained(evidence(kafka, tmp_path, config(entry("wide"))), "wide").reasons
    assert [
        (each.first.verdict, each.first.reason, each.numbers, each.records) for each in alike
    ] == [
        (Verdict.DELETE, Reason.CONSUMED, (0, 1, 3), 12),
        (Verdict.HOLD, Reason.GROUP_WITHOUT_COMMIT, (2,), 0),
        (Verdict.NOTHING, Reason.NOT_CONSUMED, (4,), 0),
    ]
    assert alike[1].binding_groups == ("billing",)


def test_groups_are_put_together_over_the_partitions_those_that_bind_first(
    kafka: FakeCluster, tmp_path: Path
) -> None:
    began_ms = kafka.now_ms
    remember(kafka, tmp_path)
    kafka.advance(HOUR_MS)
    kafka.commit("billing", {ORDERS_1: 5})
    remember(kafka, tmp_path)
    kafka.advance(HOUR_MS)
    billing, search = explained(evidence(kafka, tmp_path), "orders").groups
    assert (billing.group_id, search.group_id) == ("billing", "search")
    assert (billing.lag, search.lag) == (3 + 1, 1 + 0)
    assert (billing.binds, search.binds) == ((0, 1), ())
    assert (billing.kept_records, search.kept_records) == (4, 0)
    assert (billing.kept_bytes, search.kept_bytes) == (None, 0)  # the disks are unread
    assert billing.stands_since_ms == began_ms  # on partition 0, where it is stuck
