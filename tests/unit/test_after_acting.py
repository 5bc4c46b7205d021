"""Cycles on a cluster in memory, whose brokers remove segments when they are told to.

A record takes 100 bytes; the brokers' sizes don't drop by themselves, as on a real disk.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from retentiond import cycle
from retentiond.after_acting import conclude
from retentiond.cycle import CycleContext, plan_cycle, run_cycle
from retentiond.disks.broker_disks import BrokerDisks
from retentiond.disks.stuck import Stuck
from retentiond.errors import StateError
from retentiond.fields import rfc3339
from retentiond.kafka.interface import LogDir, LogDirs, Replica
from retentiond.model import Failure, TopicPartition
from retentiond.state.audit_records import read_deletions
from retentiond.state.state import KEPT_NAME, KeptFile, open_state, read_kept, read_stored_state
from retentiond.tell.report import CycleReport
from tests.faults import plain_plan
from tests.support.builders.daemons import cycle_context, settings
from tests.support.builders.gather_worlds import entry
from tests.support.fakes import FakeCluster

AT = TopicPartition("orders", 0)
RECORD = 100
SEGMENT = 1000


class Disks(FakeCluster):
    """``kept_from``: the first record that is still on the brokers' disks."""

    def __init__(self) -> None:
        super().__init__(brokers=2)
        self.kept_from = 0
        self.failure: Exception | None = None
        self.create_topic("orders", 1, {"segment.bytes": str(SEGMENT)}, replication_factor=2)
        self.produce("orders", count=95)

    def log_dirs(self, _give_up: Callable[[], bool] = lambda: False) -> LogDirs:
        if self.failure:
            raise self.failure
        size = RECORD * (self.partition("orders").high_watermark - self.kept_from)
        directory = LogDir("/kafka", (Replica(*AT, size),))
        return LogDirs({1: [directory], 2: [directory]}, {AT: (1, 2)})

    def check(self) -> None:
        """The brokers remove the segments that lie wholly below the log start."""
        log_start = self.partition("orders").log_start
        self.kept_from = log_start // (SEGMENT // RECORD) * (SEGMENT // RECORD)


class Run:
    """A daemon that is restarted for each cycle."""

    def __init__(self, folder: Path) -> None:
        self.kafka = Disks()
        self.state_dir = folder / "state"
        self.disks = BrokerDisks()
        self.stop = threading.Event()
        self.config = settings(
            self.state_dir, schedule={}, dry_run=False, topics=[entry("orders", minutes=0)]
        )

    def cycle(self, committed: int) -> CycleReport:
        self.kafka.commit("billing", {AT: committed})
        self.kafka.advance(60_000)
        with open_state(self.state_dir) as state:
            return run_cycle(self._context(), self.config, state).report

    def plan(self, committed: int) -> CycleReport:
        self.kafka.commit("billing", {AT: committed})
        return plan_cycle(self._context(), self.config, read_stored_state(self.state_dir)).report

    def audited(self) -> list[tuple[int | None, int | None]]:
        """Bytes of each deletion, predicted and freed."""
        return [
            (each.row.predicted_bytes, each.freed_bytes) for each in read_deletions(self.state_dir)
        ]

    def _context(self) -> CycleContext:
        return cycle_context(self.kafka, stop=self.stop, disks=self.disks)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(cycle, "decide", plain_plan.decide)
    return Run(tmp_path)


def test_a_plan_tells_sizes_and_bytes_of_all_replicas(run: Run) -> None:
    report = run.plan(40)
    assert report.plan.rows[0].predicted_bytes == report.answers.predicted_bytes == 2 * 4000
    assert report.disk.size_bytes == {AT: 2 * 9500}


def test_what_is_freed_is_told_by_the_cycle_that_sees_it_and_kept_with_the_deletion(
    run: Run,
) -> None:
    assert run.cycle(40).disk.freed_bytes == {}
    assert run.audited() == [(8000, None)]
    run.kafka.check()
    assert run.cycle(40).disk.freed_bytes == {"orders": 8000}
    assert run.audited() == [(8000, 8000)]
    assert run.cycle(40).disk.freed_bytes == {}
    assert read_kept(run.state_dir).awaited == ()


def test_what_an_earlier_deletion_will_free_is_not_predicted_again(run: Run) -> None:
    run.cycle(40)
    report = run.plan(60)
    assert report.plan.rows[0].predicted_bytes == pytest.approx(2 * 2000, rel=0.1)


def test_where_the_disks_can_not_be_read_it_deletes_all_the_same_and_knows_no_bytes(
    run: Run,
) -> None:
    run.kafka.failure = ConnectionError("no answer")
    report = run.cycle(40)
    assert run.kafka.partition("orders").log_start == 40
    assert (report.answers.predicted_bytes, report.disk.size_bytes) == (None, {})
    assert report.disk.problems == ("the brokers' disks can't be read: ConnectionError: no answer",)
    run.kafka.failure = None
    run.kafka.check()
    assert run.cycle(40).disk.freed_bytes == {}
    assert run.audited() == [(None, None)]


