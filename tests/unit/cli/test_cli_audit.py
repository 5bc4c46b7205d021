"""``retentiond audit`` over a log that was written by hand."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from retentiond.act.approved import Approved, GroupEvidence
from retentiond.model import GroupKind, Outcome, Plan
from retentiond.state.audit import Audit
from retentiond.state.audit_records import begun, finished
from tests.support.builders.reports import PLANNED_AT_MS, outcome, report, row, row_json
from tests.unit.cli.conftest import CONFIG, Command
from tests.unit.tell.test_tell_report import OUTCOME_FIELDS, ROW_FIELDS

EVIDENCE = (
    GroupEvidence("billing", GroupKind.CLASSIC, 100),
    GroupEvidence("search", GroupKind.CONSUMER, 170),
)


def plan(cycle_id: str, topics: list[str]) -> Plan:
    return replace(report([row(topic) for topic in topics]).plan, cycle_id=cycle_id)


def approved(topic: str) -> Approved:
    return Approved(topic, 0, f"id-of-{topic}", 100, 10, EVIDENCE, row(topic))


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    """Its state directory has a cycle with each outcome, and one that a crash left open."""
    state_dir = tmp_path / "state"
    state_dir.mkdir()
    with closing(Audit.open(state_dir)) as audit:
        whole = plan("cycle-1", ["clicks", "orders", "payments"])
        outcomes = [
            outcome("clicks"),
            outcome("orders", what=Outcome.FAILED),
            outcome("payments", what=Outcome.UNKNOWN),
        ]
        audit.record_cycle(begun(whole))
        audit.intend(
            "cycle-1",
            [approved(each.topic) for each in outcomes],
            PLANNED_AT_MS + 1,
            evidence_at_ms=PLANNED_AT_MS,
        )
        audit.settle("cycle-1", outcomes, PLANNED_AT_MS + 2)
        audit.record_cycle(finished(whole, outcomes, PLANNED_AT_MS + 3))
        audit.record_cycle(begun(plan("cycle-2", ["views"])))
        audit.intend(
            "cycle-2", [approved("views")], PLANNED_AT_MS + 4, evidence_at_ms=PLANNED_AT_MS
        )
    path = tmp_path / "mine.yaml"
    path.write_text(f"state_dir: {state_dir}\n{CONFIG}")
    return path


def test_every_deletion_is_listed_with_its_outcome(command: Command, config_file: Path) -> None:
    done = command("audit", "--config", config_file)
    assert (done.code, done.err) == (0, "")
    rows = [line.split() for line in done.out.splitlines()]
    assert [(cells[1], cells[-2]) for cells in rows[1:5]] == [
        ("clicks-0", "deleted"),
        ("orders-0", "failed"),
        ("payments-0", "unknown"),
        ("views-0", "unknown"),
    ]
    assert rows[1][0] == "2026-09-21T14:13:20.124Z"
    assert done.out.splitlines()[-1] == "4 deletions"


def test_its_table_fits_80_columns(command: Command, config_file: Path) -> None:
    done = command("audit", "--config", config_file)
    assert max(len(line) for line in done.out.splitlines()) <= 80
    assert "…" not in done.out


def test_its_json_has_the_plans_field_names_and_the_evidence(
    command: Command, config_file: Path
) -> None:
    done = command("audit", "--config", config_file, "--output", "json")
    assert (done.code, done.err) == (0, "")
    rows = json.loads(done.out)
    assert all(each.keys() >= ROW_FIELDS | OUTCOME_FIELDS for each in rows)
    assert rows[0] == {
        "cycle_id": "cycle-1",
        "cluster_id": "cluster-a",
        **row_json("clicks"),
        "freed_bytes": None,
        "evidence_at": "2026-09-21T14:13:20.123Z",
        "requested_at": "2026-09-21T14:13:20.124Z",
        "outcome": "deleted",
        "low_watermark": 100,
        "error": None,
        "evidence": {"billing": 100, "search": 170},
    }
    assert [each["error"] for each in rows[1:]] == [
        "why it is failed",
        "why it is unknown",
        None,
    ]


@pytest.mark.parametrize(
    ("options", "topics"),
    [
        (["--topic", "orders"], ["orders"]),
        (["--topic", "orders", "--partition", "1"], []),
        (["--outcome", "failed"], ["orders"]),
        (["--outcome", "unknown"], ["payments", "views"]),
        (["--since", "2026-09-21T14:13:20.125Z"], ["views"]),
        (["--since", "2026-09-21T16:13:20.125+02:00"], ["views"]),
        (["--until", "2026-09-21T14:13:20.125"], ["clicks", "orders", "payments"]),
        (["--since", "1h"], []),
    ],
)
def test_it_can_be_asked_for_some_of_them(
    command: Command, config_file: Path, options: list[str], topics: list[str]
) -> None:
    done = command("audit", "--config", config_file, *options, "--output", "json")
    assert [each["topic"] for each in json.loads(done.out)] == topics


@pytest.mark.parametrize("option", ["--since", "--until"])
def test_a_time_that_is_none_is_refused(command: Command, config_file: Path, option: str) -> None:
    done = command("audit", "--config", config_file, option, "yesterday")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"retentiond: {option} 'yesterday': expected an age as in 2h, or a time as in "
        "2026-02-01T12:00:00Z\n"
    )


def test_its_evidence_is_a_line_for_each_group(command: Command, config_file: Path) -> None:
    done = command("audit", "--config", config_file, "--topic", "clicks", "--evidence")
    assert [line.split()[1:] for line in done.out.splitlines()[1:-1]] == [
        ["clicks-0", "billing", "100"],
        ["clicks-0", "search", "170"],
    ]


def test_its_csv_has_the_same_names_as_its_json(command: Command, config_file: Path) -> None:
    rows = json.loads(command("audit", "--config", config_file, "--output", "json").out)
    done = command("audit", "--config", config_file, "--output", "csv")
    lines = list(csv.DictReader(io.StringIO(done.out)))
    assert [line["topic"] for line in lines] == ["clicks", "orders", "payments", "views"]
    assert list(lines[0]) == [name for name in rows[0] if name != "evidence"]
    assert lines[0]["error"] == ""


def test_its_csv_with_evidence_has_a_line_for_each_group(
    command: Command, config_file: Path
) -> None:
    done = command("audit", "--config", config_file, "--output", "csv", "--evidence")
    lines = list(csv.DictReader(io.StringIO(done.out)))
    assert [(line["group"], line["committed_offset"]) for line in lines[:2]] == [
        ("billing", "100"),
        ("search", "170"),
    ]
    assert len(lines) == 8


def test_it_can_be_read_where_there_is_no_configuration(
    command: Command, config_file: Path
) -> None:
    done = command("audit", "--state-dir", config_file.parent / "state")
    assert done.out.splitlines()[-1] == "4 deletions"


def test_what_operators_did_is_listed_too(command: Command, config_file: Path) -> None:
    command("pause", "an incident", "--config", config_file)
    done = command("audit", "--config", config_file, "--actions")
    assert "pause" in done.out
    assert done.out.splitlines()[-1] == "1 actions"
    (action,) = json.loads(command("audit", "--config", config_file, "--actions", "-o", "json").out)
    assert (action["action"], action["detail"]) == ("pause", "an incident")


def test_what_was_deleted_rightly_is_verified(command: Command, config_file: Path) -> None:
    done = command("audit", "--config", config_file, "--verify")
    assert (done.code, done.out) == (0, "4 deletions worked out again: 0 differ\n")


def test_a_deletion_that_its_evidence_does_not_bear_out_is_named(
    command: Command, config_file: Path
) -> None:
    with closing(sqlite3.connect(config_file.parent / "state" / "audit.db")) as log, log:
        log.execute("UPDATE deletions SET committed_offsets = '[99, 170]' WHERE topic = 'orders'")
    done = command("audit", "--config", config_file, "--verify")
    assert done.code == 1
    assert done.out.splitlines() == [
        "orders-0 up to 100 in cycle cycle-1: group billing had committed 99 only",
        "4 deletions worked out again: 1 differ",
    ]


def test_where_not_every_group_counted_its_table_and_its_json_say_so(
    command: Command, tmp_path: Path
) -> None:
    state_dir = tmp_path / "state"
    state_dir.mkdir()
    deletion = replace(approved("orders"), row=replace(row("orders"), only_groups="bill.*"))
    with closing(Audit.open(state_dir)) as audit:
        audit.record_cycle(begun(plan("cycle-1", ["orders"])))
        audit.intend("cycle-1", [deletion], PLANNED_AT_MS + 1, evidence_at_ms=PLANNED_AT_MS)
    table = command("audit", "--state-dir", state_dir).out
    assert "On orders only groups that match bill.* count (groups.only)" in table
    (shown,) = json.loads(command("audit", "--state-dir", state_dir, "-o", "json").out)
    assert shown["only_groups"] == "bill.*"
