"""What people see of a plan (tests/golden/plan): on a narrow terminal, a wide one, in a pipe."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from retentiond.cli.options import Output
from retentiond.cli.output.plan import show
from retentiond.disks.broker_disks import DiskReport
from retentiond.disks.log_dirs import Orphans
from retentiond.disks.stuck import Stuck, StuckCause
from retentiond.model import Outcome, Reason, TopicPartition
from retentiond.state.state_dir import holder_of
from retentiond.tell.report import CycleReport
from tests.support.builders.reports import outcome, report, row, turned_down, unreadable
from tests.support.golden import Golden
from tests.unit.cli.conftest import Command, OneCycle, on_screen

GIB = 2**30
pytestmark = pytest.mark.usefixtures("no_terminal")


def everything() -> CycleReport:
    """A plan with all that a table may say."""
    rows = [
        replace(row("orders", 0), predicted_bytes=3 * GIB, only_groups="billing|search"),
        replace(row("orders", 1), predicted_bytes=GIB, only_groups="billing|search"),
        row("exports", 0, Reason.RETENTION_EXCEEDS_FORCED),
        unreadable("refunds"),
        replace(
            row("accounts"),
            is_compacted=True,
            only_groups="billing|search",
            binding_group="[red]app:key:1[/nonsense]",
        ),
        replace(row("clicks"), only_groups="web", binding_group="a\x1b[2Jb\nc"),
        replace(
            row("payments.settlements.enriched.with.a.name.that.goes.on.and.on.v2", 11),
            log_start_offset=123_456_789_012,
            high_watermark=123_556_789_012,
            min_committed_offset=123_486_789_012,
            cutoff=123_486_789_012,
            records=30_000_000_000,
            predicted_bytes=3 * 10**12,
            binding_group="a-group-whose-name-is-as-long-as-that-of-the-topic-which-it-reads",
        ),
    ]
    of_rows = report(
        rows,
        [outcome("orders", 0), outcome("orders", 1, Outcome.FAILED)],
        problems=(
            "Kafka hides groups from this principal: grant it DESCRIBE on the cluster [sic]",
        ),
        paused="paused by root: incident 12",
    )
    stuck = Stuck("orders", 0, StuckCause.REPLICA_GROWS, "broker 1 keeps it")
    sizes = {TopicPartition("orders", number): 10 * GIB for number in range(2)}
    orphans = (Orphans(1, "/a", 0, 0), Orphans(2, "/a", 3, 700))
    problems = ("broker 2 is silent",)
    return replace(
        of_rows, disk=DiskReport(sizes, stuck=(stuck,), orphans=orphans, problems=problems)
    )


def shown(
    capsys: pytest.CaptureFixture[str], of: CycleReport, *, with_outcomes: bool = False
) -> str:
    show(of, Output.TABLE, with_outcomes=with_outcomes)
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


@pytest.mark.parametrize("columns", ["250", None])
def test_on_a_wide_terminal_and_in_a_pipe_every_figure_is_there(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    golden: Golden,
    columns: str | None,
) -> None:
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    golden("plan/table.txt", shown(capsys, everything()))


def test_in_80_columns_no_word_or_figure_is_cut_and_what_is_left_out_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = shown(capsys, everything())
    assert max(map(len, text.partition("Left out for lack of room")[0].splitlines())) <= 80
    golden("plan/narrow.txt", text)


def test_on_a_terminal_a_plan_is_shown_by_topic_unless_partitions_are_asked_for(
    capsys: pytest.CaptureFixture[str], golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_screen(monkeypatch)
    show(everything(), Output.TABLE, with_outcomes=False, by_topic=True)
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    golden("plan/topics.txt", text)
    assert "orders-1" in shown(capsys, everything())


@pytest.mark.parametrize("is_screen", [True, False])
def test_six_hundred_topics_fit_a_screen_and_are_all_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, is_screen: bool
) -> None:
    if is_screen:
        on_screen(monkeypatch)
    rows = [row(f"t{number:03}", partition) for number in range(600) for partition in range(2)]
    show(report(rows), Output.TABLE, with_outcomes=False, by_topic=True)
    text = capsys.readouterr().out
    assert ("t599-1" in text) == (not is_screen)
    assert ("580 more topics free 97%." in text) == is_screen
    assert (len(text.splitlines()) < 50) == is_screen


def test_after_a_run_the_table_says_what_became_of_it(
    capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    done = everything()
    whole = replace(done, plan=replace(done.plan, complete=True, paused=None), disk=DiskReport())
    tried = report([row("orders")], [outcome("orders", what=Outcome.NOT_ATTEMPTED)], dry_run=True)
    one = report([row("orders")], [outcome("orders")])
    on_trial = report([replace(row("clicks"), dry_run=True), row("orders")], [outcome("orders")])
    golden(
        "plan/outcomes.txt",
        "\n".join(
            shown(capsys, each, with_outcomes=True) for each in (whole, tried, one, on_trial)
        ),
    )


def test_its_json_is_all_there_is_on_stdout(
    capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    """Of a partition of which all is known, and of one of which nothing is."""
    whole = everything()
    rows = [row for row in whole.plan.rows if row.topic == "refunds" or row.partition == 1]
    show(
        replace(whole, plan=replace(whole.plan, rows=tuple(rows))), Output.JSON, with_outcomes=True
    )
    captured = capsys.readouterr()
    json.loads(captured.out)
    assert captured.err == ""
    golden("plan/plan.json", captured.out)


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
    command: Command, monkeypatch: pytest.MonkeyPatch, config: Path, of: CycleReport, code: int
) -> None:
    monkeypatch.setattr("retentiond.daemon.engine.Engine", lambda *_, **__: OneCycle(of))
    assert command("run", "--once", "--config", config).code == code


def test_it_logs_what_became_of_earlier_deletions_and_what_nobody_knows_of_its_own(
    command: Command, monkeypatch: pytest.MonkeyPatch, config: Path
) -> None:
    cycle = OneCycle(report([row("orders")], [outcome("orders", what=Outcome.UNKNOWN)]))
    cycle.reconcile = lambda _state: (outcome("clicks", 7),)
    monkeypatch.setattr("retentiond.daemon.engine.Engine", lambda *_, **__: cycle)
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
    command: Command, monkeypatch: pytest.MonkeyPatch, config: Path
) -> None:
    """Closing it would wait for the cycle's writing, or break it."""
    state_dir = config.parent / "state"
    held: list[bool] = []

    def end_at_once(code: int) -> None:
        held.append(holder_of(state_dir) is not None)
        raise SystemExit(code)

    class Abandoning:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def run(self) -> bool:
            return False

    monkeypatch.setattr("retentiond.daemon.daemon.Daemon", Abandoning)
    monkeypatch.setattr("retentiond.cli.run._end_at_once", end_at_once)
    assert command("run", "--config", config).code == 0
    assert held == [True]
