"""What `report` says of a made-up past whose answers are known beforehand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from retentiond.history.ask.report_figures import Line, Report
from tests.support.builders.past_clusters import (
    BEGIN,
    HOUR_MS,
    PastCluster,
    PastEntry,
    commit_row,
    deletion_row,
    log_dir_row,
    partition_row,
)
from tests.support.golden import Golden
from tests.unit.cli.conftest import CONFIG, Command, KeptAnswer, Transcript

pytestmark = pytest.mark.spark

GIB = 1 << 30


def written(folder: Path, entries: list[PastEntry]) -> Path:
    """The configuration of a daemon that has recorded them."""
    config = folder / "retentiond.yaml"
    every = CONFIG.replace("- name: orders", "- pattern: '.*'")
    config.write_text(f"state_dir: {folder / 'state'}\n{every}")
    PastCluster(entries).write(folder / "state" / "history")
    return config


def reported(
    command: Command, folder: Path, entries: list[PastEntry], *options: str
) -> dict[str, Any]:
    config = written(folder, entries)
    done = command(
        *("report", "--config", config, "--since", f"{BEGIN:%Y-%m-%dT%H:%M:%SZ}"),
        *("--output", "json", *options),
    )
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


GOES: dict[str, Any] = {"verdict": "delete", "reason": "consumed"}


def three_days() -> list[PastEntry]:
    """An entry an hour. "billing" has never moved on orders and keeps most of it; "web" follows
    orders, and stands on clicks since the 60th hour, where ten records are too young to go; nobody
    reads idle. On flux "late" is who the guard objected to, and not whose commit is the smallest.
    Of 10 GiB of short 5 are freed after an hour. /data fills by a GiB an hour, /quiet does not, and
    /late is new."""
    entries = []
    for hour in range(73):
        end = 1_000 + 10 * hour
        commit = 100 if hour >= 60 else 80
        rows = [
            partition_row(
                *("orders", 0),
                high_watermark=end,
                min_committed_offset=500,
                retention_offset=end,
                cutoff=500,
                **GOES,
                binding_group="billing",
                groups=2,
                owner="payments" if hour else "billing",
            ),
            partition_row(
                *("clicks", 0),
                high_watermark=1_000,
                log_start_offset=50,
                min_committed_offset=commit,
                retention_offset=990,
                cutoff=commit,
                **GOES,
                binding_group="web",
            ),
            partition_row(
                "idle", high_watermark=7, groups=0, reason="no_group", min_committed_offset=None
            ),
            partition_row(
                *("flux", 0),
                high_watermark=9,
                min_committed_offset=3,
                binding_group="late",
                verdict="hold",
                reason="evidence_changed",
            ),
            partition_row(
                "short",
                high_watermark=1_000,
                log_start_offset=500 if hour else 0,
                size_bytes=(5 if hour else 10) * GIB,
            ),
            commit_row("web", "orders", 0, end),
            log_dir_row(1, "/data", 2_000 * GIB, (1_000 - hour) * GIB),
            log_dir_row(2, "/quiet", 2_000 * GIB, 500 * GIB),
        ]
        if hour == 0:
            rows += [commit_row("billing", "orders", 0, 500), commit_row("web", "clicks", 0, 80)]
        if hour == 1:
            rows.append(deletion_row("short", 0, 500))
        if hour == 60:
            rows.append(commit_row("web", "clicks", 0, 100))
        if hour in (10, 30):
            rows.append(deletion_row("clicks", 0, 40))
        if hour == 31:
            rows.append(deletion_row("clicks", 0, 50, outcome="failed"))
        if hour == 72:
            rows.append(log_dir_row(3, "/late", 2_000 * GIB, 500 * GIB))
        entries.append(PastEntry(hour * HOUR_MS, rows=rows, is_whole=hour == 0))
    return entries


def test_what_was_saved_who_keeps_what_and_when_disks_are_full(
    command: Command,
    transcript: Transcript,
    golden: Golden,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """One question, in each form of output (tests/golden/report)."""
    monkeypatch.setattr("retentiond.cli.past.report.answered", KeptAnswer())
    monkeypatch.setenv("COLUMNS", "120")
    config = written(tmp_path, three_days())
    asked = ("report", "--config", config, "--since", f"{BEGIN:%Y-%m-%dT%H:%M:%SZ}")
    document = transcript(*asked, "--output", "json").out
    found = json.loads(document)
    total = found["total"]
    assert total["saved_gib_days"] == 15.0  # 5 GiB for 72 hours
    (gap,) = re.findall(r"no entries for \d+ days", transcript(*asked).out)
    golden.shown |= {found["until"]: "(now)", gap: "no entries for many days"}
    transcript.check("report/report.txt")

    page = transcript(*asked, "--output", "html").out
    assert "15 GiB·days in all." in page
    cluster_id = found["cluster_id"]
    assert f"Cluster {cluster_id}," in page
    config.write_text(f"{config.read_text()}\nmetrics: {{cluster: Europe}}\n")
    for known, shown in ((cluster_id, "Europe"), ("of another", cluster_id), (None, cluster_id)):
        monkeypatch.setattr(
            "retentiond.state.groups_lookup.cluster_of", lambda _, known=known: known
        )
        assert f"Cluster {shown}," in command(*asked, "--output", "html").out
        assert f"\nCluster {shown}: 73 entries from " in command(*asked).out
    assert "GIB·DAYS" in page.upper()


def test_in_less_than_a_day_no_group_has_stopped_and_no_disk_is_known_to_fill(
    command: Command, tmp_path: Path
) -> None:
    """Retention frees whole segments: what comes between two of them says nothing. The second disk
    has its figures a minute later than the first, and so for a minute less than an hour."""
    seen = [(0, 1, 60), (1, 2, 60), (60, 1, 30), (60, 2, 30)]
    entries = [
        PastEntry(
            minute * 60_000,
            is_whole=not minute,
            rows=[
                partition_row("orders", high_watermark=50),
                *([commit_row("still", "orders", 0, 10)] if not minute else []),
                *(
                    log_dir_row(broker, f"/data{broker}", 100 * GIB, usable * GIB)
                    for at_minute, broker, usable in seen
                    if at_minute == minute
                ),
            ],
        )
        for minute in (0, 1, 60)
    ]
    found = reported(command, tmp_path, entries)
    assert [each["full_at"] for each in found["log_dirs"]] == ["2026-03-01T02:00:00.000Z", None]
    assert found["stopped_groups"] == []


def test_what_comes_later_has_no_time_of_its_own_in_a_chart(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Else all other topics seem to take nothing then, and all other log directories' lines are
    interrupted."""
    kept = KeptAnswer()
    monkeypatch.setattr("retentiond.cli.past.report.answered", kept)
    entries = [
        PastEntry(
            minute * 60_000,
            is_whole=not minute,
            rows=[
                row
                for number, name in enumerate(("early", *(["later"] if minute >= 125 else [])))
                for row in (
                    partition_row(name, high_watermark=50, size_bytes=GIB),
                    log_dir_row(number, f"/{name}", 100 * GIB, 50 * GIB),
                )
            ],
        )
        for minute in range(240)
    ]
    reported(command, tmp_path, entries)

    def looked_at(answer: Report) -> Report:
        lines.update(answer.bytes_by_topic)
        lines.update(answer.used_by_log_dir)
        return answer

    lines: dict[str, Line] = {}
    kept.change(looked_at)
    for early, later in (("early", "later"), ("0 /early", "1 /later")):
        assert lines[later].keys() < lines[early].keys()
        assert (len(lines[early]), len(lines[later])) == (120, 58)
