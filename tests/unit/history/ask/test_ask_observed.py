"""For how long topics were observed, and of which entries of a policy the past has nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from retentiond.history.ask.past import history_at, open_past
from retentiond.history.ask.question import TriedPolicy
from retentiond.history.ask.simulate import not_judged, observed_ms
from tests.support.builders.past_clusters import (
    BEGIN,
    HOUR_MS,
    PastCluster,
    PastEntry,
    partition_row,
)
from tests.unit.config.files import MINIMAL, parsed

BEGIN_MS = int(BEGIN.timestamp() * 1000)


def observed(folder: Path, entries: list[PastEntry], *, since_hour: int = 0) -> dict[str, int]:
    """In hours."""
    PastCluster(entries).write(folder)
    past = open_past(
        history_at(folder), "local[1]", BEGIN_MS + since_hour * HOUR_MS, BEGIN_MS + 99 * HOUR_MS
    )
    return {topic: ms // HOUR_MS for topic, ms in observed_ms(past).items()}


def hour(number: int, *topics: str, complete: bool = True, left_out: int = 0) -> PastEntry:
    rows = [partition_row(topic, at, high_watermark=5) for topic in topics for at in (0, 1)]
    return PastEntry(
        number * HOUR_MS, is_whole=True, rows=rows, complete=complete, left_out=left_out
    )


def test_a_topic_was_observed_from_its_first_entry_to_its_last_one(tmp_path: Path) -> None:
    late = [hour(each, "orders", *(["clicks"] if each >= 3 else [])) for each in range(5)]
    assert observed(tmp_path / "a", late) == {"orders": 4, "clicks": 1}
    assert observed(tmp_path / "b", late, since_hour=2) == {"orders": 2, "clicks": 1}
    assert observed(tmp_path / "c", [hour(0, "orders")]) == {"orders": 0}


def test_what_was_not_seen_does_not_count(tmp_path: Path) -> None:
    away = [hour(each, "orders", *(["clicks"] if each not in (2, 3) else [])) for each in range(6)]
    assert observed(tmp_path / "away", away) == {"orders": 5, "clicks": 2}
    gap = [hour(each, "orders") for each in (0, 1, 2, 3, 40, 41)]
    assert observed(tmp_path / "gap", gap) == {"orders": 4}
    lost = [hour(0, "orders"), hour(1, "orders"), hour(3, "orders", left_out=1), hour(4, "orders")]
    assert observed(tmp_path / "lost", lost) == {"orders": 2}
    blind = [hour(each, "orders", complete=each != 2) for each in range(5)]
    assert observed(tmp_path / "blind", blind) == {"orders": 2}


TRIED = TriedPolicy(
    parsed(
        MINIMAL
        + """
topics:
  - {name: orders, retention.commitoffset.enable: true}
  - {name: new, retention.commitoffset.enable: true, dry_run: true}
  - {name: off, retention.commitoffset.enable: false}
  - {pattern: 'clicks[.].*', retention.commitoffset.enable: true}
  - {pattern: 'views[.].*', retention.commitoffset.enable: true}
"""
    ),
    {},
)


@pytest.mark.parametrize(
    ("recorded", "asked", "expected"),
    [
        (["orders", "clicks.a", "views.a", "new", "other"], (), []),
        (["orders", "clicks.a", "other"], (), ["new", r"views[.].*"]),
        (["orders"], ["n.*"], ["new"]),
        (["orders"], ["views.eu"], [r"views[.].*"]),
    ],
)
def test_an_entry_is_judged_if_the_past_has_a_topic_that_follows_it(
    recorded: list[str], asked: list[str], expected: list[str]
) -> None:
    assert [each.about[0] for each in not_judged(TRIED, recorded, asked)] == expected
