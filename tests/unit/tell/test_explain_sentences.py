"""What is said of the disks, and of timestamps where something is proven of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from retentiond.disks.broker_disks import NO_DISKS, DiskReport
from retentiond.disks.stuck import Stuck, StuckCause
from retentiond.kafka.interface import TopicConfig
from retentiond.model import Failure, PlanRow, Reason, TopicPartition
from retentiond.tell.explained_evidence import Ahead, dated_ahead
from retentiond.tell.explanation import TIERED, explained, on_disk, stalled_by
from retentiond.tell.figures.answers import PartitionAnswer
from tests.support.builders.explained_plans import evidence, only, remember
from tests.support.builders.gather_worlds import HOUR_MS, config, entry
from tests.support.builders.reports import row
from tests.support.fakes import FakeCluster
from tests.support.golden import Golden

ORDERS = TopicPartition("orders", 0)

GIB = 2**30

CONFIG = TopicConfig(frozenset({"delete"}), None, None, GIB, 7 * 86_400_000)


def test_a_partition_says_what_it_takes_on_disk_and_what_a_deletion_frees_and_when(
    golden: Golden,
) -> None:
    """tests/golden/explain: also where configs, prediction or disks are unread, and where nothing
    is deleted; what is stuck comes last."""
    planned = row("orders")
    stuck = Stuck(*ORDERS, StuckCause.FUTURE_REPLICA, "A move to /b stands still.")
    silent = DiskReport(problems=("the disks of broker 2 can't be read: DOWN",))
    held = DiskReport({ORDERS: 10}, stuck=(stuck,))
    cases: dict[str, tuple[PlanRow, DiskReport, TopicConfig | None]] = {
        "segments": (
            replace(planned, predicted_bytes=3 * GIB),
            DiskReport({ORDERS: 4 * GIB}),
            CONFIG,
        ),
        "less than one": (replace(planned, predicted_bytes=0), DiskReport({ORDERS: 5_000}), CONFIG),
        "no configs": (replace(planned, predicted_bytes=1024), DiskReport({ORDERS: 5_000}), None),
        "no sizes": (planned, NO_DISKS, CONFIG),
        "a silent broker": (planned, silent, CONFIG),
        "a hold": (row("orders", reason=Reason.NO_GROUP), held, CONFIG),
        "too young": (row("orders", reason=Reason.TOO_YOUNG), held, CONFIG),
    }
    told = [
        "\n".join([f"=== {title}", *on_disk(PartitionAnswer(planned, disk), config), ""])
        for title, (planned, disk, config) in cases.items()
    ]
    golden("explain/on-disk.txt", "\n".join(told))


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


def test_of_a_tiered_topic_it_is_said_that_remote_storage_is_not_counted(
    kafka: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert TIERED not in only(evidence(kafka, tmp_path), "orders").on_disk
    settings = kafka.topic_configs(["orders"])["orders"]
    assert isinstance(settings, TopicConfig)
    tiered = replace(settings, remote_storage=True)
    monkeypatch.setattr(kafka, "topic_configs", lambda names: dict.fromkeys(names, tiered))
    of_topic = explained(evidence(kafka, tmp_path), "orders")
    assert of_topic.is_tiered
    assert all(TIERED in partition.on_disk for partition in of_topic.partitions)


def test_a_partition_whose_look_up_fails_is_left_out(kafka: FakeCluster) -> None:
    kafka.fail("offsets_at", ORDERS, Failure("TIMED_OUT", "no answer"))
    assert dated_ahead(kafka, [ORDERS], kafka.now_ms) == {}
    assert dated_ahead(kafka, [], kafka.now_ms) == {}


def test_a_record_that_is_a_year_ahead_says_so() -> None:
    assert "more than 365 days in the future" in stalled_by(Ahead(7, 365 * DAY_MS), HOUR_MS)
