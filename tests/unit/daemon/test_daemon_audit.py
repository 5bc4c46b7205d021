"""The daemon and its audit log: when it is pruned, and how large it is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from retentiond.errors import KafkaUnavailable, StateError
from retentiond.model import Outcome
from retentiond.state.audit import Audit
from retentiond.tell import logs
from retentiond.tell.report import CycleReport
from tests.support.builders.daemons import Bench, live, settings
from tests.support.builders.reports import outcome, report, row


def counted(bench: Bench) -> list[str]:
    """What the daemon shows of a cycle by the time it prunes, each time that it does."""
    seen: list[str] = []
    bench.engines[-1].pruned = lambda: seen.append(bench.get("/readyz").text)
    return seen


@pytest.mark.long
def test_the_audit_log_is_pruned_after_each_cycle_that_did_not_fail_once_that_is_told() -> None:
    def failed() -> CycleReport:
        raise KafkaUnavailable("kafka:9092 can't be asked")

    def play(bench: Bench) -> None:
        seen = counted(bench)
        bench.tick()
        bench.tick(failed)
        bench.tick(report)
        assert [text[:5] for text in seen] == ["ready", "ready"]

    live(play)


@pytest.mark.long
def test_a_log_that_cannot_be_pruned_is_told_once_and_holds_nothing_up() -> None:
    def refuse() -> None:
        raise StateError("the disk is full")

    def play(bench: Bench) -> None:
        for pruned in (refuse, refuse, lambda: None, refuse):
            bench.engines[-1].pruned = pruned
            bench.tick()

    bench = live(play)
    told = [line["error"] for line in bench.events(logs.AUDIT_NOT_PRUNED)]
    assert told == ["the disk is full"] * 2
    assert len(bench.events(logs.CYCLE)) == 4


def test_the_size_of_the_audit_log_is_a_metric(tmp_path: Path) -> None:
    def play(bench: Bench) -> None:
        assert "retentiond_audit_log_bytes 0.0" in bench.get("/metrics").text
        (tmp_path / "audit.db").write_bytes(b"1234")
        (tmp_path / "audit.db-wal").write_bytes(b"12")
        assert "retentiond_audit_log_bytes 6.0" in bench.get("/metrics").text

    live(play, settings(tmp_path))


@pytest.mark.parametrize("bounded", [True, False])
def test_what_the_audit_log_promises_and_takes_are_metrics(tmp_path: Path, bounded: bool) -> None:
    def shown(bench: Bench) -> dict[str, float]:
        lines = (line.split(" ") for line in bench.get("/metrics").text.splitlines())
        names = {f"retentiond_audit_{name}" for name in ("keep_seconds", "max_bytes", "bytes")}
        return {line[0]: float(line[1]) for line in lines if line[0] in names}

    def play(bench: Bench) -> None:
        bounds = {"retentiond_audit_keep_seconds": 86_400.0, "retentiond_audit_max_bytes": 1e6}
        assert shown(bench) == (bounds if bounded else {})
        Audit.open(tmp_path).close()
        taken = shown(bench).pop("retentiond_audit_bytes")
        assert 0 < taken <= (tmp_path / "audit.db").stat().st_size

    audit = {"keep": "1d", "max_bytes": 1_000_000} if bounded else {"keep": None, "max_bytes": None}
    live(play, settings(tmp_path, audit=audit))


@pytest.mark.parametrize("wanted", [True, False])
def test_each_deletion_is_a_line_of_the_log_where_that_is_wanted(wanted: bool) -> None:
    rows = [row("orders", at) for at in range(3)]
    failed = replace(outcome("orders", 1), outcome=Outcome.FAILED, low_watermark=None, error="why")
    done = report(rows, [outcome("orders", 0), failed])
    bench = live(lambda bench: bench.tick(lambda: done), settings(audit={"log": wanted}))
    lines = bench.events(logs.DELETION)
    if not wanted:
        assert lines == []
        return
    told = [(line["topic"], line["partition"], line["outcome"], line["error"]) for line in lines]
    assert told == [("orders", 0, "deleted", None), ("orders", 1, "failed", "why")]
    assert lines[0]["cycle_id"] == done.plan.cycle_id
    assert lines[0]["cluster_id"] == done.plan.cluster_id
    assert lines[0]["log_level"] == "info"
    of_row = {name: lines[0][name] for name in ("log_start_offset", "cutoff", "records", "owner")}
    assert of_row == {"log_start_offset": 10, "cutoff": 100, "records": 90, "owner": None}
    assert json.loads(json.dumps(lines)) == lines, "a line of JSON"
