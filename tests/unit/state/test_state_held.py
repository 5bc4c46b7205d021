"""For how long partitions are held, over a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from retentiond.errors import StateError
from retentiond.model import Reason, TopicPartition
from retentiond.state.state import HELD_NAME, read_held, write_held

ORDERS, CLICKS = TopicPartition("orders", 0), TopicPartition("clicks", 3)

HELD = {
    ORDERS: {Reason.NO_GROUP: 600.5, Reason.GROUP_LIST_INCOMPLETE: 60.0},
    TopicPartition("orders", 1): {Reason.NO_GROUP: 600.5},
    CLICKS: {Reason.OPEN_TRANSACTION: 0.0},
}


def test_what_was_written_is_read_and_replaced(tmp_path: Path) -> None:
    assert read_held(tmp_path) == {}
    write_held(tmp_path, HELD)
    assert read_held(tmp_path) == HELD
    write_held(tmp_path, {ORDERS: {Reason.NO_GROUP: 900.0}})
    assert read_held(tmp_path) == {ORDERS: {Reason.NO_GROUP: 900.0}}


def test_there_is_no_file_while_nothing_is_held(tmp_path: Path) -> None:
    write_held(tmp_path, HELD)
    write_held(tmp_path, {})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "{}",
        "null",
        '["orders"]',
        '[["orders", "no_such_reason", 1, [0]]]',
        '[["orders", "no_group", -1, [0]]]',
        '[["orders", "no_group", 1e999, [0]]]',
        '[["orders", "no_group", 1, 0]]',
    ],
)
def test_a_file_that_says_nothing_is_as_good_as_none(tmp_path: Path, content: str) -> None:
    (tmp_path / HELD_NAME).write_text(content)
    assert read_held(tmp_path) == {}


def test_what_cannot_be_written_is_an_error_that_says_what_follows(tmp_path: Path) -> None:
    (tmp_path / f"{HELD_NAME}.new").mkdir()
    with pytest.raises(StateError, match="after a restart each hold would seem to begin again"):
        write_held(tmp_path, HELD)
