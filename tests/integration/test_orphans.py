"""``retentiond orphans`` beside three real brokers: one is down while its partitions go elsewhere.

The tests follow one story, in the order of this file, on one cluster.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from devkit.embedded import EmbeddedKafka
from retentiond.state.operator_actions import actions_in
from tests.support.brokers.orphaned import COMES_BACK, DAY_MS, STAYS, THIRD, Orphaned
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker

OLD_MS = 30 * DAY_MS
"""Older than the broker's retention of a week."""


@pytest.fixture(scope="module")
def orphaned(
    three_kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Orphaned]:
    """The broker is back. While it was down, ``moved``, ``young`` and ``undated`` (records without
    a timestamp) went to another broker, ``deleted`` was deleted, and ``recreated`` too, and made
    again elsewhere."""
    with closing(Orphaned(three_kafka, tmp_path_factory.mktemp("host"))) as orphaned:
        for name in ("kept", "moved", "deleted", "recreated"):
            orphaned.create_topic(name, OLD_MS)
        for name, age_ms in (("young", 0), ("undated", orphaned.driver.now_ms + DAY_MS)):
            orphaned.create_topic(name, age_ms)
        orphaned.node.stop()
        for name in ("moved", "young", "undated"):
            orphaned.move(name, (STAYS, THIRD))
            orphaned.await_in_sync(name, (STAYS, THIRD))
        for name in ("deleted", "recreated"):
            orphaned.delete_topic(name)
        orphaned.kafka.create_topic("recreated", 1, replication_factor=1)
        orphaned.node.start()
        orphaned.move("recreated", (STAYS, COMES_BACK))
        for name in ("kept", "recreated"):
            orphaned.await_in_sync(name, (STAYS, COMES_BACK))
        yield orphaned


ORPHANS = {
    "moved-0-stray": "other brokers have the replicas",
    "young-0-stray": "other brokers have the replicas",
    "undated-0-stray": "other brokers have the replicas",
    "deleted-0-stray": "there is no such topic",
    "recreated-0-stray": "the topic was recreated, with another id",
}


def test_kafka_puts_aside_what_is_not_its_own_and_keeps_it(orphaned: Orphaned) -> None:
    """Kafka 4.2: renamed at the start, and kept open, for good."""
    replicas = {"kept-0", "recreated-0", "__cluster_metadata-0"}
    assert set(orphaned.folders()) == replicas | set(ORPHANS)


def test_the_orphans_are_reported(orphaned: Orphaned) -> None:
    look = orphaned.look()
    folders = orphaned.folders()
    assert (look["broker"], look["cluster_id"]) == (COMES_BACK, orphaned.kafka.cluster_id)
    assert look["complete"]
    assert {each["folder"]: each["why"] for each in look["orphans"]} == {
        folders[name].name: why for name, why in ORPHANS.items()
    }
    segments = [path for name in ORPHANS for path in folders[name].glob("*.log")]
    assert look["log_dirs"] == [
        {
            "log_dir": str(orphaned.log_dir),
            "count": len(ORPHANS),
            "size_bytes": sum(path.stat().st_size for path in segments),
        }
    ]
    assert all(each["size_bytes"] > 0 for each in look["orphans"])


def test_an_orphan_stays_while_any_condition_lacks(orphaned: Orphaned) -> None:
    def reasons(*arguments: str) -> dict[str, str]:
        orphans = orphaned.look("--remove", "--yes", *arguments)["orphans"]
        return {each["topic"]: each["reason"] for each in orphans}

    assert all("for too short a time" in each for each in reasons().values())
    at_once = reasons("--after", "0s")
    for name in ("young", "undated"):
        assert "within the retention period" in at_once.pop(name)
    held = f"the broker (pid {orphaned.node.pid}) has it open"
    assert at_once == dict.fromkeys(("moved", "deleted", "recreated"), held)
    assert set(ORPHANS) < set(orphaned.folders())


def test_what_no_broker_has_open_goes_while_it_runs(orphaned: Orphaned) -> None:
    left = orphaned.log_dir / "left-0"
    shutil.copytree(orphaned.folders()["moved-0-stray"], left)
    by_folder = {
        each["folder"]: each["fate"]
        for each in orphaned.look("--remove", "--yes", "--after", "0s")["orphans"]
    }
    assert by_folder.pop("left-0") == "removed"
    assert set(by_folder.values()) == {"kept"}
    assert not left.exists()
    begun, ended = actions_in(orphaned.state_dir)
    assert (begun.action, ended.action) == ("orphan-removal", "orphan-removal-outcome")
    orphaned.driver.produce("kept", [orphaned.driver.now_ms])
    orphaned.await_in_sync("kept", (STAYS, COMES_BACK))


def test_while_the_broker_is_down_its_strays_go_and_it_starts_without_them(
    orphaned: Orphaned,
) -> None:
    """The age counts on from the looks before; the broker's retention is remembered."""
    orphaned.node.stop()
    first = {each["folder"]: each["since"] for each in orphaned.look()["orphans"]}
    look = orphaned.look("--remove", "--yes", "--after", "0s")
    reasons = {each["topic"]: each["reason"] for each in look["orphans"]}
    for name in ("young", "undated"):
        assert "within the retention period" in reasons.pop(name)
    assert reasons == {"moved": None, "deleted": None, "recreated": None}
    assert {each["folder"]: each["since"] for each in look["orphans"]} == first
    left = {"kept-0", "recreated-0", "__cluster_metadata-0", "young-0-stray", "undated-0-stray"}
    assert set(orphaned.folders()) == left
    assert look["log_dirs"][0]["count"] == 2
    orphaned.node.start()
    orphaned.await_in_sync("kept", (STAYS, COMES_BACK))
    assert set(orphaned.folders()) == left


def test_a_reassignment_under_way_counts_as_assigned(orphaned: Orphaned, tmp_path: Path) -> None:
    """The broker is down, so that the move to it can't end; what it has of the partition stays."""
    orphaned.node.stop()
    copy = orphaned.log_dir / "moved-0"
    (theirs,) = next(node for node in orphaned.kafka.nodes if node.node_id == THIRD).log_dirs
    shutil.copytree(theirs / "moved-0", copy)
    assert "moved-0" in {each["folder"] for each in orphaned.look()["orphans"]}
    orphaned.move("moved", (STAYS, COMES_BACK))

    def reasons() -> dict[str, str | None]:
        look = orphaned.look("--remove", "--yes", "--after", "0s")
        return {each["folder"]: each["reason"] for each in look["orphans"]}

    eventually(reasons, lambda found: "moved-0" not in found)
    assert copy.exists()
    orphaned.move("moved", None)
    found = eventually(reasons, lambda found: "moved-0" in found)
    assert found["moved-0"] is None
    assert not copy.exists()
    orphaned.node.start()
    orphaned.await_in_sync("kept", (STAYS, COMES_BACK))
