"""The last look on one port."""

from __future__ import annotations

from pathlib import Path

from starlette.testclient import TestClient

from retentiond.tools.orphans.serve import LastScan, application
from tests.support.builders.orphans_host import Host

INTERVAL_MS = 1000


def test_orphans_are_shown_by_directory_and_the_age_of_the_look(host: Host, tmp_path: Path) -> None:
    second = tmp_path / "second"
    host.add_log_dir(second)
    host.log_dirs.append(second)
    host.put("gone-0")
    last = LastScan()
    client = TestClient(application(last, INTERVAL_MS, lambda: last.complete_at or 0))
    assert client.get("/metrics").text == ""
    look = host.look()
    last.pin(look, 5_500, 0)
    lines = client.get("/metrics").text.splitlines()
    shown = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    name, at = "retentiond_orphan_log_partition", f'broker="7",log_dir="{host.log_dir}"'
    empty = f'broker="7",log_dir="{second}"'
    assert {series: float(value) for series, value in shown.items()} == {
        f"{name}_count{{{at}}}": 1,
        f"{name}_size_bytes{{{at}}}": 161,
        f"{name}_count{{{empty}}}": 0,
        f"{name}_size_bytes{{{empty}}}": 0,
        "retentiond_orphan_last_look_timestamp_seconds": 5.5,
    }


def test_it_is_ready_after_a_complete_look_and_not_long_after_it(host: Host) -> None:
    last = LastScan()
    now = [1_000_000]
    client = TestClient(application(last, INTERVAL_MS, lambda: now[0]))
    assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").status_code == 503
    last.pin(host.look(), now[0], now[0])
    assert client.get("/readyz").text == "ready\n"
    now[0] += 3 * INTERVAL_MS // 1000 + 1
    host.cluster.may_describe_cluster = False
    last.pin(host.look(), now[0], now[0])
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert "the principal may not DESCRIBE the cluster" in answer.text
