"""``retentiond delete-records`` when something changes between its question and the answer."""

from __future__ import annotations

import pytest

from retentiond.state.operator_actions import Pause, write_pause
from tests.support.brokers.deleting import ASKS, RECORDS, Bench

pytestmark = pytest.mark.broker


DELETES_GROUP: None = None


@pytest.mark.parametrize(
    ("committed", "meanwhile", "answers", "code", "asked", "log_start", "said"),
    [
        # It is reset: what was shown no longer holds, and is asked for again.
        (9, 5, ["y", "n"], 1, [9, 5], 0, "not all that was shown may still be deleted, and noth"),
        (9, 5, ["y", "y"], 0, [9, 5], 5, ""),
        # A key that is pressed twice does not answer the second question.
        (9, 5, ["y\ny", "n"], 1, [9, 5], 0, ""),
        (9, 0, ["y"], 1, [9], 0, "-0  error: no longer: nothing to delete: it begins at 0, and 0"),
        (9, DELETES_GROUP, ["y"], 2, [9], 0, "has no commit that you may see; nothing was deleted"),
        # It goes on: no more goes than was shown.
        (4, 9, ["y"], 0, [4], 4, ""),
    ],
)
def test_what_a_group_does_meanwhile(  # noqa: PLR0917  # the columns of a table
    bench: Bench,
    topic_name: str,
    committed: int,
    meanwhile: int | None,
    answers: list[str],
    code: int,
    asked: list[int],
    log_start: int,
    said: str,
) -> None:
    name = bench.driver.filled_topic(topic_name)
    bench.driver.commit(topic_name, {(name, 0): committed})

    def happens() -> None:
        if meanwhile is None:
            bench.driver.delete_group(topic_name)
        else:
            bench.driver.commit(topic_name, {(name, 0): meanwhile})

    ended, shown = bench.on_a_terminal(
        *("--topic", name, "--to-committed", topic_name), answers=answers, meanwhile=happens
    )
    *questions, _ = shown.split(ASKS)
    assert [question.rpartition("Delete ")[2] for question in questions] == [
        f"{records} records from 1 partition? " for records in asked
    ]
    assert said in shown
    assert (ended, bench.log_starts(name)) == (code, [log_start])


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
