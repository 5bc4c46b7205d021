"""`scripts/bench history` on a small past: every answer is the known one."""

from __future__ import annotations

from pathlib import Path

import pytest

from devkit.bench import history, past_world
from devkit.bench.layouts import Layout

pytestmark = [pytest.mark.spark, pytest.mark.long]

SMALL = Layout("S", topics=8, partitions=2, groups=8, topics_each=4)
"""Two topics of each manner; four groups read each."""


def test_all_three_questions_are_answered_as_is_known(tmp_path: Path) -> None:
    results = [each for part in history.measure(SMALL, 3, tmp_path) for each in part]

    assert {each.what: each.value for each in results}["S, 3 days: partition-entries"] == 13_824
    named = [each.what for each in results if each.unit == "s" and "CPU" not in each.what]
    assert named == [f"S, 3 days: {each}" for each in ("simulate", "recommend", "report")]
    assert all(each.value > 0 for each in results)


@pytest.mark.parametrize(
    ("entries", "noticed"),
    [
        (200, "simulate is wrong: entries is 288, and 200 was said"),
        (288, "simulate is wrong: topic-0000's mean is .*, and 1 was said"),
    ],
)
def test_a_wrong_answer_is_noticed(entries: int, noticed: str) -> None:
    (topic, *_) = past_world.topics(SMALL, 1)
    said = {"topic": topic.name, "mean_bytes": 1}
    found = {"entries": entries, "gaps": [], "topics": [said]}
    with pytest.raises(ValueError, match=noticed):
        history._compare("simulate", history._simulation(found, [topic]))


def test_a_day_of_entries_becomes_one_file(tmp_path: Path) -> None:
    results = history.measure_day(SMALL, tmp_path)

    assert [each.unit for each in results] == ["s", "s", "MiB"]
    assert results[2].value > 10
