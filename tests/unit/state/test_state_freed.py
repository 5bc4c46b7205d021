"""What was deleted over time, read from the audit log without keeping anyone waiting."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from retentiond.state.audit_figures import BY_TOPIC, NONE_FREED, FreedInSlot, Slots, freed_over_time
from retentiond.state.state_dir import connect
from tests.support.scenes import deleted

SLOTS = Slots(since_ms=1_000, width_ms=100, count=3)


def test_without_an_audit_log_nothing_was_freed(tmp_path: Path) -> None:
    assert freed_over_time(tmp_path, SLOTS, "orders") == (NONE_FREED,) * 3


def test_records_are_summed_up_by_slot_and_topic(tmp_path: Path) -> None:
    deleted(tmp_path, "orders", [999, 1_000, 1_099, 1_100, 1_299, 1_300], records=10)
    deleted(tmp_path, "clicks", [1_000], records=7)
    assert freed_over_time(tmp_path, SLOTS, "orders") == (
        FreedInSlot(20),
        FreedInSlot(10),
        FreedInSlot(10),
    )
    assert freed_over_time(tmp_path, SLOTS) == (FreedInSlot(27), FreedInSlot(10), FreedInSlot(10))


def test_bytes_are_summed_up_as_far_as_they_are_known(tmp_path: Path) -> None:
    deleted(tmp_path, "orders", [1_000, 1_001, 1_002], records=10)
    with closing(connect(tmp_path / "audit.db")) as connection:
        connection.execute("UPDATE deletions SET freed_bytes = 500 WHERE id < 3")
    found = freed_over_time(tmp_path, SLOTS, "orders")
    assert found is not None
    assert found[0] == FreedInSlot(30, 1_000)


@pytest.mark.parametrize("column", ["outcome = 'failed'", "outcome = 'unknown'"])
def test_only_what_is_known_to_be_deleted_counts(tmp_path: Path, column: str) -> None:
    deleted(tmp_path, "orders", [1_000])
    with closing(connect(tmp_path / "audit.db")) as connection:
        connection.execute(f"UPDATE deletions SET {column}")
    assert freed_over_time(tmp_path, SLOTS, "orders") == (NONE_FREED,) * 3


def test_a_log_that_takes_too_long_is_left_unread(tmp_path: Path) -> None:
    deleted(tmp_path, "orders", range(1_000, 1_300))
    assert freed_over_time(tmp_path, SLOTS, "orders", patience_s=0) is None
    assert freed_over_time(tmp_path, SLOTS, "orders", patience_s=60) is not None


def test_a_topics_week_is_found_without_reading_its_years(tmp_path: Path) -> None:
    deleted(tmp_path, "orders", range(1_000, 1_300))
    with closing(connect(tmp_path / "audit.db")) as connection:
        (how,) = connection.execute(
            f"EXPLAIN QUERY PLAN {BY_TOPIC}",
            {"topic": "orders", "since_ms": 1_000, "width_ms": 100, "last_ms": 1_299},
        ).fetchall()[:1]
    assert "deletions_by_topic_and_time (topic=? AND requested_at_ms>? AND" in how[-1]
    assert freed_over_time(tmp_path, SLOTS, "orders") != (NONE_FREED,) * 3


@pytest.mark.parametrize("contents", [b"", b"no database " * 1_000])
def test_a_damaged_log_is_not_known(tmp_path: Path, contents: bytes) -> None:
    (tmp_path / "audit.db").write_bytes(contents)
    assert freed_over_time(tmp_path, SLOTS, "orders") is None
