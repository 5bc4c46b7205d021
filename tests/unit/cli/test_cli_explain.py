"""``retentiond explain``: what it refuses, and how it looks (tests/golden/explain)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from retentiond.cli.output.explain import show_partition, show_topic
from retentiond.cli.output.printing import Printer
from retentiond.disks.broker_disks import NO_DISKS
from retentiond.disks.pressure import LogDirRelief, PressedLogDir
from retentiond.model import Outcome, Reason, Verdict
from retentiond.state.audit_records import LastRequests
from retentiond.tell.explained_evidence import ExplainedPlan
from retentiond.tell.explanation import (
    REQUESTED_AGAIN,
    explained,
    explanation_document,
    topic_document,
)
from tests.support.builders.explained_plans import alone, evidence, remember, with_bytes
from tests.support.builders.gather_worlds import HOUR_MS, ORDERS_1, config, entry, healthy
from tests.support.builders.reports import report
from tests.support.fakes import FakeCluster
from tests.support.golden import Golden
from tests.unit.cli.conftest import Transcript


@pytest.fixture(autouse=True)
def _wide(no_terminal: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")


def test_what_it_refuses_before_it_asks_the_cluster_anything(
    transcript: Transcript, config_file: Path
) -> None:
    for place in ("", ":3", "orders:", "orders:-1", "orders:x", "a:1:2", "clicks"):
        transcript.refused("explain", "--config", config_file, "--", place)
    transcript.refused("explain", "__consumer_offsets", "--bootstrap-server", "localhost:1")
    for option in ("--consumed-retention", "--command-config"):
        transcript.refused("explain", "orders", "--config", config_file, option, "1d")
    transcript.check("explain/refused.txt")


class Shown:
    """All that is shown of ``orders`` is compared with one golden file."""

    def __init__(self, capsys: pytest.CaptureFixture[str], golden: Golden) -> None:
        self._capsys = capsys
        self._golden = golden
        self.text = ""

    def partition(self, kafka: FakeCluster, found: ExplainedPlan, number: int = 0) -> None:
        planned = report(planned_at_ms=kafka.now_ms)
        show_partition(Printer(), planned, alone(found, "orders", number))
        self._take()

    def topic(self, kafka: FakeCluster, found: ExplainedPlan) -> None:
        show_topic(Printer(), report(planned_at_ms=kafka.now_ms), explained(found, "orders"))
        self._take()

    def _take(self) -> None:
        captured = self._capsys.readouterr()
        assert captured.err == ""
        self.text += f"{captured.out}{'-' * 120}\n"

    def check(self, name: str) -> None:
        self._golden(f"explain/{name}", self.text)


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str], golden: Golden) -> Shown:
    return Shown(capsys, golden)


@pytest.fixture
def kafka() -> FakeCluster:
    kafka = healthy()
    kafka.commit("search", {ORDERS_1: 6})
    return kafka


def test_a_partition_records_of_which_may_go(
    shown: Shown, kafka: FakeCluster, tmp_path: Path, golden: Golden
) -> None:
    """The rule with its figures, what stays, what it frees, and how long its groups have stood."""
    remember(kafka, tmp_path)
    kafka.advance(3 * HOUR_MS)
    kafka.commit("search", {("orders", 0): 6})
    found = with_bytes(evidence(kafka, tmp_path), 1_024, 4_096)
    shown.partition(kafka, found)
    shown.check("partition.txt")
    topic = alone(found, "orders")
    document = explanation_document(topic, topic.partitions[0])
    golden("explain/partition.json", json.dumps(document, indent=2))


def test_a_partition_that_a_vanished_group_holds(shown: Shown, tmp_path: Path) -> None:
    kafka = healthy()
    remember(kafka, tmp_path)
    del kafka.groups["billing"]
    remember(kafka, tmp_path)
    kafka.advance(HOUR_MS)
    shown.partition(kafka, evidence(kafka, tmp_path), 1)
    shown.check("vanished.txt")


def test_a_topic_with_a_hold(shown: Shown, tmp_path: Path, golden: Golden) -> None:
    kafka = healthy()
    found = with_bytes(evidence(kafka, tmp_path), 1_024, 4_096)
    shown.topic(kafka, found)
    shown.check("topic.txt")
    topic = explained(found, "orders")
    document = topic_document(topic)
    partitions = [explanation_document(topic, each) for each in topic.partitions]
    assert document.pop("partitions") == partitions  # partition.json shows one
    golden("explain/topic.json", json.dumps(document, indent=2))


def test_where_a_policy_excludes_groups_or_has_an_owner_it_says_so(
    shown: Shown, kafka: FakeCluster, tmp_path: Path
) -> None:
    shown.partition(
        kafka, evidence(kafka, tmp_path, config(entry("orders", groups={"exclude": [".*"]})))
    )
    only = config(entry("orders", groups={"only": ["bill.*"]}))
    planned = evidence(kafka, tmp_path, only).report.plan.rows
    owned = [replace(row, owner="payments") for row in planned]
    shown.partition(kafka, evidence(kafka, tmp_path, only, rows=owned))
    shown.check("policy.txt")


def under_pressure(kafka: FakeCluster, folder: Path, *, sooner: bool) -> ExplainedPlan:
    """Both partitions of ``orders`` lie in two directories that run full."""
    policy = config(entry("orders", **{"retention.commitoffset.pressure.minutes": 10}))
    rows = evidence(kafka, folder, policy).report.plan.rows
    if sooner:
        why = "/data of broker 1 has 10% left: so"
        rows = tuple(replace(row, consumed_retention_ms=600_000, detail=why) for row in rows)
    sizes = {row.topic_partition: 4_096 for row in rows}
    relief = tuple(
        LogDirRelief(PressedLogDir(broker, "/data", 10_240, 1_024, 2_560), 1_024, 512, {}, sizes)
        for broker in (1, 2)
    )
    disk = replace(NO_DISKS, relief=relief)
    return evidence(kafka, folder, policy, rows=rows, disk=disk)


def test_on_disks_that_run_full_each_is_told_once(
    shown: Shown, kafka: FakeCluster, tmp_path: Path
) -> None:
    for sooner in (True, False):
        found = under_pressure(kafka, tmp_path, sooner=sooner)
        shown.topic(kafka, found)
        shown.partition(kafka, found)
    shown.check("pressure.txt")


def test_in_80_columns_no_group_is_cut_and_none_steers_the_terminal(
    shown: Shown, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    kafka = healthy()
    kafka.commit("a-group-whose-name-goes-on-and-on-and-on-and-on-and-on.v2", {("orders", 0): 1})
    kafka.commit("a\x1b[2Jb\nc", {("orders", 0): 0})
    found = evidence(kafka, tmp_path)
    shown.topic(kafka, found)
    shown.partition(kafka, found, 1)
    assert "\x1b" not in shown.text
    shown.check("narrow.txt")


def test_requests_that_failed_come_first_and_nothing_to_do_is_not_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    kafka = healthy()
    kafka.commit("billing", {("orders", 0): 5, ORDERS_1: 5})
    found = evidence(kafka, tmp_path, config(entry("orders", 0)))
    error = "TOPIC_AUTHORIZATION_FAILED: not authorized"
    last = LastRequests(Outcome.FAILED, 5, kafka.now_ms, error)
    for told in (explained(found, "orders"), alone(found, "orders", 0)):
        told = replace(told, last_requests=last)  # noqa: PLW2901
        row = told.partitions[0].row
        show_topic(Printer(), report(planned_at_ms=kafka.now_ms), told)
        out = capsys.readouterr().out
        assert out.startswith(f"The last 5 requests failed: {error}, since 2023-11-14T22:13:20")
        assert "Nothing to do" not in out
        assert (told.remedy(row) == REQUESTED_AGAIN) is (row.verdict is Verdict.DELETE)
        document = topic_document(told)["last_requests"]
        assert (document["outcome"], document["count"], document["error"]) == ("failed", 5, error)


def test_of_a_vanished_group_that_a_policy_requires_explain_says_which_file(
    tmp_path: Path,
) -> None:
    kafka = healthy()
    remember(kafka, tmp_path)
    kafka.delete_group("billing")
    found = alone(evidence(kafka, tmp_path), "orders", 0)
    row = found.partitions[0].row
    assert (row.reason, row.binding_group) == (Reason.GROUP_VANISHED, "billing")
    said = "policies.d/payments.yaml requires it on orders: take it out there first"
    told = replace(found, required={"billing": said}).remedy(row)
    assert told == f"{found.remedy(row)} But {said}."
