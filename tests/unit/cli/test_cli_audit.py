"""``retentiond audit`` over a log that was written by hand."""

from __future__ import annotations

import csv
import io
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
from retentiond.model import GroupKind, Outcome, Plan
from retentiond.state.audit import Audit
from retentiond.state.audit_records import DeletionRecord, begun, finished, read_deletions
from retentiond.state.operator_actions import actions_in
from tests.support.builders.guard_readings import commit_evidence
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


def test_its_table_fits_80_columns(
    command: Command, config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
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


@pytest.mark.parametrize("option", ["--since", "--until"])
def test_a_time_that_is_none_is_refused(command: Command, config_file: Path, option: str) -> None:
    done = command("audit", "--config", config_file, option, "yesterday")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"retentiond: {option} 'yesterday': expected an age as in 2h, or a time as in "
        "2026-02-01T12:00:00Z\n"
    )


def test_a_time_that_ends_before_it_begins_is_refused(command: Command, config_file: Path) -> None:
    done = command("audit", "--config", config_file, "--since", "1h", "--until", "2h")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "retentiond: --since lies after --until, or at the same time: there is nothing between\n"
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


@pytest.mark.parametrize("evidence", [[], ["--evidence"]])
def test_its_csv_of_no_deletions_has_the_same_names(
    command: Command, config_file: Path, evidence: list[str]
) -> None:
    shown = ("audit", "--config", config_file, "-o", "csv", *evidence)
    (heads,) = command(*shown, "--topic", "none").out.splitlines()
    assert heads == command(*shown).out.splitlines()[0]


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


def test_a_file_of_no_deletions_can_be_read(
    command: Command, config_file: Path, tmp_path: Path
) -> None:
    file = tmp_path / "none.parquet"
    command("audit", "--config", config_file, "--topic", "none", "--export", file)
    with duckdb.connect() as reader:
        assert reader.execute(f"SELECT * FROM read_parquet('{file}')").fetchall() == []


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("there.csv", [], "{file} exists and is not overwritten; give --export another name"),
        ("link.csv", [], "{file} exists and is not overwritten; give --export another name"),
        ("a.json", [], "--export {file}: give a name that ends with .parquet or .csv"),
        ("no/a.csv", [], "there is no folder {file.parent} for a.csv; make it first"),
        ("a.csv", ["--actions"], "--export writes deletions: leave --actions and --verify out"),
        ("a.csv", ["--verify"], "--export writes deletions: leave --actions and --verify out"),
    ],
)
def test_a_file_that_cannot_be_made_is_refused(  # noqa: PLR0917
    command: Command,
    config_file: Path,
    tmp_path: Path,
    name: str,
    options: list[str],
    told: str,
) -> None:
    (tmp_path / "there.csv").write_text("mine")
    (tmp_path / "link.csv").symlink_to("nowhere")
    before = sorted(tmp_path.iterdir())
    file = tmp_path / name

    done = command("audit", "--config", config_file, "--export", file, *options)

    assert (done.code, done.out) == (2, "")
    assert done.err == f"retentiond: {told.format(file=file)}\n"
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "there.csv").read_text() == "mine"


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_a_file_appears_as_a_whole_or_not_at_all(
    config_file: Path, tmp_path: Path, name: str
) -> None:
    def damaged() -> Iterator[DeletionRecord]:
        yield from read_deletions(config_file.parent / "state")
        raise StateError("the audit log is damaged")

    before = sorted(tmp_path.iterdir())
    with pytest.raises(StateError):
        export_deletions(damaged(), tmp_path / name, with_evidence=False)
    assert sorted(tmp_path.iterdir()) == before


def test_a_file_that_somebody_makes_meanwhile_stays(config_file: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"

    def meanwhile() -> Iterator[DeletionRecord]:
        yield from read_deletions(config_file.parent / "state")
        file.write_text("theirs")

    with pytest.raises(UsageError, match="exists and is not overwritten"):
        export_deletions(meanwhile(), file, with_evidence=False)
    assert file.read_text() == "theirs"


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


def test_what_operators_did_is_listed_too(command: Command, config_file: Path) -> None:
    command("pause", "an incident", "--config", config_file)
    done = command("audit", "--config", config_file, "--actions")
    assert "pause" in done.out
    assert done.out.splitlines()[-1] == "1 action"
    (action,) = json.loads(command("audit", "--config", config_file, "--actions", "-o", "json").out)
    assert (action["action"], action["detail"]) == ("pause", "an incident")


def test_what_operators_did_at_another_time_is_left_out(
    command: Command, config_file: Path
) -> None:
    command("pause", "an incident", "--config", config_file)
    shown = ("audit", "--config", config_file, "--actions")
    assert command(*shown, "--since", "1h").out.splitlines()[-1] == "1 action"
    assert command(*shown, "--until", "1h").out.splitlines()[-1] == "0 actions"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--actions", "--topic", "orders"], "--topic is about deletions: leave --actions out"),
        (["--actions", "--partition", "0"], "--partition is about deletions: leave --actions out"),
        (["--actions", "--outcome", "failed"], "--outcome is about deletions: leave --actions out"),
        (["--actions", "--evidence"], "--evidence is about deletions: leave --actions out"),
        (["--actions", "--verify"], "--verify is about deletions: leave --actions out"),
        (["--verify", "-o", "csv"], "--output csv does not go with --verify"),
        (["--verify", "--evidence"], "--evidence does not go with --verify"),
        (
            ["--export", "a.csv", "-o", "json"],
            "--output does not go with --export: its FILE names the format",
        ),
    ],
)
def test_an_option_that_would_have_no_effect_is_refused(
    command: Command, config_file: Path, options: list[str], told: str
) -> None:
    done = command("audit", "--config", config_file, *options)
    assert (done.code, done.out, done.err) == (2, "", f"retentiond: {told}\n")


def test_the_table_of_deletions_says_that_operators_acted_too(
    command: Command, config_file: Path
) -> None:
    told = "by operators {} shown by --actions"
    for number, words in (
        (1, f"1 action {told.format('is')}"),
        (2, f"2 actions {told.format('are')}"),
    ):
        command("pause", f"incident {number}", "--config", config_file)
        done = command("audit", "--config", config_file)
        assert done.out.splitlines()[-2:] == ["4 deletions", words]
    done = command("audit", "--config", config_file, "--topic", "clicks")
    assert done.out.splitlines()[-2:] == ["1 deletion", words]
    for form in ("json", "csv"):
        assert "--actions" not in command("audit", "--config", config_file, "-o", form).out


def test_what_was_deleted_rightly_is_verified(command: Command, config_file: Path) -> None:
    done = command("audit", "--config", config_file, "--verify")
    assert (done.code, done.out) == (0, "4 deletions worked out again: 0 differ\n")
    shown = json.loads(command("audit", "--config", config_file, "-o", "json").out)
    done = command("audit", "--config", config_file, "--verify", "-o", "json")
    assert (done.code, json.loads(done.out)) == (0, [each | {"differences": []} for each in shown])


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
    done = command("audit", "--config", config_file, "--verify", "-o", "json")
    differing = [each for each in json.loads(done.out) if each["differences"]]
    assert done.code == 1
    assert [(each["topic"], each["cutoff"], each["differences"]) for each in differing] == [
        ("orders", 100, ["group billing had committed 99 only"])
    ]


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
