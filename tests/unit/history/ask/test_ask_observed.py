"""For how long topics were observed, and of which entries of a policy the past has nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import write_deltalake

from retentiond.history.ask.observed import observed_ms, recorded_ms, seen_stretches
from retentiond.history.ask.past import history_at, open_past
from retentiond.history.ask.question import TriedPolicy
from retentiond.history.ask.simulate import NOTHING, not_judged
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
    return {topic: ms // HOUR_MS for topic, ms in observed_ms(seen_stretches(past)).items()}


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


def recorded_hour(number: int, *retentions: int | None, **entry: Any) -> PastEntry:
    """``retentions``: in hours, of partitions whose rows have the retention offset; None: one that
    could not be read, or was recorded before rows had it."""
    rows = [
        partition_row(
            "orders",
            at,
            high_watermark=5,
            consumed_retention_ms=4 * HOUR_MS if hours is None else hours * HOUR_MS,
            retention_offset=None if hours is None else 3,
        )
        for at, hours in enumerate(retentions)
    ]
    return PastEntry(number * HOUR_MS, is_whole=True, rows=rows, **entry)


@pytest.mark.parametrize(
    ("hours", "expected"),
    [
        ([(4, 4)] * 10, (9, 4)),
        ([(4, 4)] * 3, (2, 2)),  # shorter than the retention, and all of it judged
        ([(5, 5)] * 10, (9, 0)),
        ([(3, 4)] * 10, (9, 0)),  # one of them was under pressure
        ([(4, 5)] * 10, (9, 0)),  # or under another policy
        ([(4, None)] * 10, (9, 0)),
        ([(None, None)] * 3 + [(4, 4)] * 7, (9, 1)),  # its first four hours count alone
        ([(4, 4)] * 3 + [(5, 5)] * 7, (9, 2)),  # the policy changed
        ([(4, 4), (5, 5)] * 5, (9, 0)),
    ],
)
def test_what_the_record_has_of_the_tried_retention_is_judged_from_the_first_entry_on(
    tmp_path: Path, hours: list[tuple[int | None, ...]], expected: tuple[int, int]
) -> None:
    """Under a retention of four hours: for how long it was observed, and how much of the first four
    hours of that the record tells."""
    entries = [recorded_hour(number, *retentions) for number, retentions in enumerate(hours)]
    assert of_four_hours(tmp_path, entries) == expected
    observed_hours, recorded_hours = expected
    topic = replace(
        NOTHING,
        retention_ms=4 * HOUR_MS,
        observed_ms=observed_hours * HOUR_MS,
        recorded_ms=recorded_hours * HOUR_MS,
    )
    assert topic.judged_ms == (max(0, observed_hours - 4) + recorded_hours) * HOUR_MS


def test_what_was_not_seen_is_not_judged_either(tmp_path: Path) -> None:
    def numbered(*numbers: int, **entry: Any) -> list[PastEntry]:
        return [recorded_hour(number, 4, **entry) for number in numbers]

    gap = numbered(0, 1, 40, 41, 42)
    assert of_four_hours(tmp_path / "gap", gap) == (3, 3)
    blind = [*numbered(0, 1), *numbered(2, complete=False), *numbered(3, 4)]
    assert of_four_hours(tmp_path / "blind", blind) == (2, 2)
    lost = [*numbered(0, 1), *numbered(3, left_out=1), *numbered(4)]
    assert of_four_hours(tmp_path / "lost", lost) == (2, 2)


def test_a_history_without_that_column_tells_what_was_observed(tmp_path: Path) -> None:
    of_then = PastCluster([recorded_hour(number, 4) for number in range(6)]).table()
    write_deltalake(tmp_path, of_then.drop_columns(["retention_offset"]), partition_by=["day"])
    assert of_four_hours(tmp_path, []) == (5, 0)


def of_four_hours(folder: Path, entries: list[PastEntry]) -> tuple[int, int]:
    if entries:
        PastCluster(entries).write(folder)
    past = open_past(history_at(folder), "local[1]", BEGIN_MS, BEGIN_MS + 99 * HOUR_MS)
    stretches = seen_stretches(past)
    recorded = recorded_ms(stretches["orders"], 4 * HOUR_MS)
    assert recorded_ms(stretches["orders"], None) == 0
    return observed_ms(stretches)["orders"] // HOUR_MS, recorded // HOUR_MS


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
