"""``/api/topics``, ``/api/groups`` and ``/api/health``: the rows that the page shows, as JSON."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from retentiond.fields import COMMAND, document_of
from retentiond.model import Reason
from retentiond.state.groups_lookup import topics_read_by
from retentiond.tell.explanation import explained, topic_document
from retentiond.tell.figures.group_rows import remembered_group
from retentiond.tell.report import GroupState, evidence_document, outcome_document
from tests.support import scenes
from tests.support.builders.explained_plans import evidence, remember, with_bytes
from tests.support.builders.gather_worlds import healthy
from tests.support.builders.page_visitor import Visitor
from tests.support.builders.reports import report, row

SLASHED = "billing/eu #1"

ROWS = (
    row("clicks", 0, Reason.EMPTY),
    row("orders", 0),
    replace(row("orders", 1, Reason.GROUP_VANISHED), binding_group=SLASHED),
)


@pytest.fixture
def visitor(tmp_path: Path) -> Visitor:
    states = {SLASHED: GroupState("classic", "vanished")}
    return Visitor(tmp_path, replace(report(ROWS), group_states=states))


def test_each_topic_has_its_row_with_when_it_was_planned(visitor: Visitor) -> None:
    document = visitor.get("/api/topics").json()
    plan = visitor.get("/api/plan").json()
    assert document["planned_at"] == plan["planned_at"]
    by_name = {topic["topic"]: topic for topic in document["topics"]}
    assert by_name.keys() == {"orders", "clicks"}
    assert by_name["orders"]["verdicts"] == {"delete": 1, "hold": 1}
    visitor.status.publish(report(ROWS[:1]))
    assert [topic["topic"] for topic in visitor.get("/api/topics").json()["topics"]] == ["clicks"]


def test_a_topic_s_document_has_its_partitions_as_the_plan_has_them(visitor: Visitor) -> None:
    document = visitor.get("/api/topics/orders").json()
    plan = visitor.get("/api/plan").json()
    assert document["partitions"] == [
        partition for partition in plan["partitions"] if partition["topic"] == "orders"
    ]
    assert visitor.get("/api/topics/nowhere").status_code == 404


@pytest.mark.parametrize("path", ["billing/eu%20%231", "_?name=billing/eu%20%231"])
def test_a_group_is_found_by_its_name_whatever_it_holds(visitor: Visitor, path: str) -> None:
    document = visitor.get(f"/api/groups/{path}").json()
    (of_list,) = visitor.get("/api/groups").json()["groups"]
    assert document["group"] == of_list["group"] == SLASHED
    assert (of_list["state"], of_list["binds_partitions"], of_list["holds_partitions"]) == (
        "vanished",
        1,
        1,
    )
    assert visitor.get("/api/groups/nobody").status_code == 404


def test_a_group_is_told_as_the_command_tells_it_with_what_it_keeps(tmp_path: Path) -> None:
    binding = [
        scenes.partition("orders", 0, Reason.NOT_CONSUMED, start=200, committed=200, young=900),
        scenes.partition("clicks", 0, Reason.GROUP_WITHOUT_COMMIT, young=500),
    ]
    states = {"billing": GroupState("consumer", "empty")}
    scenes.remember(tmp_path, "orders", {"billing": {0: 200}})
    scenes.remember(tmp_path, "clicks", {"billing": {}})
    visitor = Visitor(tmp_path, replace(scenes.report(binding), group_states=states))
    document = visitor.get("/api/groups/billing").json()
    remembered = topics_read_by(tmp_path, "billing")
    assert remembered is not None
    of_command = document_of(remembered_group("billing", remembered), COMMAND)
    assert of_command["topics"] == {"clicks": {}, "orders": {"0": 200}}
    assert document == document | of_command | {"kind": "consumer", "state": "empty"}
    assert (document["binds_partitions"], document["holds_partitions"]) == (2, 1)
    kept = sum(
        part["records"]
        for topic in visitor.get("/api/topics").json()["topics"]
        for part in topic["kept_by"]
        if part["binding_group"] == "billing"
    )
    assert document["kept_records"] == kept > 0
    assert document["lag_records"] == 800


def test_explain_says_the_same_of_a_topic_and_more_on_top(tmp_path: Path) -> None:
    kafka = healthy()
    remember(kafka, tmp_path)
    plan = with_bytes(evidence(kafka, tmp_path), 1_024, 4_096)
    of_command = topic_document(explained(plan, "orders"))
    of_daemon = Visitor(tmp_path, plan.report).get("/api/topics/orders").json()
    for name in evidence_document(plan.report):
        of_daemon.pop(name, None)
    assert {group["group"] for group in of_daemon["groups"]} == {"billing", "search"}
    for told, explanation in zip(of_daemon.pop("groups"), of_command["groups"], strict=True):
        assert told == {name: explanation[name] for name in told}
    for told, explanation in zip(
        of_daemon.pop("partitions"), of_command["partitions"], strict=True
    ):
        assert told == outcome_document(None) | {
            name: explanation[name] for name in told if name in explanation
        }
    assert of_daemon == {name: of_command[name] for name in of_daemon}


def test_what_a_group_reads_that_is_not_remembered_nobody_knows(
    visitor: Visitor, tmp_path: Path
) -> None:
    """Without a memory it is not known either whether the group is in it."""
    for is_remembered in (None, False):
        document = visitor.get("/api/groups/billing/eu%20%231").json()
        assert document["remembered"] is is_remembered
        assert (document["topics"], document["without_commit"]) == (None, None)
        scenes.remember(tmp_path, "orders", {"another": {0: 1}})


def test_health_has_every_finding_of_the_page_s_head(visitor: Visitor) -> None:
    (first, *_) = visitor.get("/api/health").json()["findings"]
    assert first.keys() == {"level", "word", "why"}
    assert first["word"] in visitor.get("/").text


def test_before_the_first_plan_there_are_no_rows_but_health(tmp_path: Path) -> None:
    visitor = Visitor(tmp_path)
    for path in ("plan", "topics", "topics/orders", "groups", "groups/billing"):
        answer = visitor.get(f"/api/{path}")
        assert (answer.status_code, answer.json()) == (503, {"error": "no plan yet"})
    assert visitor.get("/api/health").status_code == 200
