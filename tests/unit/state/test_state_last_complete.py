"""When a cycle was last complete, over a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from retentiond.errors import StateError
from retentiond.state.state import (
    LAST_COMPLETE_NAME,
    LastComplete,
    read_last_complete,
    write_last_complete,
)

LAST = LastComplete("cluster-a", 1_790_000_000_123)


def test_what_was_written_is_read_and_a_later_one_replaces_it(tmp_path: Path) -> None:
    assert read_last_complete(tmp_path, LAST.planned_at_ms) is None
    write_last_complete(tmp_path, LAST)
    assert read_last_complete(tmp_path, LAST.planned_at_ms) == LAST
    later = LastComplete("cluster-b", LAST.planned_at_ms + 1)
    write_last_complete(tmp_path, later)
    assert read_last_complete(tmp_path, later.planned_at_ms) == later


def test_a_time_that_is_still_to_come_is_none(tmp_path: Path) -> None:
    """It would keep an alert silent until then."""
    write_last_complete(tmp_path, LAST)
    assert read_last_complete(tmp_path, LAST.planned_at_ms - 1) is None


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", "null", '["cluster-a"]', '["a", "b"]', '["a", 0]', '["a", 1e999]'],
)
def test_a_file_that_says_nothing_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / LAST_COMPLETE_NAME).write_text(content)
    assert read_last_complete(tmp_path, LAST.planned_at_ms) is None


def test_what_cannot_be_written_is_an_error_that_says_what_follows(tmp_path: Path) -> None:
    (tmp_path / f"{LAST_COMPLETE_NAME}.new").mkdir()
    with pytest.raises(
        StateError, match="after a restart no cycle would seem to have been complete"
    ):
        write_last_complete(tmp_path, LAST)
