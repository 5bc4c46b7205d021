"""``retentiond audit`` over a log that was written by hand."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from retentiond.act.approved import Approved, GroupEvidence
from retentiond.model import GroupKind, Outcome, Plan
from retentiond.state.audit import Audit
from retentiond.state.summary import begun, finished
from tests.unit.cli.conftest import CONFIG, Command
from tests.unit.observe.reports import PLANNED_AT_MS, outcome, report, row
from tests.unit.observe.test_observe_report import OUTCOME_FIELDS, ROW_FIELDS

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
        "topic": "clicks",
        "partition": 0,
        "topic_id": "id-of-clicks",
        "log_start_offset": 10,
        "high_watermark": 200,
        "min_committed_offset": 100,
        "binding_group": "billing",
        "binding_committed_offset": 100,
        "retention_offset": 150,
        "cutoff": 100,
        "verdict": "delete",
        "reason": "consumed",
        "groups": 2,
        "records": 90,
        "detail": None,
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
