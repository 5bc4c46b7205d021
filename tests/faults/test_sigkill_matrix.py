"""SIGKILL in every step of a cycle, and a start after it.

Whatever the step: what the broker shows is in the audit log, nothing that a group has yet to
read is gone, and the next run takes up where the last one ended.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from retentiond.model import Outcome
from retentiond.state.audit_records import DeletionRecord, read_deletions
from tests.contract.real import RealDriver
from tests.faults.held import Held, log_start
from tests.faults.hold_at import STEPS
from tests.support.brokers.command import configure
from tests.support.waiting import eventually
from tests.support.witnessed import seen

pytestmark = pytest.mark.broker

COMMITTED = 7

STEP_NAMES = list(STEPS)

ONE_OF_EACH_KIND = {
    "while the groups are being remembered",
    "before the guard",
    "while the intents are being written",
    "before the request",
    "while the request is under way",
    "before the outcomes are written",
}
"""In the quick tier: the memory, a decision, a record that is half written, the request, its
answer."""

NOTHING_ON_DISK = STEP_NAMES[: STEP_NAMES.index("after the intents are written")]
"""Steps in which no deletion is on its way."""

NOTHING_REQUESTED = STEP_NAMES[: STEP_NAMES.index("while the request is under way")]


@pytest.fixture
def topic(driver: RealDriver, tmp_path: Path, topic_name: str) -> str:
    """Ten records of which seven are read, and a configuration to delete those."""
    configure(tmp_path, driver.broker.bootstrap_servers, topic_name, dry_run=False)
    return driver.filled_topic(topic_name, {f"readers-of-{topic_name}": COMMITTED})


def kill_at(step: str, driver: RealDriver, topic: str, folder: Path) -> None:
    with Held(step, "run", "--once", cwd=folder) as process:
        process.await_step()
        if step not in NOTHING_REQUESTED:  # a request that is under way gets there first
            eventually(lambda: log_start(driver.broker, topic) == COMMITTED)
        process.kill()


def run_to_the_end(folder: Path) -> None:
    """The lock is free, whatever became of the last holder."""
    with Held("nowhere", "run", "--once", cwd=folder) as process:
        assert process.wait(60) == 0, process.said


def audited(folder: Path) -> list[DeletionRecord]:
    return list(read_deletions(folder / "state"))


def seen_by_the_witness() -> int:
    """Offsets that both lives requested, each of which is proven; the second life's, too, by what
    it has read back of the first one's."""
    found = seen()
    assert found.faults == []
    return found.deletions


def check_that_nothing_unread_is_gone(driver: RealDriver, topic: str, folder: Path) -> None:
    """Nor anything without a record of it."""
    start = log_start(driver.broker, topic)
    assert start in (0, COMMITTED)
    assert start <= max((deletion.row.cutoff or 0 for deletion in audited(folder)), default=0)


def check_that_the_audit_log_is_true(driver: RealDriver, topic: str, folder: Path) -> None:
    """Every deletion is settled, and at least one has done it."""
    deletions = audited(folder)
    assert log_start(driver.broker, topic) == COMMITTED
    assert {deletion.row.cutoff for deletion in deletions} == {COMMITTED}
    assert {deletion.outcome for deletion in deletions} <= {Outcome.DELETED, Outcome.UNKNOWN}
    assert Outcome.DELETED in {deletion.outcome for deletion in deletions}
    for deletion in deletions:
        assert [group.committed_offset for group in deletion.evidence] == [COMMITTED]


def _in_its_tier(step: str) -> Any:
    marks = () if step in ONE_OF_EACH_KIND else (pytest.mark.thorough("kills"),)
    return pytest.param(step, marks=marks)


@pytest.mark.parametrize("step", [_in_its_tier(step) for step in STEPS])
def test_killed(step: str, driver: RealDriver, topic: str, tmp_path: Path) -> None:
    kill_at(step, driver, topic, tmp_path)

    check_that_nothing_unread_is_gone(driver, topic, tmp_path)
    intents = audited(tmp_path)
    assert len(intents) == (0 if step in NOTHING_ON_DISK else 1)
    if step in NOTHING_REQUESTED:
        assert log_start(driver.broker, topic) == 0

    run_to_the_end(tmp_path)

    check_that_the_audit_log_is_true(driver, topic, tmp_path)
    assert seen_by_the_witness() == 1
    if step not in NOTHING_REQUESTED:  # what was done is recognised, and not done twice
        (deletion,) = audited(tmp_path)
        assert (deletion.outcome, deletion.low_watermark) == (Outcome.DELETED, COMMITTED)
        assert deletion.id == intents[0].id


@pytest.mark.thorough("kills")
@pytest.mark.parametrize(
    "step",
    [
        "before the outcomes of earlier runs are read back",
        "before the outcomes are written",
        "after the outcomes are written",
    ],
)
def test_killed_again_while_it_settles_what_the_first_kill_left(
    step: str, driver: RealDriver, topic: str, tmp_path: Path
) -> None:
    kill_at("after the answer", driver, topic, tmp_path)
    with Held(step, "run", "--once", cwd=tmp_path) as process:
        process.await_step()
        process.kill()
    run_to_the_end(tmp_path)

    check_that_the_audit_log_is_true(driver, topic, tmp_path)
    assert len(audited(tmp_path)) == 1


@pytest.mark.thorough("kills")
def test_killed_while_old_records_go_it_has_all_of_them_or_the_open_ones(
    driver: RealDriver, topic: str, tmp_path: Path
) -> None:
    """Of a log that is kept for a second, which each start takes longer than."""
    kill_at("before the request", driver, topic, tmp_path)
    run_to_the_end(tmp_path)
    servers = driver.broker.bootstrap_servers
    configure(tmp_path, servers, topic, dry_run=False, audit={"keep": "1s"})
    open_cycle, done_cycle = (each.cycle_id for each in audited(tmp_path))
    with closing(sqlite3.connect(tmp_path / "state" / "audit.db")) as log, log:
        log.execute("UPDATE deletions SET cutoff = 9 WHERE outcome = 'unknown'")  # as if asked for

    with Held("while old entries of the audit log go", "run", "--once", cwd=tmp_path) as process:
        process.await_step()
        process.kill()
    assert [each.cycle_id for each in audited(tmp_path)] == [open_cycle, done_cycle]
    run_to_the_end(tmp_path)

    assert [(each.cycle_id, each.outcome) for each in audited(tmp_path)] == [
        (open_cycle, Outcome.UNKNOWN)
    ]
    assert log_start(driver.broker, topic) == COMMITTED


def test_an_unknown_outcome_is_proven_by_the_deletion_that_repeats_it(
    driver: RealDriver, topic: str, tmp_path: Path
) -> None:
    kill_at("before the request", driver, topic, tmp_path)
    run_to_the_end(tmp_path)

    assert [each.outcome for each in audited(tmp_path)] == [Outcome.UNKNOWN, Outcome.DELETED]

    run_to_the_end(tmp_path)

    assert [each.outcome for each in audited(tmp_path)] == [Outcome.DELETED, Outcome.DELETED]
