"""What the demo shows is what is on disk and in the daemon's plan."""

from pathlib import Path
from typing import Any

import pytest

from devkit.demo.decisions import Decision, decisions
from devkit.demo.disk import DiskWatch

TOPIC = "demo.orders-enriched"  # a hyphen also stands before a folder's partition number


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / f"{TOPIC}-0"
    folder.mkdir()
    return folder


def row(verdict: str, reason: str, binding_group: str | None) -> dict[str, Any]:
    return {
        "topic": TOPIC,
        "verdict": verdict,
        "reason": reason,
        "binding_group": binding_group,
    }


def test_only_the_bytes_of_records_count(folder: Path) -> None:
    (folder / "00.log").write_bytes(b"x" * 100)
    (folder / "00.index").write_bytes(b"x" * 10)
    watch = DiskWatch([folder.parent])
    watch.look()
    assert watch.on_disk()[TOPIC] == 100
    assert watch.segments()[TOPIC] == 1
    assert watch.freed()[TOPIC] == 0


def test_a_segment_takes_disk_until_its_file_is_gone(folder: Path) -> None:
    segment = folder / "00.log"
    segment.write_bytes(b"x" * 100)
    (folder / "07.log").write_bytes(b"x" * 5)
    watch = DiskWatch([folder.parent])
    watch.look()
    renamed = segment.rename(folder / "00.log.deleted")
    watch.look()
    assert (watch.on_disk()[TOPIC], watch.freed()[TOPIC]) == (105, 0)
    renamed.unlink()
    watch.look()
    assert (watch.on_disk()[TOPIC], watch.freed()[TOPIC]) == (5, 100)


def test_a_topic_without_files_has_no_bytes(tmp_path: Path) -> None:
    watch = DiskWatch([tmp_path])
    watch.look()
    assert watch.on_disk()[TOPIC] == 0


def test_a_topic_is_summed_up_by_what_most_of_its_partitions_have_in_common() -> None:
    plan = {
        "partitions": [
            row("nothing", "not_consumed", "search"),
            row("delete", "consumed", "search"),
            row("nothing", "not_consumed", "billing"),
        ]
    }
    assert decisions(plan) == {TOPIC: Decision("nothing: not_consumed", ("billing", "search"))}


def test_a_decision_that_no_group_binds_names_none() -> None:
    assert decisions({"partitions": [row("hold", "no_group", None)]}) == {
        TOPIC: Decision("hold: no_group", ())
    }


def test_where_records_are_too_young_their_age_binds() -> None:
    assert decisions({"partitions": [row("nothing", "too_young", "search")]}) == {
        TOPIC: Decision("nothing: too_young", ("age",))
    }
