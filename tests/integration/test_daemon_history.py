"""The daemon keeps a history of its cycles, and goes on where it can't.

Without Spark, which has no part in it.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from retentiond.history.table import HistoryTable
from tests.contract.real import RealDriver
from tests.faults.held import Held, log_start
from tests.support.brokers.command import configure
from tests.support.builders.histories import Entry, entries_in
from tests.support.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.thorough("a daemon with a history")]


def test_cycles_go_on_without_a_history_and_it_is_kept_once_it_can_be(
    driver: RealDriver, tmp_path: Path, topic_name: str
) -> None:
    group = f"readers-of-{topic_name}"
    driver.filled_topic(topic_name, {group: 7})
    state = tmp_path / "state"
    state.mkdir()
    place = state / "history"
    place.write_text("something else stands here")
    servers = driver.broker.bootstrap_servers
    configure(tmp_path, servers, topic_name, dry_run=False, history={"interval": "1s"})
    with Held("nowhere", "run", cwd=tmp_path) as daemon:
        eventually(lambda: log_start(driver.broker, topic_name) == 7)
        eventually(lambda: (daemon.metric("retentiond_history_failures_total") or 0) > 1)
        ready = daemon.get("/readyz")
        assert ready.status_code == 200
        assert str(place) in ready.text
        assert len(daemon.events("retentiond.history_failed")) == 1
        assert daemon.metric("retentiond_history_bytes") is None
        assert f"The history in {place} can&#39;t be used" in daemon.get("/").text

        place.unlink()
        daemon.await_events("retentiond.history_recovered")
        driver.commit(group, {(topic_name, 0): 9})
        eventually(lambda: log_start(driver.broker, topic_name) == 9)
        eventually(lambda: any(len(each.deletions) == 1 for each in read(place)[1:]))
        assert daemon.get("/readyz").text == "ready\n"
        assert (daemon.metric("retentiond_history_bytes") or 0) > 1000
        assert daemon.metric("retentiond_history_last_write_timestamp_seconds") is not None
        eventually(lambda: "There is nothing to draw yet" in daemon.get("/").text)  # one hour
        assert ">empty<" in daemon.get(f"/groups/{group}").text
        daemon.signal(signal.SIGTERM)
        assert daemon.wait(10) == 0

    first, *rest = read(place)
    assert first.cycle["is_whole"]
    assert not any(each.cycle["is_whole"] for each in rest)
    # The deletion of the time in which nothing could be written is told now, too.
    assert [at[1:] for at in first.deletions] == [(topic_name, 0)]
    assert first.partitions[topic_name, 0]["size_bytes"] is not None
    assert first.commits == {(group, topic_name, 0): 7}
    assert rest[-1].commits == {(group, topic_name, 0): 9}
    assert first.log_dirs[0]["usable_bytes"] > 0


def read(place: Path) -> list[Entry]:
    (cluster_id,) = HistoryTable.open(place).clusters()
    return list(entries_in(place, cluster_id))
