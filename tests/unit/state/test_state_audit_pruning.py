"""Old records of the audit log go: by time that certainly passed, and never what is still open."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from retentiond.act.approved import GroupEvidence
from retentiond.clock import Uptime
from retentiond.errors import StateReplaced
from retentiond.model import GroupKind, Outcome
from retentiond.state import audit_pruning
from retentiond.state.audit import Audit
from retentiond.state.audit_file import log_bytes, oldest_entry_s
from retentiond.state.audit_records import read_deletions
from retentiond.state.operator_actions import Action, actions_in, record_action
from tests.support.audited import read_cycles
from tests.support.processes import run_python
from tests.unit.state.test_state_audit import CYCLE, approved, outcome, sql, years_of

DAY_MS = 24 * 3_600_000
KEEP_MS = 400 * DAY_MS
GO = threading.Event()


class Host:
    """Its uptime, as the log sees it."""

    def __init__(self, audit: Audit) -> None:
        self.now = Uptime("boot-1", 5_000)
        audit.uptime = lambda: self.now

    def pass_days(self, days: float) -> None:
        self.now = self.now._replace(ms=self.now.ms + int(days * DAY_MS))

    def reboot(self, ms: int = 0) -> None:
        self.now = Uptime(f"{self.now.boot_id}+", ms)


@pytest.fixture
def audit(tmp_path: Path) -> Iterator[Audit]:
    with closing(Audit.open(tmp_path)) as audit:
        yield audit


@pytest.fixture
def host(audit: Audit) -> Host:
    return Host(audit)


def cycle(audit: Audit, name: str, *outcomes: Outcome | None, planned_at_ms: int = 1_000) -> None:
    """One with a partition for each outcome; None leaves an open intent."""
    audit.record_cycle(replace(CYCLE, cycle_id=name, planned_at_ms=planned_at_ms))
    numbers = range(len(outcomes))
    audit.intend(name, [approved(number) for number in numbers], 2_000, evidence_at_ms=1_900)
    known = [outcome(at, each) for at, each in enumerate(outcomes) if each is not None]
    audit.settle(name, known, 3_000)


def kept(audit: Audit) -> list[str]:
    return [each.cycle_id for each in read_cycles(audit.state_dir)]


def used_bytes(audit: Audit) -> int:
    (row,) = sql(
        audit,
        "SELECT (page_count - freelist_count) * page_size "
        "FROM pragma_page_count, pragma_freelist_count, pragma_page_size",
    )
    return int(str(row[0]))


def test_above_its_most_bytes_the_oldest_cycles_go_however_young_they_are(
    audit: Audit, host: Host
) -> None:
    cycle(audit, "open", None)
    for number in range(60):
        host.pass_days(0.01)
        cycle(audit, f"cycle-{number:02}", *[Outcome.DELETED] * 20)
    record_action(audit.state_dir, Action(1, "anna", "pause", None, "why"))
    most = used_bytes(audit) // 2
    audit.prune(None, GO, max_bytes=10 * most)
    assert len(kept(audit)) == 61

    audit.prune(None, GO, max_bytes=most)

    assert used_bytes(audit) <= most
    names = kept(audit)
    assert "open" in names, "its outcome may still become known"
    young = sorted(name for name in names if name != "open")
    assert young == [f"cycle-{number:02}" for number in range(60 - len(young), 60)]
    assert 10 < len(young) < 50
    assert len(list(actions_in(audit.state_dir))) == 1


@pytest.mark.parametrize(("keep_ms", "max_bytes"), [(KEEP_MS, None), (None, 1)])
def test_the_last_cycle_stays_whatever_its_age_and_whatever_it_takes(
    audit: Audit, host: Host, keep_ms: int | None, max_bytes: int | None
) -> None:
    cycle(audit, "last but one", Outcome.DELETED)
    host.pass_days(1)
    cycle(audit, "last", Outcome.DELETED)
    host.pass_days(1_000)
    audit.prune(keep_ms, GO, max_bytes=max_bytes)
    assert kept(audit) == ["last"]


def test_what_is_older_than_it_is_kept_goes_with_its_evidence(audit: Audit, host: Host) -> None:
    cycle(audit, "old", Outcome.DELETED, Outcome.FAILED)
    host.now = host.now._replace(ms=host.now.ms + 1)
    cycle(audit, "young", Outcome.DELETED)
    host.now = host.now._replace(ms=host.now.ms + KEEP_MS - 1)
    cycle(audit, "now")

    audit.prune(KEEP_MS, GO)

    assert kept(audit) == ["now", "young"]
    assert [each.cycle_id for each in read_deletions(audit.state_dir)] == ["young"]


@pytest.mark.parametrize("planned_at_ms", [0, 1_000 + 40 * DAY_MS, 1_000 + 4_000 * DAY_MS])
def test_the_hosts_date_says_nothing_about_a_records_age(
    audit: Audit, host: Host, planned_at_ms: int
) -> None:
    cycle(audit, "first", Outcome.DELETED)
    host.pass_days(1)
    cycle(audit, "wrong date", Outcome.DELETED, planned_at_ms=planned_at_ms)
    host.pass_days(1)
    cycle(audit, "last", Outcome.DELETED)

    audit.prune(30 * DAY_MS, GO)

    assert sorted(kept(audit)) == ["first", "last", "wrong date"]


def test_time_in_which_the_host_was_down_does_not_count(audit: Audit, host: Host) -> None:
    cycle(audit, "old", Outcome.DELETED)
    host.pass_days(399)
    cycle(audit, "before the boot")
    host.reboot(ms=500 * DAY_MS)  # another boot's clock says nothing about this one's
    cycle(audit, "after the boot")
    audit.prune(KEEP_MS, GO)
    assert "old" in kept(audit)

    host.pass_days(1)
    cycle(audit, "a day later")
    audit.prune(KEEP_MS, GO)

    assert "old" not in kept(audit)
    assert len(kept(audit)) == 3


def test_time_counts_across_restarts_of_the_process(tmp_path: Path) -> None:
    with closing(Audit.open(tmp_path)) as audit:
        host = Host(audit)
        cycle(audit, "old", Outcome.DELETED)
    with closing(Audit.open(tmp_path)) as audit:
        audit.uptime = lambda: host.now._replace(ms=host.now.ms + KEEP_MS)
        cycle(audit, "now")
        audit.prune(KEEP_MS, GO)
        assert kept(audit) == ["now"]


@pytest.mark.parametrize("still_open", [None, Outcome.UNKNOWN])
def test_a_cycle_with_an_open_question_stays_whole_until_it_is_settled(
    audit: Audit, host: Host, still_open: Outcome | None
) -> None:
    cycle(audit, "open", Outcome.DELETED, still_open)
    cycle(audit, "closed", Outcome.DELETED)
    host.pass_days(1_000)
    cycle(audit, "now")

    audit.prune(KEEP_MS, GO)

    assert kept(audit) == ["now", "open"]
    assert [each.row.partition for each in read_deletions(audit.state_dir)] == [0, 1]
    assert [each.cycle_id for each in audit.unsettled(CYCLE.cluster_id)] == ["open"]

    audit.settle("open", [outcome(1)], 4_000)
    audit.prune(KEEP_MS, GO)
    assert kept(audit) == ["now"]


def test_what_operators_did_goes_by_the_same_age(audit: Audit, tmp_path: Path) -> None:
    host = Host(audit)
    cycle(audit, "old")
    record_action(tmp_path, Action(1, "anna", "pause", None, "old"))  # by the host's own uptime
    host.pass_days(1)
    cycle(audit, "now")
    audit.prune(KEEP_MS, GO)
    assert [each.detail for each in actions_in(tmp_path)] == ["old"]

    host.pass_days(400)
    cycle(audit, "later")
    record_action(tmp_path, Action(2, "anna", "resume", None, "young"))
    audit.prune(KEEP_MS, GO)

    assert [each.detail for each in actions_in(tmp_path)] == ["young"]


def test_lists_of_groups_go_with_the_last_deletion_that_names_them(
    audit: Audit, host: Host
) -> None:
    others = (GroupEvidence("search", GroupKind.CONSUMER, 100),)
    cycle(audit, "old", Outcome.DELETED)
    audit.record_cycle(replace(CYCLE, cycle_id="both"))
    audit.intend("both", [approved(0, evidence=others)], 2_000, evidence_at_ms=1_900)
    audit.settle("both", [outcome(0)], 3_000)
    host.pass_days(400)
    cycle(audit, "now", Outcome.DELETED)

    audit.prune(KEEP_MS, GO)

    assert [groups for (groups,) in sql(audit, "SELECT groups FROM group_lists")] == [
        '[["billing", "classic"], ["K\\u00e4ufe \'und\' \\"mehr\\"", "share"]]'
    ]
    (left,) = read_deletions(audit.state_dir)
    assert len(left.evidence) == 2


def test_a_log_without_room_to_give_back_comes_to_an_end(
    audit: Audit, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that was restored from SQL, which does not keep how a file gives its pages back."""
    monkeypatch.setattr(audit_pruning, "SMALL_LOG_BYTES", 0)
    cycle(audit, "old", *[Outcome.DELETED] * 500)
    sql(audit, "PRAGMA auto_vacuum = NONE")
    sql(audit, "VACUUM")
    host.pass_days(400)
    cycle(audit, "now")

    class Waits(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            steps.append(timeout)
            return len(steps) > 100

    steps: list[float | None] = []
    audit.prune(KEEP_MS, Waits())

    assert kept(audit) == ["now"]
    assert len(steps) < 10


# --- in small steps


def test_old_records_go_in_small_steps_and_whoever_writes_has_its_turn(
    audit: Audit, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_pruning, "STEP_ROWS", 10)
    cycle(audit, "old", *[Outcome.DELETED] * 95)
    host.pass_days(400)
    cycle(audit, "now")
    steps: list[int] = []

    class Waits(threading.Event):
        """Of another process that writes between two steps."""

        def wait(self, timeout: float | None = None) -> bool:
            assert timeout is not None
            assert timeout >= 0
            steps.append(len(list(read_deletions(audit.state_dir))))
            record_action(audit.state_dir, Action(1, "anna", "pause", None, "now"))
            return False

    audit.prune(KEEP_MS, Waits())

    assert steps[:10] == [85, 75, 65, 55, 45, 35, 25, 15, 5, 0]
    assert kept(audit) == ["now"]


def test_it_ends_when_the_process_is_to_end_and_when_its_time_is_over(
    audit: Audit, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_pruning, "STEP_ROWS", 10)
    cycle(audit, "old", *[Outcome.DELETED] * 95)
    host.pass_days(400)
    cycle(audit, "now")
    stop = threading.Event()
    stop.set()

    audit.prune(KEEP_MS, stop)
    assert len(list(read_deletions(audit.state_dir))) == 95
    audit.prune(KEEP_MS, GO, most_s=0)

    assert len(list(read_deletions(audit.state_dir))) == 85


def test_a_log_that_was_replaced_is_not_pruned(audit: Audit, host: Host, tmp_path: Path) -> None:
    cycle(audit, "old", Outcome.DELETED)
    host.pass_days(400)
    cycle(audit, "now")
    (tmp_path / "audit.db").rename(tmp_path / "aside")
    with pytest.raises(StateReplaced):
        audit.prune(KEEP_MS, GO)


@pytest.mark.parametrize("steps", [1, 3])
def test_sigkill_amid_pruning_leaves_a_log_that_goes_on(tmp_path: Path, steps: int) -> None:
    program = """
    import os, signal, sys, threading
    from pathlib import Path
    from retentiond.model import Outcome
    from retentiond.state import audit_pruning
    from retentiond.state.audit import Audit
    from tests.unit.state.test_state_audit_pruning import Host, KEEP_MS, cycle

    audit = Audit.open(Path(sys.argv[1]))
    host = Host(audit)
    cycle(audit, "old", *[Outcome.DELETED] * 30)
    cycle(audit, "open", *[Outcome.DELETED] * 5, None)
    host.pass_days(400)
    cycle(audit, "now")
    audit_pruning.STEP_ROWS = 10
    left = [int(sys.argv[2])]

    def trace(sql):
        left[0] -= sql.strip().startswith("DELETE FROM deletions")
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    audit._connection.set_trace_callback(trace)
    audit.prune(KEEP_MS, threading.Event())
    """
    assert run_python(program, tmp_path, steps).returncode == -signal.SIGKILL
    with closing(Audit.open(tmp_path)) as audit:
        assert sql(audit, "PRAGMA integrity_check") == [("ok",)]
        assert sql(audit, "PRAGMA foreign_key_check") == []
        assert len(list(read_deletions(tmp_path))) == 36 - 10 * (steps - 1)
        assert [each.partition for each in audit.unsettled(CYCLE.cluster_id)] == [5]
        cycle(audit, "next")
        audit.prune(0, GO)
        assert kept(audit) == ["next", "now", "open"]  # which are of one moment


# --- its size


def test_room_that_has_become_free_is_used_again_and_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_pruning, "SMALL_LOG_BYTES", 1024 * 1024)
    years_of(tmp_path, megabytes=4)
    full = log_bytes(tmp_path)
    with closing(Audit.open(tmp_path)) as audit:
        host = Host(audit)
        cycle(audit, "another boot")
        host.pass_days(400)
        cycle(audit, "now")
        audit.prune(KEEP_MS, GO)
        assert kept(audit) == ["now"]
        sql(audit, "PRAGMA wal_checkpoint(TRUNCATE)")

    assert full > 4_000_000
    assert log_bytes(tmp_path) < full / 4


def test_its_size_is_that_of_its_files(tmp_path: Path) -> None:
    assert log_bytes(tmp_path) == 0
    with closing(Audit.open(tmp_path)) as audit:
        cycle(audit, "one", Outcome.DELETED)
        parts = [os.stat(tmp_path / name).st_size for name in ("audit.db", "audit.db-wal")]
        assert log_bytes(tmp_path) == sum(parts) > 0


def test_how_far_back_it_goes_follows_what_is_removed(tmp_path: Path) -> None:
    assert oldest_entry_s(tmp_path) is None
    with closing(Audit.open(tmp_path)) as audit:
        host = Host(audit)
        assert oldest_entry_s(tmp_path) is None
        cycle(audit, "first", planned_at_ms=9_000)  # the host's clock is set back afterwards
        host.pass_days(400)
        cycle(audit, "second", planned_at_ms=5_000)
        assert oldest_entry_s(tmp_path) == 9
        audit.prune(KEEP_MS, GO)
        assert oldest_entry_s(tmp_path) == 5
