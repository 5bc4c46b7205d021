"""``limits.worthwhile``: what would free too little waits, and never for ever."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from retentiond import cycle
from retentiond.clock import Uptime
from retentiond.config import Limits, Worthwhile
from retentiond.cycle import plan_cycle, run_cycle
from retentiond.decide.limits import Wait, if_worthwhile, in_order, waits
from retentiond.disks.broker_disks import BrokerDisks
from retentiond.formatting import HOUR_MS, MINUTE_MS
from retentiond.kafka.interface import LogDir, LogDirs, Replica
from retentiond.model import Outcome, PlanRow, Reason, TopicPartition, Verdict
from retentiond.state.operator_actions import PAUSE_NAME, Pause, write_pause
from retentiond.state.state import open_state, read_kept, read_stored_state
from retentiond.tell.report import CycleReport, row_document
from tests.faults import plain_plan
from tests.support.builders.daemons import cycle_context, settings
from tests.support.builders.gather_worlds import entry
from tests.support.builders.guard_readings import deletion
from tests.support.fakes import FakeCluster, HowDeletionEnds

AT = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)
RULE = Worthwhile.model_validate({"bytes": 1000, "after": "1h"})


def frees(local: int, at: TopicPartition = AT) -> dict[TopicPartition, int]:
    return {at: local}


def wait(minutes: int, at: TopicPartition = AT) -> Wait:
    return Wait(*at, deletion(at).topic_id, 0, minutes * MINUTE_MS)


@pytest.mark.parametrize(
    ("freed", "waited", "goes"),
    [
        (frees(999), wait(0), False),
        (frees(0), wait(59), False),
        (frees(1000), wait(0), True),
        (frees(0), wait(60), True),
        ({}, wait(0), True),  # unknown bytes don't wait
    ],
)
def test_what_frees_too_little_waits_for_so_long(
    freed: Mapping[TopicPartition, int], waited: Wait, goes: bool
) -> None:
    row = deletion(AT)
    (found,) = if_worthwhile((row,), RULE, freed, (waited,))
    if goes:
        assert found == row
    else:
        assert (found.verdict, found.reason) == (Verdict.NOTHING, Reason.NOT_WORTHWHILE)
        assert (found.records, found.cutoff) == (row.records, row.cutoff)
        assert found.predicted_bytes == row_document(found)["predicted_bytes"] == freed[AT]


def test_a_row_that_waits_says_since_when_and_for_how_long_yet() -> None:
    (row,) = if_worthwhile((deletion(AT),), RULE, frees(12), (wait(15),))
    assert row.detail == (
        "90 records could go since 1970-01-01T00:00:00.000Z, and would free 12 B, less than "
        "limits.worthwhile.bytes (1000 B): the deletion waits until it frees as much, for another "
        "45 minutes at most"
    )


def test_nothing_waits_on_a_disk_under_pressure() -> None:
    row = replace(deletion(AT), under_pressure=True)
    assert if_worthwhile((row,), RULE, frees(0), (wait(0),)) == (row,)


def test_holds_are_left_alone() -> None:
    held = replace(deletion(AT), verdict=Verdict.HOLD, reason=Reason.LIMIT_REACHED, records=0)
    assert if_worthwhile((held,), RULE, frees(0), (wait(0),)) == (held,)


HELD = replace(deletion(AT), verdict=Verdict.HOLD, reason=Reason.GROUP_LIST_INCOMPLETE)
UNREADABLE = replace(HELD, reason=Reason.OFFSET_UNREADABLE, topic_id=None)
READ_BY_NOBODY = replace(deletion(AT), verdict=Verdict.NOTHING, reason=Reason.NOT_CONSUMED)
RECREATED = replace(deletion(AT), topic_id="another")


@pytest.mark.parametrize(
    ("row", "waited_ms"),
    [
        (deletion(AT), 35 * MINUTE_MS),
        (replace(deletion(AT), cutoff=101), 35 * MINUTE_MS),  # more may go now
        (HELD, 35 * MINUTE_MS),
        (UNREADABLE, 35 * MINUTE_MS),
        (READ_BY_NOBODY, None),
        (RECREATED, 0),
        (deletion(OTHER), 0),
    ],
)
def test_the_time_goes_on_until_nothing_can_go(row: PlanRow, waited_ms: int | None) -> None:
    found = waits((row,), (wait(30),), 5 * MINUTE_MS, 77)
    assert [each.waited_ms for each in found] == ([] if waited_ms is None else [waited_ms])
    assert [each.since_ms for each in found] == ([77] if waited_ms == 0 else [0] * len(found))


def test_a_hold_alone_begins_no_wait() -> None:
    assert waits((HELD,), (), 5 * MINUTE_MS, 77) == ()


def test_with_a_limit_those_that_free_most_come_first_and_what_failed_comes_last() -> None:
    rows = [deletion(TopicPartition("orders", number)) for number in range(4)]
    freed = {row.topic_partition: row.partition for row in rows[:3]}
    failed = {rows[2].topic_partition}
    order = in_order(rows, Limits(partitions_per_cycle=1), freed, failed)
    assert [at.partition for at in order] == [1, 0, 3, 2]
    assert in_order(rows, Limits(), freed, failed) == ()


# Whole cycles

RECORD_BYTES = 100


class Disks(FakeCluster):
    def __init__(self) -> None:
        super().__init__()
        self.failure: Exception | None = None
        self.usable: int | None = None
        self.create_topic("orders", 2, {"segment.bytes": "100"})
        for partition in range(2):
            self.produce("orders", partition, 1000)

    def log_dirs(self, _give_up: Callable[[], bool] = lambda: False) -> LogDirs:
        if self.failure:
            raise self.failure
        replicas = tuple(
            Replica(*at, RECORD_BYTES * (1000 - self.partition(*at).log_start))
            for at in (AT, OTHER)
        )
        total = None if self.usable is None else 100_000
        directory = LogDir("/kafka", replicas, total_bytes=total, usable_bytes=self.usable)
        return LogDirs({1: [directory]}, {AT: (1,), OTHER: (1,)})


class Run:
    """A daemon that is restarted for each cycle, on a host whose date stands still."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        self.kafka = Disks()
        self.state_dir = folder / "state"
        self.limits: dict[str, Any] = {"worthwhile": {"bytes": "1KiB", "after": "1h"}}
        self.changes = {"dry_run": False} | changes
        self.date_ms = self.kafka.now_ms

    def cycle(self, committed: int, other: int = 0, minutes: int = 5) -> CycleReport:
        self.kafka.commit("billing", {AT: committed, OTHER: other})
        self.kafka.advance(minutes * MINUTE_MS)
        config = self._config()
        with open_state(self.state_dir) as state:
            return run_cycle(self._context(), config, state).report

    def plan(self) -> CycleReport:
        return plan_cycle(self._context(), self._config(), read_stored_state(self.state_dir)).report

    def starts(self) -> list[int]:
        return [self.kafka.partition(*at).log_start for at in (AT, OTHER)]

    def _config(self) -> Any:
        return settings(
            self.state_dir, limits=self.limits, topics=[entry("orders", minutes=0)], **self.changes
        )

    def _context(self) -> Any:
        return cycle_context(
            self.kafka,
            disks=BrokerDisks(),
            elapsed=lambda: self.kafka.now_ms / 1000,
            now=lambda: self.date_ms,  # it says nothing of how much time has passed
        )


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(cycle, "decide", plain_plan.decide)
    return Run(tmp_path)


