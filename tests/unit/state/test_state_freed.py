"""What was deleted by day, read from the audit log without keeping anyone waiting."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from retentiond.formatting import DAY_MS
from retentiond.state.audit_records import BY_DAY, DeletedInDay, deleted_by_day
from retentiond.state.state_dir import connect
from tests.support.scenes import deleted

NOW_MS = 10 * DAY_MS + 500

TODAY, YESTERDAY = 10 * DAY_MS, 9 * DAY_MS


def found(state_dir: Path, timeout_s: float = 60) -> tuple[DeletedInDay, ...] | None:
    return deleted_by_day(state_dir, "orders", NOW_MS, 2, timeout_s=timeout_s)


def test_without_an_audit_log_nothing_was_deleted(tmp_path: Path) -> None:
    assert found(tmp_path) == ()


def test_records_are_summed_up_by_day(tmp_path: Path) -> None:
    times = [YESTERDAY - 1, YESTERDAY, TODAY - 1, TODAY, TODAY + DAY_MS - 1, TODAY + DAY_MS]
    deleted(tmp_path, "orders", times, records=10)
    deleted(tmp_path, "clicks", [TODAY], records=7)
    assert found(tmp_path) == (DeletedInDay(YESTERDAY, 20, None), DeletedInDay(TODAY, 20, None))


def test_bytes_are_summed_up_as_far_as_they_are_known(tmp_path: Path) -> None:
    deleted(tmp_path, "orders", [TODAY, TODAY + 1, TODAY + 2], records=10)
    with closing(connect(tmp_path / "audit.db")) as connection:
        connection.execute("UPDATE deletions SET freed_bytes = 500 WHERE id < 3")
    assert found(tmp_path) == (DeletedInDay(TODAY, 30, 1_000),)


@pytest.mark.parametrize("column", ["outcome = 'failed'", "outcome = 'unknown'"])
def test_only_what_is_known_to_be_deleted_counts(tmp_path: Path, column: str) -> None:
    deleted(tmp_path, "orders", [TODAY])
    with closing(connect(tmp_path / "audit.db")) as connection:
        connection.execute(f"UPDATE deletions SET {column}")
    assert found(tmp_path) == ()


def test_a_log_that_takes_too_long_is_left_unread(tmp_path: Path) -> None:
    deleted(tmp_path, "orders", range(TODAY, TODAY + 300))
    assert found(tmp_path, timeout_s=0) is None
    assert found(tmp_path) is not None


def test_a_topics_week_is_found_without_reading_its_years(tmp_path: Path) -> None:
    deleted(tmp_path, "orders", [TODAY])
    with closing(connect(tmp_path / "audit.db")) as connection:
        (how,) = connection.execute(
            f"EXPLAIN QUERY PLAN {BY_DAY}",
            {"topic": "orders", "since_ms": YESTERDAY, "last_ms": TODAY},
        ).fetchall()[:1]
    assert "deletions_by_topic_and_time (topic=? AND requested_at_ms>? AND" in how[-1]


@pytest.mark.parametrize("contents", [b"", b"no database " * 1_000])
def test_a_damaged_log_is_not_known(tmp_path: Path, contents: bytes) -> None:
    (tmp_path / "audit.db").write_bytes(contents)
    assert found(tmp_path) is None
