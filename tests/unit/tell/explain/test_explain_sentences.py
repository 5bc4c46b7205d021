"""What is said of the disks, and of timestamps where something is proven of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from retentiond.disks.broker_disks import NO_DISKS, DiskReport
from retentiond.disks.stuck import Stuck, StuckCause
from retentiond.kafka.interface import TopicConfig
from retentiond.model import Failure, Reason, TopicPartition
from retentiond.tell.explain.evidence import dated_ahead
from retentiond.tell.explain.sentences import (
    Ahead,
    on_disk,
    stalled_by,
)
from retentiond.tell.figures.answers import PartitionAnswer
from tests.support.builders.explained_plans import evidence, only, remember
from tests.support.builders.gather_worlds import HOUR_MS, config, entry
from tests.support.builders.reports import row
from tests.support.fakes import FakeCluster

ORDERS = TopicPartition("orders", 0)

DELETES = frozenset({"delete"})

CONFIG = TopicConfig(DELETES, None, None, 2**30, 7 * 86_400_000)


def sentences(
    predicted: int | None,
    size: int | None,
    config: TopicConfig | None = CONFIG,
) -> list[str]:
    disk = NO_DISKS if size is None else DiskReport({ORDERS: size})
    answer = PartitionAnswer(replace(row("orders"), predicted_bytes=predicted), disk)
    return list(on_disk(answer, config))


def test_a_deletion_says_what_it_frees_of_what_is_there_and_when() -> None:
    assert sentences(3 * 2**30, 4 * 2**30) == [
        "It takes 4.0 GiB on the disks of all replicas.",
        "Deleting up to the cutoff frees about 3.0 GiB: a broker frees whole segments that are "
        "deleted to their last record, and never the one that it writes to; a segment holds up "
        "to 1.0 GiB, or what arrives in 7 days (segment.bytes, segment.ms).",
        "The brokers free it when they have next looked at their logs "
        "(log.retention.check.interval.ms) and waited (file.delete.delay.ms).",
    ]


def test_a_deletion_within_one_segment_frees_nothing_yet() -> None:
    _, freed, _ = sentences(0, 5_000)
    assert freed.startswith("Deleting up to the cutoff frees no disk space yet: a broker frees")


def test_what_is_not_known_is_said_to_be_so() -> None:
    size, freed, _ = sentences(None, None)
    assert size == "How much it takes on disk is not known."
    assert freed == "What deleting up to the cutoff would free is not known."
    disk = DiskReport(problems=("the disks of broker 2 can't be read: DOWN",))
    size, *_ = on_disk(PartitionAnswer(row("orders"), disk), CONFIG)
    assert size == (
        "How much it takes on disk is not known: the disks of broker 2 can't be read: DOWN."
    )


def test_segments_of_a_topic_whose_configs_are_unread_have_no_size() -> None:
    _, freed, _ = sentences(1024, 5_000, None)
    assert freed.endswith("and never the one that it writes to.")


@pytest.mark.parametrize("reason", [Reason.NO_GROUP, Reason.TOO_YOUNG])
def test_where_nothing_is_deleted_nothing_is_freed(reason: Reason) -> None:
    answer = PartitionAnswer(row("orders", reason=reason), DiskReport({ORDERS: 10}))
    found = list(on_disk(answer, CONFIG))
    assert found == [
        "It takes 10 B on the disks of all replicas.",
        "As it stands, nothing is deleted, and nothing is freed.",
    ]


def test_retention_that_is_stuck_is_said_last() -> None:
    stuck = Stuck(ORDERS, StuckCause.FUTURE_REPLICA, "A move to /b stands still.")
    disk = DiskReport({ORDERS: 10}, stuck=(stuck,))
    assert (
        list(on_disk(PartitionAnswer(row("orders"), disk), CONFIG))[-1]
        == "A move to /b stands still."
    )


DAY_MS = 24 * HOUR_MS

POLICY = config(entry("orders"))
"""An hour."""


@pytest.fixture
def kafka() -> FakeCluster:
    kafka = FakeCluster()
    kafka.create_topic("orders")
    return kafka


def later(kafka: FakeCluster, state_dir: Path, *, minutes: int, records_dated_ms: int = 0) -> None:
    """Time passes, with ten records at its end and a cycle after them."""
    kafka.advance(minutes * 60_000)
    kafka.produce("orders", 0, 10, timestamp_ms=kafka.now_ms + records_dated_ms)
    remember(kafka, state_dir, POLICY)


def said(kafka: FakeCluster, state_dir: Path) -> tuple[str, ...]:
    kafka.commit("billing", {ORDERS: 0})
    return only(evidence(kafka, state_dir, POLICY), "orders").ages


def test_a_record_from_the_future_stalls_and_says_by_how_much(
    kafka: FakeCluster, tmp_path: Path
) -> None:
    later(kafka, tmp_path, minutes=5)
    kafka.produce("orders", 0, 1, timestamp_ms=kafka.now_ms + 40 * DAY_MS)
    later(kafka, tmp_path, minutes=5)
    (sentence,) = said(kafka, tmp_path)
    assert sentence.startswith(
        "The record at offset 10 is dated more than 30 days in the future: no cutoff passes it "
        "until its timestamp is 1 hour old."
    )


def test_under_a_consumed_retention_of_0_age_is_no_bound(
    kafka: FakeCluster, tmp_path: Path
) -> None:
    kafka.produce("orders", 0, 1, timestamp_ms=kafka.now_ms + DAY_MS)
    kafka.commit("billing", {ORDERS: 0})
    policy = config(entry("orders", minutes=0))
    assert only(evidence(kafka, tmp_path, policy), "orders").ages == ()


def test_the_first_record_ahead_is_measured_and_not_a_later_one(kafka: FakeCluster) -> None:
    kafka.produce("orders", 0, 1, timestamp_ms=kafka.now_ms + 2 * HOUR_MS)
    kafka.produce("orders", 0, 1, timestamp_ms=kafka.now_ms + 400 * DAY_MS)
    assert dated_ahead(kafka, [ORDERS], kafka.now_ms) == {ORDERS: Ahead(0, HOUR_MS)}


def test_of_a_tiered_topic_no_record_ahead_is_looked_for(
    kafka: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer may be a lower offset there, which is not dated ahead."""
    kafka.produce("orders", 0, 1, timestamp_ms=kafka.now_ms + DAY_MS)
    settings = kafka.topic_configs(["orders"])["orders"]
    assert isinstance(settings, TopicConfig)
    tiered = replace(settings, remote_storage=True)
    assert evidence(kafka, tmp_path).ahead
    monkeypatch.setattr(kafka, "topic_configs", lambda names: dict.fromkeys(names, tiered))
    assert not evidence(kafka, tmp_path).ahead


def test_a_partition_whose_look_up_fails_is_left_out(kafka: FakeCluster) -> None:
    kafka.fail("offsets_at", ORDERS, Failure("TIMED_OUT", "no answer"))
    assert dated_ahead(kafka, [ORDERS], kafka.now_ms) == {}
    assert dated_ahead(kafka, [], kafka.now_ms) == {}


def test_a_record_that_is_a_year_ahead_says_so() -> None:
    assert "more than 365 days in the future" in stalled_by(Ahead(7, 365 * DAY_MS), HOUR_MS)