def test_a_bug_on_the_disks_side_keeps_nothing_from_being_deleted(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(BrokerDisks, "reading", broken)
    monkeypatch.setattr(BrokerDisks, "stuck", broken)
    report = run.cycle(40)
    assert run.kafka.partition("orders").log_start == 40
    assert len(report.disk.problems) == 2
    assert "ZeroDivisionError" in report.disk.problems[0]


def test_a_deletion_that_is_no_longer_awaited_has_no_known_bytes(run: Run) -> None:
    run.cycle(40)
    (run.state_dir / KEPT_NAME).write_text("{")
    run.kafka.check()
    assert run.cycle(40).disk.freed_bytes == {}
    assert run.audited() == [(8000, None)]


def test_a_cycle_whose_awaited_bytes_can_not_be_written_has_failed_and_tells_what_it_did(
    run: Run,
) -> None:
    run.cycle(0)
    (run.state_dir / f"{KEPT_NAME}.new").mkdir()
    report = run.cycle(40)
    assert run.kafka.partition("orders").log_start == 40
    assert (report.result, report.records_deleted) == ("failed", 40)
    assert "can't be written" in str(report.failure)
    with pytest.raises(StateError, match="can't be written"):
        run.cycle(40)


def test_what_is_awaited_is_on_disk_before_kafka_is_asked_again(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka may take its time, and the process may be killed meanwhile."""
    cutoffs: list[int] = []

    def stuck(*_: object) -> tuple[Stuck, ...]:
        cutoffs.extend(each.cutoff for each in read_kept(run.state_dir).awaited)
        return ()

    monkeypatch.setattr(BrokerDisks, "stuck", stuck)
    run.cycle(40)
    assert cutoffs == [40, 40]


def test_a_dry_run_awaits_nothing(run: Run) -> None:
    run.config = run.config.model_copy(update={"dry_run": True})
    assert run.cycle(40).answers.predicted_bytes == 8000
    assert read_kept(run.state_dir).awaited == ()


def test_a_cycle_that_is_to_end_does_not_look_for_what_is_stuck(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would ask Kafka, while the end waits for what was deleted to be recorded."""

    def asks(*_: object) -> None:
        raise AssertionError("asked")

    monkeypatch.setattr(run.disks, "stuck", asks)
    assert run.cycle(0).disk.problems != ()

    def conclude_and_stop(*found: Any) -> Any:
        run.stop.set()
        return conclude(*found)

    monkeypatch.setattr(cycle, "conclude", conclude_and_stop)
    assert run.cycle(0).disk.problems == ()


@pytest.mark.long
def test_what_the_daemon_found_stuck_is_told_by_another_process_until_it_is_not(run: Run) -> None:
    week_ms = 7 * 24 * 3_600_000
    run.kafka.advance(2 * week_ms)
    daemon = run.disks
    for _ in range(4):
        run.kafka.advance(5 * 60_000)
        reports = run.cycle(0)
    (found,) = reports.disk.stuck

    def told_by_another() -> tuple[Stuck, ...]:
        run.disks = BrokerDisks()  # which has seen nothing yet
        return run.plan(0).disk.stuck_at(AT)

    (told,) = told_by_another()
    assert (told.at, told.cause) == (found.at, found.cause)
    at = rfc3339(reports.plan.planned_at_ms)
    assert told.sentence == f"{found.sentence} (as the daemon saw it at {at})"
    run.cycle(0)  # of a daemon just started, which can't tell yet
    assert told_by_another() == (told,)
    run.disks = daemon
    run.cycle(95)
    run.cycle(95)
    assert told_by_another() == ()
    assert read_kept(run.state_dir).stuck == ()


def test_what_is_stuck_and_can_not_be_written_is_told(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = KeptFile.keep

    def only_others(file: KeptFile, **values: Any) -> None:
        if "stuck" in values:
            raise StateError("cycle.json can't be written")
        keep(file, **values)

    monkeypatch.setattr(KeptFile, "keep", only_others)
    run.cycle(0)
    run.kafka.advance(2 * 7 * 24 * 3_600_000)
    for _ in range(3):
        run.kafka.advance(5 * 60_000)
        report = run.cycle(0)
    assert len(report.disk.stuck) == 1
    (problem,) = report.disk.problems
    assert "can't be written" in problem


def test_a_broker_that_is_not_read_is_said(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Disks, "log_dirs", lambda *_: LogDirs({1: Failure("DOWN", "no answer")}, {AT: (1,)})
    )
    assert run.plan(40).disk.problems == ("the disks of broker 1 can't be read: DOWN: no answer",)
