"""What people see of a plan and of the audit log: on a narrow terminal, a wide one, in a pipe."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from retentiond.cli.options import Output
from retentiond.cli.output.plan import show
from retentiond.disks.broker_disks import DiskReport
from retentiond.disks.stuck import Stuck, StuckCause
from retentiond.model import Outcome, PlanRow, Reason, TopicPartition
from retentiond.state.state_dir import holder_of
from retentiond.tell.report import CycleReport
from tests.support.builders.reports import outcome, report, row, turned_down, unreadable
from tests.unit.cli.conftest import CONFIG, Command, OneCycle

LONG = "payments.settlements.enriched.with.a.name.that.goes.on.and.on.v2"
BIG = replace(
    row(LONG, 11),
    log_start_offset=123_456_789_012,
    high_watermark=123_556_789_012,
    min_committed_offset=123_486_789_012,
    cutoff=123_486_789_012,
    records=30_000_000_000,
    predicted_bytes=3 * 10**12,
    binding_group="a-group-whose-name-is-as-long-as-that-of-the-topic-which-it-reads",
)
ROWS = [
    row("orders", 0),
    row("orders", 1, Reason.RETENTION_EXCEEDS_FORCED),
    unreadable("refunds"),
    BIG,
]


@pytest.fixture(autouse=True)
def _no_settings_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


def shown(
    capsys: pytest.CaptureFixture[str], of: CycleReport, *, with_outcomes: bool = False
) -> str:
    show(of, Output.TABLE, with_outcomes=with_outcomes)
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def cells(text: str, first: str) -> str:
    """The words of the line that begins with this one."""
    (line,) = (line for line in text.splitlines() if line.startswith(f"{first} "))
    return " ".join(line.split())


def table(text: str) -> list[str]:
    """The lines above the one that says what is not in the table."""
    return text.partition("Left out for lack of room")[0].splitlines()


@pytest.mark.parametrize("columns", ["250", None])
def test_on_a_wide_terminal_and_in_a_pipe_every_figure_is_there(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str | None
) -> None:
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    text = shown(capsys, report(ROWS))
    assert cells(text, "TOPIC-PARTITION") == (
        "TOPIC-PARTITION START COMMITTED END CUTOFF RECORDS BYTES VERDICT BOUND BY"
    )
    assert cells(text, "orders-0") == "orders-0 10 100 200 100 90 ? delete: consumed billing"
    assert cells(text, "refunds-0") == "refunds-0 ? ? ? ? - - hold: offset_unreadable -"
    assert cells(text, f"{LONG}-11") == (
        f"{LONG}-11 123456789012 123486789012 123556789012 123486789012 30000000000 "
        f"2.7 TiB delete: consumed {BIG.binding_group}"
    )


@pytest.mark.parametrize("with_outcomes", [False, True])
def test_the_table_fits_80_columns_and_no_word_or_figure_is_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, with_outcomes: bool
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = shown(capsys, report(ROWS, [outcome("orders")]), with_outcomes=with_outcomes)
    assert max(len(line) for line in table(text)) <= 80
    assert "…" not in text
    assert cells(text, "orders-1") == "orders-1 - hold: retention_exceeds_forced billing"
    assert " 30000000000 delete: " in text


@pytest.mark.parametrize(("name", "value"), [("COLUMNS", "80"), ("FORCE_COLOR", "1")])
def test_a_narrow_table_says_what_it_left_out_and_where_to_find_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """By $COLUMNS, or on a terminal, which rich takes for granted then."""
    monkeypatch.setenv(name, value)
    text = shown(capsys, report(ROWS))
    assert "room: START, COMMITTED, END, CUTOFF, BYTES. See --output json." in text


def test_a_long_name_is_folded_and_stays_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    column = [line.split(" ")[0] for line in table(shown(capsys, report([BIG])))[1:]]
    assert "".join(column) == f"{LONG}-11"


def test_a_name_full_of_markup_is_shown_as_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    binding = replace(row("orders"), binding_group="[red]app:key:1[/nonsense]")
    assert cells(shown(capsys, report([binding])), "orders-0").endswith(
        " [red]app:key:1[/nonsense]"
    )


def test_a_groups_name_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    binding = replace(row("orders"), binding_group="a\x1b[2Jb\nc")
    assert cells(shown(capsys, report([binding])), "orders-0").endswith(" a\ufffd[2Jb\ufffdc")


def test_in_a_pipe_there_are_no_colours(capsys: pytest.CaptureFixture[str]) -> None:
    assert "\x1b" not in shown(capsys, report(ROWS, problems=("a broker is down",)))


@pytest.mark.parametrize(("no_color", "coloured"), [(None, True), ("1", False)])
def test_colours_are_for_terminals_that_want_them(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    no_color: str | None,
    coloured: bool,
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as rich takes a terminal for granted
    monkeypatch.setenv("TERM", "xterm-256color")
    if no_color:
        monkeypatch.setenv("NO_COLOR", no_color)
    assert ("\x1b[32m" in shown(capsys, report([row("orders")]))) is coloured


def test_the_reasons_of_an_incomplete_plan_stand_below_it_each_on_a_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    problem = "Kafka hides groups from this principal: " + "grant it DESCRIBE " * 5 + "[sic]"
    text = shown(capsys, report(ROWS, problems=(problem,)))
    assert f"\nincomplete: {problem}\n" in text


def test_what_a_policy_goes_on_in_spite_of_is_a_warning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    done = report(ROWS, problems=("Kafka hides groups",))
    assumed = replace(done, plan=replace(done.plan, complete=True))
    assert "\nwarning: Kafka hides groups\n" in shown(capsys, assumed)


def summary(text: str) -> str:
    return text.splitlines()[-1]


def test_the_last_line_sums_up_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row("orders", 0), row("orders", 1), row("refunds", 0, Reason.NO_GROUP)]
    assert summary(shown(capsys, report(rows))) == (
        "3 partitions of 2 topics: 180 records in 2 partitions may go; nothing was deleted; 1 held."
    )


def test_after_a_dry_run_it_says_that_nothing_was_deleted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    done = report([row("orders")], [outcome("orders", what=Outcome.NOT_ATTEMPTED)], dry_run=True)
    text = shown(capsys, done, with_outcomes=True)
    assert summary(text) == (
        "1 partition of 1 topic: 90 records in 1 partition may go; nothing was deleted; 0 held."
    )


def test_after_a_run_it_says_what_was_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[PlanRow] = [row("orders", number) for number in range(3)]
    outcomes = [outcome("orders", 0), outcome("orders", 1, Outcome.FAILED)]
    text = shown(capsys, report(rows, outcomes), with_outcomes=True)
    assert summary(text) == "3 partitions of 1 topic: 90 of 270 records deleted; 0 held."
    assert cells(text, "orders-0").endswith(" 90 ? delete: deleted billing")
    assert cells(text, "orders-1").endswith(" 90 ? delete: failed billing")
    assert cells(text, "orders-2").endswith(" 90 ? delete: not_attempted billing")


def test_json_is_all_there_is_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    show(report(ROWS), Output.JSON, with_outcomes=False)
    captured = capsys.readouterr()
    assert json.loads(captured.out)["cycle_id"] == "0123456789ab"
    assert captured.out.endswith("}\n")
    assert captured.err == ""


def test_while_it_is_paused_the_table_ends_with_why(capsys: pytest.CaptureFixture[str]) -> None:
    show(
        report([row("orders")], paused="paused by root: incident 12"),
        Output.TABLE,
        with_outcomes=False,
    )

    assert "\npaused by root: incident 12\n" in capsys.readouterr().out


def test_bytes_are_told_by_topic_and_in_sum_where_they_are_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [
        replace(row("orders", 0), predicted_bytes=3 * 2**20),
        replace(row("orders", 1), predicted_bytes=2**20),
    ]
    sizes = {TopicPartition("orders", number): 10 * 2**20 for number in range(2)}
    text = shown(capsys, replace(report(rows), disk=DiskReport(size_bytes=sizes)))
    assert "orders: about 4.0 MiB of 20.0 MiB on disk (20%) in 180 records\n" in text
    assert "180 records in 2 partitions may go (about 4.0 MiB on disk); nothing" in text
    assert "on disk" not in shown(capsys, report([*rows, row("views")])).splitlines()[-1]


def test_what_is_stuck_and_what_is_not_known_of_the_disks_is_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stuck = Stuck(TopicPartition("orders", 0), StuckCause.REPLICA_GROWS, "broker 1 keeps it")
    disk = DiskReport(stuck=(stuck,), problems=("broker 2 is silent",))
    text = shown(capsys, replace(report([row("orders")]), disk=disk))
    assert "stuck: orders-0: broker 1 keeps it\n" in text
    assert "bytes are not known: broker 2 is silent\n" in text


# How `run --once` ends


@pytest.mark.parametrize(
    ("of", "code"),
    [
        (report([row("orders")], [outcome("orders")]), 0),
        (report([row("orders")], [outcome("orders", what=Outcome.FAILED)]), 1),
        (report([turned_down()]), 1),
        (report([turned_down(), row("orders", 1)], [outcome("orders", 1)]), 0),
        (report([row("orders", reason=Reason.NO_GROUP)]), 0),
        # nothing was planned, so nothing is undone; the log and the plan say why
        (report([row("orders", reason=Reason.GROUP_LIST_INCOMPLETE)], problems=("moved",)), 0),
    ],
)
def test_its_exit_code_says_whether_what_was_planned_was_done(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, of: CycleReport, code: int
) -> None:
    monkeypatch.setattr("retentiond.engine.Engine", lambda *_, **__: OneCycle(of))
    config = tmp_path / "retentiond.yaml"
    config.write_text(f"{CONFIG}state_dir: {tmp_path / 'state'}\n")
    assert command("run", "--once", "--config", config).code == code


def test_it_logs_what_became_of_earlier_deletions_and_what_nobody_knows_of_its_own(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cycle = OneCycle(report([row("orders")], [outcome("orders", what=Outcome.UNKNOWN)]))
    cycle.reconcile = lambda _state: (outcome("clicks", 7),)
    monkeypatch.setattr("retentiond.engine.Engine", lambda *_, **__: cycle)
    config = tmp_path / "retentiond.yaml"
    config.write_text(f"{CONFIG}state_dir: {tmp_path / 'state'}\n")
    lines = [
        json.loads(line)
        for line in command("run", "--once", "--config", config).err.split("\n")
        if line
    ]
    told = [(each["event"], each["topic"], each["outcome"]) for each in lines if "outcome" in each]
    assert told == [
        ("retentiond.deletion_settled", "clicks", "deleted"),
        ("retentiond.deletion_unclear", "orders", "unknown"),
    ]


def test_a_daemon_whose_cycle_does_not_end_ends_before_its_state_is_closed(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Closing it would wait for the cycle's writing, or break it."""
    state_dir = tmp_path / "state"
    held: list[bool] = []

    def end_at_once(code: int) -> None:
        held.append(holder_of(state_dir) is not None)
        raise SystemExit(code)

    class Abandoning:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def run(self) -> bool:
            return False

    monkeypatch.setattr("retentiond.daemon.Daemon", Abandoning)
    monkeypatch.setattr("retentiond.cli.run._end_at_once", end_at_once)
    config = tmp_path / "retentiond.yaml"
    config.write_text(f"{CONFIG}state_dir: {state_dir}\n")
    assert command("run", "--config", config).code == 0
    assert held == [True]


def test_where_not_every_group_counts_a_line_below_the_plan_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = "only groups that match billing|search count (groups.only)"
    assert said not in shown(capsys, report([row("orders")]))
    text = shown(capsys, report([replace(row("orders"), only_groups="billing|search")]))
    assert f"\nOn orders {said}: what any other group has not read may be deleted.\n" in text


def test_of_a_compacted_topic_it_is_said_that_records_are_offsets(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = "compacted: RECORDS counts offsets there, and as many records or fewer exist."
    assert f"orders is {said}" in shown(capsys, report([replace(row("orders"), is_compacted=True)]))
    assert "compacted" not in shown(capsys, report([row("orders")]))
