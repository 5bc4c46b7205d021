"""``retentiond audit`` over a log that was written by hand."""

from __future__ import annotations

import csv
import json
import sqlite3
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Any

import duckdb
import pytest

from retentiond.act.approved import Approved, GroupEvidence
from retentiond.cli import audit as audit_command
from retentiond.cli.output import audit as output
from retentiond.cli.output.audit import SCHEMA, export_deletions
from retentiond.cli.output.printing import csv_cell, print_json, print_json_list
from retentiond.errors import StateError, UsageError
from retentiond.fields import rfc3339
from retentiond.model import GroupKind, Outcome, Plan
from retentiond.state.audit import Audit
from retentiond.state.audit_records import (
    DeletionRecord,
    LastRequests,
    cycle_record,
    last_requests,
    read_deletions,
)
from retentiond.state.operator_actions import actions_in
from tests.support.builders.guard_readings import commit_evidence
from tests.support.builders.reports import PLANNED_AT_MS, outcome, report, row
from tests.support.golden import Golden
from tests.unit.cli.conftest import CONFIG, Command, Transcript

EVIDENCE = (
    GroupEvidence("billing", GroupKind.CLASSIC, 100),
    GroupEvidence("search", GroupKind.CONSUMER, 170),
)


def plan(cycle_id: str, topics: list[str]) -> Plan:
    return replace(report([row(topic) for topic in topics]).plan, cycle_id=cycle_id)


def approved(topic: str) -> Approved:
    return Approved(topic, 0, f"id-of-{topic}", 100, 10, commit_evidence(EVIDENCE), row(topic))


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
        audit.record_cycle(cycle_record(whole))
        audit.intend(
            "cycle-1",
            [approved(each.topic) for each in outcomes],
            PLANNED_AT_MS + 1,
            evidence_at_ms=PLANNED_AT_MS,
        )
        audit.settle("cycle-1", outcomes, PLANNED_AT_MS + 2)
        audit.record_cycle(cycle_record(whole, outcomes, PLANNED_AT_MS + 3))
        audit.record_cycle(cycle_record(plan("cycle-2", ["views"])))
        audit.intend(
            "cycle-2",
            [replace(approved("views"), row=replace(row("views"), only_groups="bill.*"))],
            PLANNED_AT_MS + 4,
            evidence_at_ms=PLANNED_AT_MS,
        )
    path = tmp_path / "mine.yaml"
    path.write_text(f"state_dir: {state_dir}\n{CONFIG}")
    return path


