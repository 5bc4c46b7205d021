"""``retentiond delete-records`` when something changes between its question and the answer."""

from __future__ import annotations

import pytest

from retentiond.state.operator_actions import Pause, write_pause
from tests.support.brokers.deleting import ASKS, RECORDS, Bench

pytestmark = pytest.mark.broker


def test_the_high_watermark_is_the_one_that_was_shown(bench: Bench, topic_name: str) -> None:
    name = bench.driver.filled_topic(topic_name)
    code, shown = bench.on_a_terminal(
        *("--offset-json-file", bench.file((name, 0, -1))),
        answers=["y"],
        meanwhile=lambda: bench.driver.produce(name, [bench.driver.now_ms] * 3),
    )
    assert f"Delete {RECORDS} records from 1 partition? {ASKS}" in shown
    assert code == 0
    assert bench.log_starts(name) == [RECORDS]


def test_a_topic_that_is_made_anew_meanwhile_is_asked_for_anew(
    bench: Bench, topic_name: str
) -> None:
    name = bench.driver.filled_topic(topic_name)

    def make_anew() -> None:
        bench.driver.delete_topic(name)
        bench.driver.filled_topic(name)

    code, shown = bench.on_a_terminal(
        *("--offset-json-file", bench.file((name, 0, 3))), answers=["y", "n"], meanwhile=make_anew
    )
    assert (code, shown.count(ASKS)) == (1, 2)
    assert bench.log_starts(name) == [0]


def test_a_pause_that_begins_meanwhile_counts(bench: Bench, topic_name: str) -> None:
    name = bench.driver.filled_topic(topic_name)
    bench.state_dir.mkdir()
    code, shown = bench.on_a_terminal(
        *("--offset-json-file", bench.file((name, 0, 3))),
        answers=["y"],
        meanwhile=lambda: write_pause(bench.state_dir, Pause("an audit")),
    )
    assert code == 2
    assert "nothing is deleted: " in shown
    assert bench.log_starts(name) == [0]
