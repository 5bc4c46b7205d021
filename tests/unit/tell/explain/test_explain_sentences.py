"""What is said of the disks, and of timestamps where something is proven of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from retentiond.disks.broker_disks import NO_DISKS, DiskReport
from retentiond.disks.stuck import Stuck, StuckCause
from retentiond.kafka.interface import TopicConfig
from retentiond.model import Failure, PlanRow, Reason, TopicPartition
from retentiond.tell.explain.evidence import Ahead, dated_ahead
from retentiond.tell.explain.explanation import on_disk, stalled_by
from retentiond.tell.figures.answers import PartitionAnswer
from tests.support.builders.explained_plans import evidence, only, remember
from tests.support.builders.gather_worlds import HOUR_MS, config, entry
from tests.support.builders.reports import row
from tests.support.fakes import FakeCluster

ORDERS = TopicPartition("orders", 0)

DELETES = frozenset({"delete"})

CONFIG = TopicConfig(DELETES, None, None, 2**30, 7 * 86_400_000)


SIZE = "on the disks of all replicas."
FREES = "Deleting up to the cutoff frees"
UNKNOWN = "How much it takes on disk is not known"
WHOLE = (
    "a broker frees whole segments that are deleted to their last record, and never the one that "
    "it writes to"
)
SEGMENT = "a segment holds up to 1.0 GiB, or what arrives in 7 days (segment.bytes, segment.ms)"
WHEN = (
    "The brokers free it when they have next looked at their logs "
    "(log.retention.check.interval.ms) and waited (file.delete.delay.ms)."
)
NOTHING = "As it stands, nothing is deleted, and nothing is freed."
SILENT = "the disks of broker 2 can't be read: DOWN"
STUCK = Stuck(ORDERS, StuckCause.FUTURE_REPLICA, "A move to /b stands still.")


def deletes(predicted: int | None) -> PlanRow:
    return replace(row("orders"), predicted_bytes=predicted)


@pytest.mark.parametrize(
    ("planned", "disk", "config", "said"),
    [
        (
            deletes(3 * 2**30),
            DiskReport({ORDERS: 4 * 2**30}),
            CONFIG,
            [f"It takes 4.0 GiB {SIZE}", f"{FREES} about 3.0 GiB: {WHOLE}; {SEGMENT}.", WHEN],
        ),
        # All of it lies within one segment.
        (
            deletes(0),
            DiskReport({ORDERS: 5_000}),
            CONFIG,
            [f"It takes 4.9 KiB {SIZE}", f"{FREES} no disk space yet: {WHOLE}; {SEGMENT}.", WHEN],
        ),
        # The topic's configs, the prediction or the disks are unread.
        (
            deletes(1024),
            DiskReport({ORDERS: 5_000}),
            None,
            [f"It takes 4.9 KiB {SIZE}", f"{FREES} about 1.0 KiB: {WHOLE}.", WHEN],
        ),
        (
            deletes(None),
            NO_DISKS,
            CONFIG,
            [f"{UNKNOWN}.", "What deleting up to the cutoff would free is not known.", WHEN],
        ),
        (
            deletes(None),
            DiskReport(problems=(SILENT,)),
            CONFIG,
            [
                f"{UNKNOWN}: {SILENT}.",
                "What deleting up to the cutoff would free is not known.",
                WHEN,
            ],
        ),
        # Where nothing is deleted, nothing is freed; what is stuck comes last.
        *(
            (
                row("orders", reason=reason),
                DiskReport({ORDERS: 10}, stuck=(STUCK,)),
                CONFIG,
                [f"It takes 10 B {SIZE}", NOTHING, STUCK.sentence],
            )
            for reason in (Reason.NO_GROUP, Reason.TOO_YOUNG)
        ),
    ],
)
def test_a_partition_says_what_it_takes_on_disk_and_what_a_deletion_frees_and_when(
    planned: PlanRow, disk: DiskReport, config: TopicConfig | None, said: list[str]
) -> None:
    assert list(on_disk(PartitionAnswer(planned, disk), config)) == said


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