def reasons(report: CycleReport) -> list[Reason]:
    return [row.reason for row in report.plan.rows]


def test_what_its_groups_have_held_so_far_comes_by_what_it_frees_too(run: Run) -> None:
    run.limits = {"partitions_per_cycle": 1, "settle_cycles": 3}
    for _ in range(2):
        report = run.cycle(10, 500)
        assert reasons(report) == [Reason.LIMIT_REACHED] * 2
    run.cycle(10, 500)
    assert run.starts() == [0, 500]
    run.cycle(10, 900)
    assert run.starts() == [10, 500]  # it was left out


def test_a_deletion_that_frees_too_little_waits_until_it_frees_enough(run: Run) -> None:
    report = run.cycle(3)
    (row, _) = report.plan.rows
    assert (row.reason, row.records, row.cutoff) == (Reason.NOT_WORTHWHILE, 3, 3)
    assert (row.predicted_bytes, report.planned.records, report.outcomes) == (300, 0, {})
    assert run.plan().plan.rows[0].reason is Reason.NOT_WORTHWHILE
    run.cycle(10)
    assert run.starts() == [0, 0]
    report = run.cycle(11)
    assert (run.starts(), report.records_deleted) == ([11, 0], 11)
    assert read_kept(run.state_dir).waits == ()


