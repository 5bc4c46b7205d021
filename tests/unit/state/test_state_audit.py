"""The audit log: what is recorded comes back, and a file that can't be trusted is refused."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from retentiond.act.approved import Approved, GroupEvidence
from retentiond.errors import StateError
from retentiond.fields import Shown, Storage
from retentiond.model import ROW_FIELDS, DeletionOutcome, GroupKind, Outcome
from retentiond.state.audit import Audit
from retentiond.state.audit_records import (
    CycleRecord,
    DeletionFilter,
    DeletionRecord,
    read_deletions,
)
from retentiond.state.state import open_state
from retentiond.state.state_dir import BUSY_MS, connect, created
from tests.support.audited import read_cycles
from tests.support.builders.guard_readings import commit_evidence
from tests.support.builders.reports import row

CYCLE = CycleRecord(
    cycle_id="cycle-1",
    cluster_id="cluster-a",
    planned_at_ms=1_000,
    dry_run=False,
    complete=True,
    partitions=7,
    to_delete=2,
    held=4,
)
EVIDENCE = (
    GroupEvidence("billing", GroupKind.CLASSIC, 2**62),
    GroupEvidence("Käufe 'und' \"mehr\"", GroupKind.SHARE, 100),
)


def approved(
    partition: int, topic: str = "orders", evidence: tuple[GroupEvidence, ...] = EVIDENCE
) -> Approved:
    planned = replace(
        row(topic, partition),
        topic_id="id-of-orders",
        high_watermark=2**63 - 1,
        detail="limits.records_per_cycle (90) lowers the cutoff from 101",
        consumed_retention_ms=60_000,
        only_groups="billing|search",
        owner="payments",
    )
    return Approved(topic, partition, "id-of-orders", 100, 10, commit_evidence(evidence), planned)


def outcome(
    partition: int, outcome: Outcome = Outcome.DELETED, low_watermark: int | None = 100
) -> DeletionOutcome:
    return DeletionOutcome("orders", partition, outcome, low_watermark)


@pytest.fixture
def audit(tmp_path: Path) -> Iterator[Audit]:
    audit = Audit.open(tmp_path)
    audit.record_cycle(CYCLE)
    yield audit
    audit.close()


def only(audit: Audit) -> DeletionRecord:
    (record,) = read_deletions(audit.state_dir)
    return record


# --- what is recorded


def test_an_intent_comes_back_with_its_figures_and_its_evidence(audit: Audit) -> None:
    audit.intend("cycle-1", [approved(0)], 2_000, evidence_at_ms=1_900)

    assert only(audit) == DeletionRecord(
        id=1,
        cycle_id="cycle-1",
        cluster_id="cluster-a",
        row=approved(0).row,
        evidence=EVIDENCE,
        evidence_at_ms=1_900,
        requested_at_ms=2_000,
        outcome=None,
        low_watermark=None,
        error=None,
        settled_at_ms=None,
        freed_bytes=None,
    )


def test_what_a_deletion_will_free_is_recorded_once_it_is_known(audit: Audit) -> None:
    audit.intend("cycle-1", [approved(0)], 2_000, evidence_at_ms=1_900)
    row = replace(approved(0).row, predicted_bytes=70)
    audit.record_predicted("cycle-1", [row])
    assert only(audit).row == row


@pytest.mark.parametrize("field", ROW_FIELDS, ids=lambda field: field.name)
def test_whatever_the_log_keeps_of_a_row_comes_back(audit: Audit, field: Shown) -> None:
    """Also a field that is new: each gets a value of its own."""
    row = approved(0).row
    values = {Storage.TEXT: f"a {field.name}", Storage.FLAG: True}
    value: Any = values.get(field.said.type.storage, 100)
    is_approved = field.name in ("topic", "partition", "topic_id", "cutoff", "log_start_offset")
    if field.said.audit is None or is_approved or field.name == "records":
        value = getattr(row, field.name)
    changed: dict[str, Any] = {field.name: value}
    row = replace(row, **changed)
    audit.intend("cycle-1", [replace(approved(0), row=row)], 2_000, evidence_at_ms=1_900)
    audit.record_predicted("cycle-1", [row])
    assert getattr(only(audit).row, field.name) == value


def test_every_figure_that_may_be_unknown_comes_back_as_unknown(audit: Audit) -> None:
    bare = replace(
        approved(0),
        row=replace(
            approved(0).row,
            high_watermark=None,
            min_committed_offset=None,
            binding_group=None,
            binding_committed_offset=None,
            retention_offset=None,
            detail=None,
        ),
    )

    audit.intend("cycle-1", [bare], 2_000, evidence_at_ms=1_900)

    assert only(audit).row == bare.row


@pytest.mark.parametrize(
    "settled",
    [
        DeletionOutcome("orders", 0, Outcome.DELETED, 100),
        DeletionOutcome("orders", 0, Outcome.DELETED, 120),
        DeletionOutcome("orders", 0, Outcome.FAILED, error="POLICY_VIOLATION: no"),
        DeletionOutcome("orders", 0, Outcome.NOT_ATTEMPTED, error="too old"),
        DeletionOutcome("orders", 0, Outcome.UNKNOWN, 99, "timed out"),
    ],
)
def test_an_outcome_comes_back_beside_its_intent(audit: Audit, settled: DeletionOutcome) -> None:
    audit.intend("cycle-1", [approved(0)], 2_000, evidence_at_ms=1_900)

    audit.settle("cycle-1", [settled], 3_000)

    record = only(audit)
    assert (record.outcome, record.low_watermark, record.error, record.settled_at_ms) == (
        settled.outcome,
        settled.low_watermark,
        settled.error,
        3_000,
    )


def test_the_groups_of_a_topic_are_stored_once_for_as_long_as_they_stay(audit: Audit) -> None:
    other_commits = tuple(group._replace(committed_offset=500) for group in EVIDENCE)
    other_kinds = tuple(group._replace(kind=GroupKind.CONSUMER) for group in EVIDENCE)
    audit.record_cycle(replace(CYCLE, cycle_id="cycle-2"))

    audit.intend(
        "cycle-1", [approved(0), approved(1, evidence=other_commits)], 2_000, evidence_at_ms=1_900
    )
    audit.intend(
        "cycle-2", [approved(0), approved(1, evidence=other_kinds)], 3_000, evidence_at_ms=2_900
    )

    assert [record.evidence for record in read_deletions(audit.state_dir)] == [
        EVIDENCE,
        other_commits,
        EVIDENCE,
        other_kinds,
    ]
    assert len(sql(audit, "SELECT * FROM group_lists")) == 2


def test_the_evidence_can_be_read_with_sql_as_one_row_a_group(audit: Audit) -> None:
    audit.intend("cycle-1", [approved(0)], 2_000, evidence_at_ms=1_900)

    assert sql(audit, "SELECT * FROM evidence") == [
        (1, "billing", "classic", 2**62),
        (1, "Käufe 'und' \"mehr\"", "share", 100),
    ]


def sql(audit: Audit, query: str) -> list[tuple[object, ...]]:
    return audit._connection.execute(query).fetchall()


def test_a_cycle_is_recorded_when_it_begins_and_again_when_it_has_finished(
    audit: Audit, tmp_path: Path
) -> None:
    finished = replace(CYCLE, finished_at_ms=4_000, result="ok", deleted=2, records_deleted=180)
    earlier = replace(CYCLE, cycle_id="cycle-0", planned_at_ms=500, complete=False, dry_run=True)

    assert read_cycles(tmp_path) == [CYCLE]
    audit.record_cycle(finished)
    audit.record_cycle(earlier)

    assert read_cycles(tmp_path) == [earlier, finished]


# --- what is refused


def test_a_batch_is_recorded_as_a_whole_or_not_at_all(audit: Audit) -> None:
    with pytest.raises(StateError):
        audit.intend(
            "cycle-1", [approved(0), approved(1), approved(0)], 2_000, evidence_at_ms=1_900
        )

    assert list(read_deletions(audit.state_dir)) == []
    audit.intend("cycle-1", [approved(0)], 2_000, evidence_at_ms=1_900)  # and the log still works


def test_an_intent_of_a_cycle_that_was_not_recorded_is_refused(audit: Audit) -> None:
    with pytest.raises(StateError):
        audit.intend("cycle-9", [approved(0)], 2_000, evidence_at_ms=1_900)


@pytest.mark.parametrize(
    ("known", "give_up", "later"),
    [
        (None, False, [outcome(0), outcome(1)]),  # of which one has no intent
        (None, False, [outcome(0, Outcome.DELETED, None)]),
        (None, False, [outcome(0, Outcome.DELETED, 99)]),
        (Outcome.DELETED, False, [outcome(0, Outcome.UNKNOWN)]),
        (Outcome.FAILED, False, [outcome(0, Outcome.UNKNOWN)]),
        (Outcome.NOT_ATTEMPTED, False, [outcome(0, Outcome.UNKNOWN)]),
        (Outcome.UNKNOWN, True, [outcome(0)]),
    ],
)
def test_outcomes_that_contradict_the_log_are_refused_and_change_nothing(
    audit: Audit, known: Outcome | None, give_up: bool, later: list[DeletionOutcome]
) -> None:
    audit.intend("cycle-1", [approved(0)], 2_000, evidence_at_ms=1_900)
    if known:
        audit.settle("cycle-1", [outcome(0, known)], 3_000, give_up=give_up)
    before = only(audit)

    refused = f"no open intent for 1 of {len(later)} outcomes of cycle cycle-1"
    with pytest.raises(StateError, match=None if known is None and len(later) == 1 else refused):
        audit.settle("cycle-1", later, 4_000)

    assert only(audit) == before


def test_an_unknown_outcome_may_become_known(audit: Audit) -> None:
    audit.intend("cycle-1", [approved(0)], 2_000, evidence_at_ms=1_900)
    audit.settle("cycle-1", [outcome(0, Outcome.UNKNOWN, None)], 3_000)
    assert [each.outcome for each in audit.unsettled("cluster-a")] == [Outcome.UNKNOWN]

    audit.settle("cycle-1", [outcome(0)], 4_000)

    assert only(audit).outcome is Outcome.DELETED
    assert audit.unsettled("cluster-a") == ()


def test_a_recorded_cycle_is_in_the_file_itself_and_a_reader_does_not_hold_it_up(
    audit: Audit,
) -> None:
    log = audit.state_dir / "audit.db-wal"
    audit.intend("cycle-1", [approved(0), approved(1)], 2_000, evidence_at_ms=1_900)
    assert log.stat().st_size > 0
    reader = read_deletions(audit.state_dir)
    next(reader)

    began = time.monotonic()
    audit.record_cycle(CYCLE)
    assert time.monotonic() - began < BUSY_MS / 2000
    reader.close()  # type: ignore[attr-defined]  # a generator
    audit.record_cycle(CYCLE)

    assert log.stat().st_size == 0
    assert len(list(read_deletions(audit.state_dir))) == 2


# --- reading


@pytest.fixture
def history(audit: Audit) -> Audit:
    """orders-0 and orders-1 at 2 s, orders-0 and clicks-0 at 3 s."""
    audit.intend("cycle-1", [approved(0), approved(1)], 2_000, evidence_at_ms=1_900)
    audit.settle("cycle-1", [outcome(0), outcome(1, Outcome.FAILED, None)], 2_500)
    audit.record_cycle(replace(CYCLE, cycle_id="cycle-2"))
    audit.intend("cycle-2", [approved(0), approved(0, topic="clicks")], 3_000, evidence_at_ms=2_900)
    return audit


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        (DeletionFilter(), [1, 2, 3, 4]),
        (DeletionFilter(topic="orders"), [1, 2, 3]),
        (DeletionFilter(topic="orders", partition=0), [1, 3]),
        (DeletionFilter(partition=0), [1, 3, 4]),
        (DeletionFilter(since_ms=2_001), [3, 4]),
        (DeletionFilter(since_ms=3_000), [3, 4]),
        (DeletionFilter(until_ms=3_000), [1, 2]),
        (DeletionFilter(since_ms=2_000, until_ms=3_001, topic="clicks"), [4]),
        (DeletionFilter(outcome=Outcome.FAILED), [2]),
        (DeletionFilter(outcome=Outcome.UNKNOWN), [3, 4]),
        (DeletionFilter(topic="orders' OR 1=1 --"), []),
    ],
)
def test_deletions_are_read_by_topic_partition_time_and_outcome(
    history: Audit, wanted: DeletionFilter, ids: list[int]
) -> None:
    assert [record.id for record in read_deletions(history.state_dir, wanted)] == ids


def test_a_history_longer_than_a_page_is_read_whole(audit: Audit) -> None:
    audit.intend(
        "cycle-1", [approved(number) for number in range(2_001)], 2_000, evidence_at_ms=1_900
    )

    assert [record.row.partition for record in read_deletions(audit.state_dir)] == list(
        range(2_001)
    )


def test_threads_take_turns_at_writing(audit: Audit) -> None:
    def write(first: int) -> None:
        for number in range(first, first + 20):
            audit.intend("cycle-1", [approved(number)], 2_000, evidence_at_ms=1_900)

    writers = [threading.Thread(target=write, args=[first]) for first in (0, 20, 40)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    assert len(list(read_deletions(audit.state_dir))) == 60


def test_reading_where_there_is_no_log_says_so_and_makes_none(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=f"there is no audit log in {tmp_path}; the first cycle"):
        list(read_deletions(tmp_path))

    assert list(tmp_path.iterdir()) == []


# --- files that can't be trusted


def filled(state_dir: Path, deletions: int = 1) -> Path:
    audit = Audit.open(state_dir)
    audit.record_cycle(CYCLE)
    audit.intend(
        "cycle-1", [approved(number) for number in range(deletions)], 2_000, evidence_at_ms=1_900
    )
    audit.close()
    return state_dir / "audit.db"


def overwrite(at: int, text: bytes) -> Callable[[Path], object]:
    def change(path: Path) -> None:
        with path.open("r+b") as file:
            file.seek(at)
            file.write(text)

    return change


def truncate(to: int) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(path.read_bytes()[:to])


def set_version(version: int) -> Callable[[Path], object]:
    def change(path: Path) -> None:
        connection = sqlite3.connect(path)
        connection.execute(f"PRAGMA user_version = {version}")
        connection.close()

    return change


def without(column: str) -> Callable[[Path], object]:
    def change(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"ALTER TABLE deletions DROP COLUMN {column}")

    return change


SENTENCE_OF_ANOTHER = (
    "was begun by another version of retentiond, whose schema this one does not know; "
    "run that version, or move the file away to begin a new log"
)

DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (truncate(0), "is damaged"),
    "no SQLite file": (lambda path: path.write_bytes(b"x" * 5000), "is damaged"),
    "header overwritten": (overwrite(0, b"\0" * 100), "is damaged"),
    "truncated": (truncate(20_000), "is damaged"),
    "pages overwritten": (overwrite(8_192, b"\xff" * 30_000), "is damaged"),
    "written by a newer version": (
        set_version(99),
        r"was written by a newer retentiond \(its schema is 99, this version knows 2\); "
        "run that version, or choose another state_dir",
    ),
    "of another version": (set_version(1), SENTENCE_OF_ANOTHER),
    "without one of the columns": (without("only_groups"), SENTENCE_OF_ANOTHER),
    "another database": (set_version(0), "is not an audit log of retentiond; move it away"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_file_that_cannot_be_trusted_is_refused_and_left_as_it_is(
    tmp_path: Path, name: str
) -> None:
    path = filled(tmp_path, deletions=500)
    damage, sentence = DAMAGE[name]
    damage(path)
    before = path.read_bytes()

    with pytest.raises(StateError, match=sentence):
        Audit.open(tmp_path)

    assert path.read_bytes() == before


def years_of(state_dir: Path, megabytes: int) -> Path:
    """A log with that many of deletions of one cycle, as SQL makes them: quicker than a daemon."""
    path = filled(state_dir)
    with closing(connect(path)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(
            "UPDATE deletions SET outcome = 'failed', settled_at_ms = 3000, unsettled = 0"
        )
        columns = [
            name
            for _, name, *_ in connection.execute("PRAGMA table_info(deletions)").fetchall()
            if name not in ("id", "partition", "detail")
        ]
        rest = ", ".join(columns)
        connection.execute(
            f"WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers LIMIT ?)"
            f" INSERT INTO deletions (partition, detail, {rest})"
            f" SELECT n, printf('%4000d', 7), {rest} FROM numbers, deletions LIMIT ?",
            (megabytes * 240, megabytes * 240),
        )
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


def bytes_read() -> int:
    """By this process, from files, cached or not."""
    text = Path("/proc/self/io").read_text("ascii")
    return int(text.split("rchar: ")[1].split()[0])


@pytest.mark.long
def test_a_log_of_years_is_not_read_to_be_opened(tmp_path: Path) -> None:
    path = years_of(tmp_path, megabytes=100)
    with closing(connect(path)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        own = [field.name for field in fields(CycleRecord) if field.name != "cycle_id"]
        names = ", ".join([*own, "observed_ms"])
        connection.execute(
            "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers LIMIT ?)"
            f" INSERT INTO cycles (cycle_id, {names}) SELECT printf('%08d', n), {names}"
            " FROM numbers, cycles LIMIT ?",
            (200_000, 200_000),
        )
    with open_state(tmp_path):
        pass  # for the first time: the groups are gone, and the cluster is taken from the log
    assert path.stat().st_size > 120_000_000

    before = bytes_read()
    with open_state(tmp_path) as state:
        assert state.memory.recall().cluster_id == CYCLE.cluster_id

    assert bytes_read() - before < 10_000_000


def test_damage_among_old_deletions_fails_whoever_meets_it_and_nobody_else(tmp_path: Path) -> None:
    path = years_of(tmp_path, megabytes=20)
    overwrite(5_000_000, b"\xff" * 1_000_000)(path)

    audit = Audit.open(tmp_path)
    audit.record_cycle(replace(CYCLE, cycle_id="cycle-2"))
    assert audit.unsettled(CYCLE.cluster_id) == ()
    with pytest.raises(StateError, match="is damaged"):
        audit.record_cycle(CYCLE)  # whose deletions are looked up
    audit.close()
    with pytest.raises(StateError, match="is damaged"):
        list(read_deletions(tmp_path))


@pytest.mark.parametrize(
    "name", ["empty", "no SQLite file", "written by a newer version", "without one of the columns"]
)
def test_a_file_that_cannot_be_trusted_is_not_read_either(tmp_path: Path, name: str) -> None:
    path = filled(tmp_path)
    DAMAGE[name][0](path)

    with pytest.raises(StateError):
        list(read_deletions(tmp_path))


def test_a_log_whose_main_file_is_gone_is_not_begun_anew(tmp_path: Path) -> None:
    audit = Audit.open(tmp_path)
    audit.record_cycle(CYCLE)
    (tmp_path / "audit.db").unlink()  # while its write-ahead log is still there

    with pytest.raises(StateError, match=r"is damaged \(it is missing, and its audit.db-wal is"):
        Audit.open(tmp_path)

    assert not (tmp_path / "audit.db").exists()
    audit.close()


def test_a_log_half_made_by_a_process_that_died_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / f"audit.db.{os.getpid()}.new").write_bytes(b"half")  # in a container it recurs

    Audit.open(tmp_path).close()

    assert [path.name for path in tmp_path.iterdir()] == ["audit.db"]


def test_a_file_that_another_process_made_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "some.db"
    with created(path, "CREATE TABLE ours (x);", 1):
        path.write_bytes(b"theirs")

    assert path.read_bytes() == b"theirs"
    assert list(tmp_path.iterdir()) == [path]


def test_a_directory_that_is_not_there_is_an_error_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="can't be used") as raised:
        Audit.open(tmp_path / "nowhere")

    assert "\n" not in str(raised.value)


# --- disks that are full or read-only


def test_when_the_disk_is_full_the_intent_raises_and_nothing_of_it_is_there(
    audit: Audit,
) -> None:
    ((pages,),) = sql(audit, "PRAGMA page_count")
    sql(audit, f"PRAGMA max_page_count = {pages}")

    with pytest.raises(StateError, match=r"\(database or disk is full\); without it nothing is"):
        audit.intend(
            "cycle-1", [approved(number) for number in range(1_000)], 2_000, evidence_at_ms=1_900
        )

    assert list(read_deletions(audit.state_dir)) == []
    sql(audit, "PRAGMA max_page_count = 1000000")
    audit.intend(
        "cycle-1", [approved(0)], 2_000, evidence_at_ms=1_900
    )  # space was made: it goes on


# --- durability


def test_every_commit_waits_for_the_disk(audit: Audit) -> None:
    assert sql(audit, "PRAGMA synchronous") == [(2,)]  # FULL
    assert sql(audit, "PRAGMA journal_mode") == [("wal",)]
    assert sql(audit, "PRAGMA foreign_keys") == [(1,)]
    ((timeout_ms,),) = sql(audit, "PRAGMA busy_timeout")
    assert timeout_ms == 5_000