def test_its_table_its_json_and_its_csv(
    transcript: Transcript, config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tests/golden/audit: every deletion with its outcome, and on request with its evidence."""
    monkeypatch.setenv("COLUMNS", "80")
    shown = ("audit", "--config", config_file)
    transcript(*shown)
    transcript(*shown, "--topic", "clicks", "--evidence")
    transcript(*shown, "--topic", "orders", "--output", "json")
    transcript(*shown, "--output", "csv")
    transcript(*shown, "--output", "csv", "--evidence")
    transcript(*shown, "--output", "csv", "--topic", "none")
    transcript(*shown, "--output", "csv", "--topic", "none", "--evidence")
    transcript("audit", "--state-dir", config_file.parent / "state", "--topic", "orders")
    transcript.check("audit/deletions.txt")


@pytest.mark.parametrize(
    ("options", "topics"),
    [
        (["--topic", "orders"], ["orders"]),
        (["--topic", "orders", "--partition", "1"], []),
        (["--outcome", "failed"], ["orders"]),
        (["--outcome", "unknown"], ["payments", "views"]),
        (["--since", "2026-09-21T14:13:20.125Z"], ["views"]),
        (["--since", "2026-09-21T16:13:20.125+02:00"], ["views"]),
        (["--since", "2026-09-21t14:13:20.125z"], ["views"]),
        (["--since", "1000000d"], ["clicks", "orders", "payments", "views"]),
        (["--until", "2026-09-21T14:13:20.125"], ["clicks", "orders", "payments"]),
        (["--since", "1h"], []),
    ],
)
def test_it_can_be_asked_for_some_of_them(
    command: Command, config_file: Path, options: list[str], topics: list[str]
) -> None:
    done = command("audit", "--config", config_file, *options, "--output", "json")
    assert [each["topic"] for each in json.loads(done.out)] == topics


def test_what_it_refuses(transcript: Transcript, config_file: Path) -> None:
    """tests/golden/audit: a time that is none, and options that would have no effect."""
    for options in (
        ["--since", "yesterday"],
        ["--until", "yesterday"],
        ["--since", "1h", "--until", "2h"],
        ["--actions", "--topic", "orders"],
        ["--actions", "--partition", "0"],
        ["--actions", "--outcome", "failed"],
        ["--actions", "--evidence"],
        ["--actions", "--verify"],
        ["--verify", "-o", "csv"],
        ["--verify", "--evidence"],
        ["--export", "a.csv", "-o", "json"],
        ["--export", "a.csv", "--actions"],
        ["--export", "a.csv", "--verify"],
        ["--export", "a.json"],
        ["--export", "no/a.csv"],
    ):
        transcript.refused("audit", "--config", config_file, *options)
    transcript.check("audit/refused.txt")


# --- files


def test_its_parquet_says_what_its_json_says(
    command: Command, config_file: Path, tmp_path: Path
) -> None:
    file = tmp_path / "all.parquet"
    rows = json.loads(command("audit", "--config", config_file, "--output", "json").out)

    done = command("audit", "--config", config_file, "--export", file)

    assert (done.code, done.err, done.out) == (0, "", f"4 deletions written to {file}\n")
    assert SCHEMA.names == list(rows[0])
    with duckdb.connect() as reader:
        read = reader.execute(f"SELECT * FROM read_parquet('{file}')")
        names = [name for name, *_ in read.description or ()]
        found = [dict(zip(names, values, strict=True)) for values in read.fetchall()]
    assert names == list(rows[0])
    for each in found:
        each["evidence_at"], each["requested_at"] = (
            each[name].astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
            for name in ("evidence_at", "requested_at")
        )
    assert found == rows
    none = tmp_path / "none.parquet"
    command("audit", "--config", config_file, "--topic", "none", "--export", none)
    with duckdb.connect() as reader:
        assert reader.execute(f"SELECT * FROM read_parquet('{none}')").fetchall() == []


@pytest.mark.parametrize("evidence", [[], ["--evidence"]])
def test_its_csv_file_is_what_it_prints_as_csv(
    command: Command, config_file: Path, tmp_path: Path, evidence: list[str]
) -> None:
    file = tmp_path / "some.csv"
    options = ["audit", "--config", config_file, "--topic", "orders", *evidence]

    done = command(*options, "--export", file)

    assert done.out == f"1 deletion written to {file}\n"
    assert file.read_text("utf-8") == command(*options, "--output", "csv").out
    assert "orders" in file.read_text("utf-8")


@pytest.mark.parametrize("name", ["there.csv", "link.csv"])
def test_a_file_that_is_there_is_not_overwritten(
    command: Command, config_file: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "there.csv").write_text("mine")
    (tmp_path / "link.csv").symlink_to("nowhere")
    before = sorted(tmp_path.iterdir())
    file = tmp_path / name

    done = command("audit", "--config", config_file, "--export", file)

    assert (done.code, done.out) == (2, "")
    assert (
        done.err
        == f"retentiond: {file} exists and is not overwritten; give --export another name\n"
    )
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "there.csv").read_text() == "mine"


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
@pytest.mark.parametrize("what", ["is damaged", "is joined by somebody's file"])
def test_a_file_appears_as_a_whole_or_not_at_all_and_replaces_none(
    config_file: Path, tmp_path: Path, name: str, what: str
) -> None:
    file = tmp_path / name

    def meanwhile() -> Iterator[DeletionRecord]:
        yield from read_deletions(config_file.parent / "state")
        if what == "is damaged":
            raise StateError("the audit log is damaged")
        file.write_text("theirs")

    before = sorted(tmp_path.iterdir())
    with pytest.raises((StateError, UsageError), match=r"is damaged|exists and is not overwritten"):
        export_deletions(meanwhile(), file, with_evidence=False)
    assert sorted({*tmp_path.iterdir()} - {file}) == before
    assert file.exists() is (what != "is damaged")
    assert not file.exists() or file.read_text() == "theirs"


# --- long logs


def test_a_long_log_is_several_tables_and_counted_once(
    command: Command, config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "TABLE_ROWS", 2)
    lines = command("audit", "--config", config_file).out.splitlines()
    assert [line.split()[0] for line in lines].count("REQUESTED") == 2
    topics = [line.split()[1] for line in lines if line.startswith("2026-")]
    assert topics == ["clicks-0", "orders-0", "payments-0", "views-0"]
    assert lines[-1] == "4 deletions"


@pytest.mark.parametrize(
    ("options", "written"),
    [
        (["-o", "json"], "stdout"),
        (["-o", "csv"], "stdout"),
        ([], "stdout"),
        (["--actions"], "stdout"),
        (["--actions", "-o", "json"], "stdout"),
        (["--verify"], "stdout"),
        (["--verify", "-o", "json"], "stdout"),
        (["--export", "a.csv"], "a.csv.*"),
        (["--export", "a.parquet"], "a.parquet.*"),
    ],
)
def test_a_log_is_shown_as_it_is_read_whatever_its_size(
    command: Command,
    config_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    written: str,
) -> None:
    """Half of it is out before the last record is read."""
    state_dir, folder = config_file.parent / "state", config_file.parent
    rows = 400
    with closing(sqlite3.connect(state_dir / "audit.db")) as log, log:
        names = [name for _, name, *_ in log.execute("PRAGMA table_info(deletions)")]
        rest = ", ".join(sorted({*names} - {"id", "partition", "unsettled", "committed_offsets"}))
        for number in range(1, rows):
            log.execute(
                f"INSERT INTO deletions (partition, unsettled, committed_offsets, {rest})"
                f" SELECT {number}, 0, '[1, 2]', {rest} FROM deletions WHERE topic = 'orders'"
                " AND partition = 0"
            )
            log.execute("INSERT INTO actions VALUES (NULL, 1, 'anna', 'pause', NULL, 'x', 0)")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(output, "TABLE_ROWS", 50)
    monkeypatch.setattr(output, "GROUP_ROWS", 50)
    out = (folder / "stdout").open("w", buffering=1)
    monkeypatch.setattr(sys, "stdout", out)
    sizes: list[int] = []

    def sized(values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            out.flush()
            sizes.append(sum(file.stat().st_size for file in folder.glob(written)))
            yield value

    def read(*args: Any) -> Iterator[DeletionRecord]:
        return sized(read_deletions(*args))

    monkeypatch.setattr(audit_command, "read_deletions", read)
    monkeypatch.setattr(audit_command, "actions_in", lambda folder: sized(actions_in(folder)))
    with closing(out):
        command("audit", "--state-dir", state_dir, *options)

    assert len(sizes) >= rows - 1
    assert sizes[rows // 2] > 1000


def test_its_json_is_written_as_it_is_read_and_stays_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for rows in ([], [{"a": ["line\nbreak", None]}], [{"a": 1, "b": {"c": 2}}, {}, []]):
        print_json_list(iter(rows))
        streamed = capsys.readouterr().out
        print_json(rows)
        assert capsys.readouterr().out == streamed


# --- operators


def test_what_operators_did_and_what_is_verified(
    transcript: Transcript,
    command: Command,
    config_file: Path,
    golden: Golden,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """tests/golden/audit: the table of deletions says that operators acted too."""
    monkeypatch.setenv("LOGNAME", "ada")
    shown = ("audit", "--config", config_file)
    transcript(*shown, "--verify")
    for number in (1, 2):
        transcript("pause", f"incident {number}", "--config", config_file)
        transcript(*shown, "--topic", "clicks")
    transcript(*shown, "--actions")
    transcript(*shown, "--actions", "-o", "json")
    transcript(*shown, "--actions", "--until", "1h")
    with closing(sqlite3.connect(config_file.parent / "state" / "audit.db")) as log, log:
        log.execute("UPDATE deletions SET committed_offsets = '[99, 170]' WHERE topic = 'orders'")
    transcript(*shown, "--verify")
    done = command(*shown, "--topic", "orders", "--verify", "-o", "json")
    (differing,) = json.loads(done.out)
    differences = differing.pop("differences")
    assert (done.code, differences) == (1, ["group billing had committed 99 only"])
    assert [differing] == json.loads(command(*shown, "--topic", "orders", "-o", "json").out)
    for action in actions_in(config_file.parent / "state"):
        golden.shown[rfc3339(action.at_ms)] = "2026-09-22T00:00:00.000Z"
    transcript.check("audit/operators.txt")


@pytest.mark.parametrize(
    "name", ["=1+1", "+1", "-a", "@sum", "\tx", "\r=1", "\n=1", "\uff1d1", "'a"]
)
def test_a_name_is_no_formula_in_its_csv(
    command: Command, config_file: Path, tmp_path: Path, name: str
) -> None:
    with closing(sqlite3.connect(config_file.parent / "state" / "audit.db")) as log, log:
        log.execute("UPDATE deletions SET binding_group = ?", (name,))
        log.execute(
            "UPDATE group_lists SET groups = ?",
            (json.dumps([[name, "classic"], ["b", "classic"]]),),
        )
    file = tmp_path / "a.csv"
    options = ("audit", "--config", config_file, "--evidence")
    assert command(*options, "--export", file).code == 0
    with file.open(encoding="utf-8", newline="") as opened:
        line = next(csv.DictReader(opened))
    assert (line["binding_group"], line["group"]) == (f"'{name}", f"'{name}")
    assert (line["topic"], csv_cell(-1), csv_cell("a-1")) == ("clicks", -1, "a-1")


def test_what_was_not_deleted_is_shown_with_its_error_at_any_width(
    command: Command, config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for columns in ("40", "80", "300"):
        monkeypatch.setenv("COLUMNS", columns)
        lines = command("audit", "--config", config_file).out.splitlines()
        at = lines.index("  why it is failed")
        assert "orders-0" in lines[at - 1] or "failed" in lines[at - 1]
        assert lines.count("  why it is unknown") == 1


def test_the_last_requests_are_those_that_ended_alike_and_not_well(config_file: Path) -> None:
    state_dir = config_file.with_name("state")
    assert last_requests(state_dir, "clicks") is None
    assert last_requests(state_dir, "nowhere") is None
    assert last_requests(state_dir / "nowhere", "orders") is None
    assert last_requests(state_dir, "orders", 1) is None
    failed = LastRequests(Outcome.FAILED, 1, PLANNED_AT_MS + 1, "why it is failed")
    assert last_requests(state_dir, "orders") == last_requests(state_dir, "orders", 0) == failed
    open_intent = LastRequests(Outcome.UNKNOWN, 1, PLANNED_AT_MS + 4, None)
    assert last_requests(state_dir, "views") == open_intent

    with closing(Audit.open(state_dir)) as audit:
        for number, what in enumerate([Outcome.FAILED, Outcome.FAILED, Outcome.DELETED]):
            cycle_id, at_ms = f"later-{number}", PLANNED_AT_MS + 10 * (number + 1)
            audit.record_cycle(cycle_record(plan(cycle_id, ["orders"])))
            audit.intend(cycle_id, [approved("orders")], at_ms, evidence_at_ms=PLANNED_AT_MS)
            audit.settle(cycle_id, [outcome("orders", what=what)], at_ms + 1)
            last = last_requests(state_dir, "orders")
            assert (last and last.count) == (None if what is Outcome.DELETED else number + 2)
            assert last is None or last.since_ms == failed.since_ms