def test_it_waits_no_longer_than_that_over_restarts_and_then_begins_anew(run: Run) -> None:
    run.cycle(3)
    for _ in range(11):
        run.cycle(4)
    assert run.starts() == [0, 0]
    assert run.cycle(4).records_deleted == 4  # an hour after the first cycle
    run.cycle(6, minutes=50)
    run.cycle(7, minutes=50)
    assert run.starts() == [4, 0]
    run.cycle(8, minutes=10)
    assert run.starts() == [8, 0]


def test_the_host_starts_again_and_what_has_passed_before_counts(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.cycle(3)
    run.cycle(3, minutes=40)
    monkeypatch.setattr(cycle, "uptime", lambda: Uptime("another boot", 0))
    run.cycle(3, minutes=30)
    assert run.starts() == [0, 0]
    run.cycle(3, minutes=19)
    assert run.starts() == [0, 0]
    run.cycle(3, minutes=1)
    assert run.starts() == [3, 0]


def test_a_reader_that_goes_back_ends_the_wait(run: Run) -> None:
    run.cycle(3)
    run.cycle(0, minutes=59)
    run.cycle(3, minutes=5)
    assert run.starts() == [0, 0]


def test_a_failed_request_is_tried_again_at_once(run: Run) -> None:
    run.cycle(3)
    run.kafka.next_deletion(*AT, HowDeletionEnds.REFUSED)
    report = run.cycle(3, minutes=60)
    assert report.outcomes[AT].outcome is Outcome.FAILED
    assert run.cycle(3).records_deleted == 3


def test_a_pause_keeps_nothing_waiting_afterwards(run: Run) -> None:
    run.cycle(3)
    write_pause(run.state_dir, Pause("maintenance"))
    assert reasons(run.cycle(3, minutes=60))[0] is Reason.PAUSED
    (run.state_dir / PAUSE_NAME).unlink()
    assert run.cycle(3).records_deleted == 3


@pytest.mark.parametrize("changes", [{"dry_run": True}, {}])
def test_disks_that_are_not_known_let_nothing_wait(run: Run, changes: dict[str, Any]) -> None:
    run.changes |= changes
    run.kafka.failure = OSError("no answer")
    report = run.cycle(3)
    assert report.plan.rows[0].verdict is Verdict.DELETE
    assert run.starts() == [0 if changes else 3, 0]


def test_under_disk_pressure_nothing_waits(run: Run) -> None:
    run.changes |= {"disk_pressure": {"below_free": "20%", "until_free": "25%"}}
    run.kafka.usable = 50_000
    assert reasons(run.cycle(3))[0] is Reason.NOT_WORTHWHILE
    run.kafka.usable = 10_000
    assert run.cycle(3).records_deleted == 3


def test_a_dry_run_waits_as_the_real_one_would(run: Run) -> None:
    run.changes["dry_run"] = True
    assert reasons(run.cycle(3))[0] is Reason.NOT_WORTHWHILE
    assert reasons(run.cycle(3, minutes=60))[0] is Reason.CONSUMED


def test_by_default_nothing_waits(run: Run) -> None:
    run.limits = {}
    assert run.cycle(3).records_deleted == 3
    assert Worthwhile().after_ms == HOUR_MS
    assert Worthwhile().minimum_bytes == 1 << 20


def test_with_a_limit_the_largest_goes_first_and_a_failed_one_last_but_not_never(run: Run) -> None:
    run.limits = {"partitions_per_cycle": 1}
    run.kafka.next_deletion(*OTHER, HowDeletionEnds.REFUSED)
    first = run.cycle(20, 30)
    assert [*first.outcomes] == [OTHER]
    assert read_kept(run.state_dir).failed == (OTHER,)
    assert [*run.cycle(20, 30).outcomes] == [AT]  # it was left out
    assert [*run.cycle(40, 60).outcomes] == [OTHER]  # left out in turn, it comes first again
    assert read_kept(run.state_dir).failed == ()
    assert run.starts() == [20, 60]


def test_what_just_failed_comes_after_all_others(run: Run) -> None:
    run.limits = {"partitions_per_cycle": 1}
    run.kafka.next_deletion(*OTHER, HowDeletionEnds.REFUSED)
    run.cycle(0, 30)
    assert [*run.cycle(20, 60).outcomes] == [AT]
