"""The plan as JSON, and the canonical log line: the names that scripts rely on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from retentiond.disks.broker_disks import DiskReport
from retentiond.disks.stuck import Stuck, StuckCause
from retentiond.model import Failure, GroupKind, Outcome, Reason
from retentiond.snapshot import GroupReading
from retentiond.tell.reasons import tool_options
from retentiond.tell.report import CycleReport, GroupState, document, figures, group_states
from tests.support.builders.guard_readings import Reading
from tests.support.builders.reports import outcome, report, row, turned_down, unreadable

DONE, YOUNG = row("orders", 1), row("orders", 1, Reason.TOO_YOUNG)
OF_DONE = [outcome("orders", 1)]
TURNED_DOWN = "1 of {} deletions not done: the guard turned it down: a group is gone"


@pytest.mark.parametrize(
    ("of", "result", "undone"),
    [
        (report([DONE], OF_DONE), "ok", []),
        (report([DONE], problems=("a broker is down",)), "incomplete", None),
        (
            report([DONE], [outcome("orders", 1, Outcome.FAILED)]),
            "incomplete",
            ["1 of 1 deletions not done: why it is failed"],
        ),
        (
            replace(report([DONE], OF_DONE), failure=OSError("disk full")),
            "failed",
            ["the cycle failed: OSError: disk full"],
        ),
        # The guard leaves nothing of the plan, then something, without evidence of its own.
        (report([turned_down(), YOUNG]), "incomplete", [TURNED_DOWN.format(1)]),
        (report([turned_down(), DONE], OF_DONE), "ok", []),
        (
            report([turned_down(), DONE], OF_DONE, guard_problems=("coordinators moved",)),
            "incomplete",
            [TURNED_DOWN.format(2)],
        ),
        # A dry run plans to do nothing that it could turn down.
        (report([turned_down()], dry_run=True), "ok", []),
    ],
)
def test_plan_and_log_line_say_what_became_of_the_cycle(
    of: CycleReport, result: str, undone: list[str] | None
) -> None:
    shown = document(of, with_outcomes=True)
    assert (of.result, shown["result"], figures(of)["result"]) == (result,) * 3
    if undone is not None:
        assert (list(of.undone), shown["undone"]) == (undone, undone)
        assert figures(of).get("undone", []) == undone
    assert shown["complete"] is (of.problems == ())
    assert shown["problems"] == list(of.problems) == figures(of).get("problems", [])
    assert not {"result", "undone"} & document(of, with_outcomes=False).keys()


def test_the_canonical_line_has_every_figure_of_the_cycle() -> None:
    rows = [
        row("orders", 0),
        row("orders", 1),
        row("orders", 2, Reason.NOT_CONSUMED),
        row("payments", 0, Reason.NO_GROUP),
        row("payments", 1, Reason.NO_GROUP),
        unreadable("refunds"),
    ]
    outcomes = [outcome("orders", 0), outcome("orders", 1, Outcome.UNKNOWN)]
    assert figures(report(rows, outcomes)) == {
        "cycle_id": "0123456789ab",
        "result": "incomplete",
        "undone": ["1 of 2 deletions not done: why it is unknown"],
        "dry_run": False,
        "topics": 3,
        "partitions": 6,
        "groups": 3,
        "delete": 2,
        "nothing": 1,
        "hold": 3,
        "holds": {"no_group": 2, "offset_unreadable": 1},
        "records_planned": 180,
        "records_deleted": 90,
        "predicted_bytes": None,
        "freed_bytes": 0,
        "deletions": {"deleted": 1, "unknown": 1},
        "seconds": {
            "gather": 0.5,
            "decide": 0.25,
            "guard": 0.125,
            "delete": 0.062,
            "record": 0.031,
        },
        "unreadable": [
            "refunds: LEADER_NOT_AVAILABLE: the partition's leader does not answer",
        ],
    }


def test_a_cycle_has_failed_where_a_deletion_did_or_may_have() -> None:
    rows = [row("orders", number) for number in range(4)]
    outcomes = [
        outcome("orders", 0, Outcome.DELETED),
        outcome("orders", 1, Outcome.FAILED),
        outcome("orders", 2, Outcome.UNKNOWN),
        outcome("orders", 3, Outcome.NOT_ATTEMPTED),
    ]
    assert [each.partition for each in report(rows, outcomes).failed] == [1, 2]


def test_groups_have_a_state_and_those_only_named_in_a_policy_have_none() -> None:
    def group(group_id: str, kind: GroupKind, state: str, **more: Any) -> GroupReading:
        return GroupReading(group_id, kind, state, **more)

    groups = [
        group("a", GroupKind.CLASSIC, "Stable"),
        group("b", GroupKind.CLASSIC, "PreparingRebalance"),
        group("c", GroupKind.CLASSIC, "Empty"),
        group("d", GroupKind.SHARE, "Stable", failure=Failure("UNSUPPORTED_KIND", "")),
        group("e", GroupKind.UNKNOWN, "Absent"),
    ]
    reading = Reading(groups={each.group_id: each for each in groups})
    assert group_states(reading.snapshot()) == {
        "a": GroupState("classic", "live"),
        "b": GroupState("classic", "live"),
        "c": GroupState("classic", "empty"),
        "d": GroupState("share", "unreadable"),
    }


def test_while_it_is_paused_plan_and_log_line_say_why() -> None:
    paused = report(paused="paused by root: incident 12")

    assert document(paused, with_outcomes=True)["paused"] == "paused by root: incident 12"
    assert figures(paused)["paused"] == "paused by root: incident 12"
    assert "paused" not in figures(report())


STUCK = Stuck("orders", 1, StuckCause.FUTURE_REPLICA, "its move stands still")


def test_the_canonical_line_tells_bytes_and_what_is_stuck() -> None:
    disk = DiskReport(freed_bytes={"orders": 30, "views": 12}, stuck=(STUCK,), problems=("why",))
    rows = [replace(row("orders"), predicted_bytes=500), row("views", reason=Reason.TOO_YOUNG)]
    line = figures(replace(report(rows), disk=disk))
    assert (line["predicted_bytes"], line["freed_bytes"]) == (500, 42)
    assert line["stuck"] == ["orders-1: its move stands still"]
    assert line["disk_problems"] == ["why"]


def test_a_command_that_a_sentence_offers_is_told_whole() -> None:
    short = "grant it (kafka-acls --add --topic orders --operation Describe)"
    whole = (
        "grant it (kafka-acls --bootstrap-server broker:9092 --add --allow-principal User:NAME "
        "--topic orders --operation Describe)"
    )
    rows = [replace(row("orders"), detail=short), row("orders", 1)]
    failed = replace(outcome("orders", 0, Outcome.FAILED), error=short)
    options = tool_options({"bootstrap.servers": "broker:9092"})
    told = replace(report(rows, [failed], problems=(short,)), tool_options=options)
    (why,) = told.undone
    shown = document(told, with_outcomes=True)
    first, second = shown["partitions"]
    assert (first["detail"], first["error"], second["detail"]) == (whole, whole, None)
    assert (shown["problems"], told.problems) == ([whole], (whole,))
    assert why == f"1 of 1 deletions not done: {whole}"
    assert told.answers.partitions[0].why == whole
