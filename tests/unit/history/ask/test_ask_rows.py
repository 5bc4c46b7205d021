"""Into how many parts a question's rows are divided."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from retentiond.config import Spark
from retentiond.history.ask.rows import SHUFFLE_PARTITIONS, divide


@pytest.mark.parametrize(
    ("rows", "parts"), [(0, 4), (16_000_000, 4), (16_000_001, 5), (400_000_000, 100)]
)
def test_a_part_has_four_million_rows_at_most_and_there_are_four_at_least(
    rows: int, parts: int
) -> None:
    session = Mock()
    divide(session, Spark(), rows)
    session.conf.set.assert_called_once_with(SHUFFLE_PARTITIONS, str(parts))


def test_a_setting_is_kept() -> None:
    session = Mock()
    divide(session, Spark(conf={SHUFFLE_PARTITIONS: "7"}), 400_000_000)
    session.conf.set.assert_not_called()
