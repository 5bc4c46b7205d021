"""The daemon, a real process, on a real broker: what it does every second.

What each of its endpoints says of a cycle, and what a reload changes, is tests/unit's matter.
"""

from __future__ import annotations

import signal
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from retentiond.state.audit_records import read_deletions
from tests.contract.real import RealDriver
from tests.faults.held import Held, log_start
from tests.support.audited import read_cycles
from tests.support.brokers.command import Document, Process, configure
from tests.support.command_here import run_here
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker

END_S = 10.0


def next_cycles(daemon: Process, count: int) -> list[Document]:
    """The cycles that begin from now on; the one under way doesn't count."""
    before = len(daemon.events("retentiond.cycle"))
    return daemon.await_events("retentiond.cycle", before + 1 + count)[before + 1 :]


def test_every_cycle_deletes_what_was_read_since_and_tells_it(
    driver: RealDriver, tmp_path: Path, topic_name: str
) -> None:
    """With a Spark of its own. Records that are read go one cycle later, until a reload makes it
    dry; a topic that is deleted leaves no series."""
    group, servers = f"readers-of-{topic_name}", driver.broker.bootstrap_servers
    driver.filled_topic(topic_name, {group: 7})
    configure(tmp_path, servers, topic_name, dry_run=False)
    deleted = f'retentiond_records_deleted_total{{topic="{topic_name}"}}'

    with Process("run", cwd=tmp_path) as daemon:
        eventually(lambda: log_start(driver.broker, topic_name) == 7)
        driver.commit(group, {(topic_name, 0): 9})
        eventually(lambda: log_start(driver.broker, topic_name) == 9)
        next_cycles(daemon, 1)
        assert [
            (each.row.log_start_offset, each.row.cutoff, each.outcome)
            for each in read_deletions(tmp_path / "state")
        ] == [(0, 7, "deleted"), (7, 9, "deleted")]
        (served,) = daemon.get("/api/plan").json()["partitions"]
        assert (served["topic"], served["min_committed_offset"]) == (topic_name, 9)
        assert daemon.metric(deleted) == 9
        assert f"{group} has yet to read them" in daemon.get(f"/topics/{topic_name}").text
        # Where cycles take longer than three of these short intervals, readiness comes and goes.
        eventually(lambda: daemon.get("/readyz").text == "ready\n")
        assert daemon.get("/healthz").text == "ok\n"

        (tmp_path / "retentiond.yaml").write_text("topics: []")
        daemon.signal(signal.SIGHUP)
        daemon.await_events("retentiond.config_refused")
        configure(tmp_path, servers, topic_name, dry_run=True)
        daemon.signal(signal.SIGHUP)
        daemon.await_events("retentiond.config_reloaded")
        (cycle,) = next_cycles(daemon, 1)
        assert (cycle["dry_run"], cycle["result"]) == (True, "ok")

        driver.delete_topic(topic_name)
        eventually(lambda: topic_name not in daemon.get("/metrics").text)
        daemon.signal(signal.SIGTERM)
        assert daemon.wait(END_S) == 0
        eventually(lambda: not daemon.children())

    cycles = read_cycles(tmp_path / "state")
    for one, following in pairwise(cycles):
        assert one.finished_at_ms is not None
        assert one.finished_at_ms <= following.planned_at_ms
    elapsed_s = (cycles[-1].planned_at_ms - cycles[0].planned_at_ms) / 1000
    assert len(cycles) <= elapsed_s + 2  # an interval is one second


def test_the_audit_log_ends(driver: RealDriver, tmp_path: Path, topic_name: str) -> None:
    """Of a daemon that keeps two seconds of it; its deletions go with the cycles they belong to."""
    driver.filled_topic(topic_name, {f"readers-of-{topic_name}": 7})
    servers = driver.broker.bootstrap_servers
    configure(tmp_path, servers, topic_name, dry_run=False, audit={"keep": "2s"})
    state_dir = tmp_path / "state"
    with Held("nowhere", "run", cwd=tmp_path) as daemon:

        def deleting() -> list[dict[str, Any]]:
            return [each for each in daemon.events("retentiond.cycle") if each["records_deleted"]]

        (first,) = eventually(deleting, timeout_s=60)
        assert first["records_deleted"] == 7

        def is_gone() -> bool:
            return first["cycle_id"] not in {each.cycle_id for each in read_cycles(state_dir)}

        eventually(is_gone, timeout_s=60)
        assert [*read_deletions(state_dir)] == []
        assert daemon.events("retentiond.audit_not_pruned") == []
        assert (daemon.metric("retentiond_audit_log_bytes") or 0) > 0
    before = {each.cycle_id for each in read_cycles(state_dir)}
    ended_s = time.monotonic()
    eventually(lambda: time.monotonic() - ended_s > 2.5)  # so old is the daemon's last cycle then
    done = run_here("run", "--once", cwd=tmp_path)
    assert done.code == 0, done.err
    (last,) = read_cycles(state_dir)
    assert last.cycle_id not in before
    assert log_start(driver.broker, topic_name) == 7
