"""``retentiond delete-records`` when something changes between its question and the answer."""

from __future__ import annotations

import pytest

from retentiond.state.operator_actions import Pause, write_pause
from tests.support.brokers.deleting import ASKS, RECORDS, Bench

pytestmark = pytest.mark.broker


def test_a_group_that_is_reset_meanwhile_keeps_its_records(bench: Bench, topic_name: str) -> None:
    name = bench.topic(topic_name)
    bench.driver.commit(topic_name, {(name, 0): 9})
    code, shown = bench.on_a_terminal(
        *("--topic", name, "--to-committed", topic_name),
        answers=["y", "n"],
        meanwhile=lambda: bench.driver.commit(topic_name, {(name, 0): 5}),
    )
    first, second, _ = shown.split(ASKS)
    assert first.endswith("Delete 9 records from 1 partition? ")
    assert "not all that was shown may still be deleted, and nothing has been" in second
    assert second.endswith("Delete 5 records from 1 partition? ")
    assert code == 1
    assert bench.log_starts(name) == [0]


def test_what_is_shown_anew_is_deleted_once_it_is_agreed_to(bench: Bench, topic_name: str) -> None:
    name = bench.topic(topic_name)
    bench.driver.commit(topic_name, {(name, 0): 9})
    code, _ = bench.on_a_terminal(
        *("--topic", name, "--to-committed", topic_name),
        answers=["y", "y"],
        meanwhile=lambda: bench.driver.commit(topic_name, {(name, 0): 5}),
    )
    assert code == 0
    assert bench.log_starts(name) == [5]


def test_what_was_typed_before_a_question_does_not_answer_it(bench: Bench, topic_name: str) -> None:
    """As by a key that is pressed twice."""
    name = bench.topic(topic_name)
    bench.driver.commit(topic_name, {(name, 0): 9})
    code, shown = bench.on_a_terminal(
        *("--topic", name, "--to-committed", topic_name),
        answers=["y\ny", "n"],
        meanwhile=lambda: bench.driver.commit(topic_name, {(name, 0): 5}),
    )
    assert (code, shown.count(ASKS)) == (1, 2)
    assert bench.log_starts(name) == [0]


def test_a_group_that_is_reset_to_the_beginning_ends_the_command_with_1(
    bench: Bench, topic_name: str
) -> None:
    name = bench.topic(topic_name)
    bench.driver.commit(topic_name, {(name, 0): 9})
    code, shown = bench.on_a_terminal(
        *("--topic", name, "--to-committed", topic_name),
        answers=["y"],
        meanwhile=lambda: bench.driver.commit(topic_name, {(name, 0): 0}),
    )
    assert (code, shown.count(ASKS)) == (1, 1)
    assert f"{name}-0  error: no longer: nothing to delete: it begins at 0, and 0" in shown
    assert bench.log_starts(name) == [0]


def test_a_group_that_is_deleted_meanwhile_refuses_everything(
    bench: Bench, topic_name: str
) -> None:
    name = bench.topic(topic_name)
    bench.driver.commit(topic_name, {(name, 0): 9})
    code, shown = bench.on_a_terminal(
        *("--topic", name, "--to-committed", topic_name),
        answers=["y"],
        meanwhile=lambda: bench.driver.delete_group(topic_name),
    )
    assert code == 2
    assert f"group '{topic_name}' has no commit that you may see; nothing was deleted" in shown
    assert bench.log_starts(name) == [0]


def test_a_group_that_commits_further_meanwhile_deletes_no_more_than_was_shown(
    bench: Bench, topic_name: str
) -> None:
    name = bench.topic(topic_name)
    bench.driver.commit(topic_name, {(name, 0): 4})
    code, shown = bench.on_a_terminal(
        *("--topic", name, "--to-committed", topic_name),
        answers=["y"],
        meanwhile=lambda: bench.driver.commit(topic_name, {(name, 0): 9}),
    )
    assert (code, shown.count(ASKS)) == (0, 1)
    assert bench.log_starts(name) == [4]


def test_the_high_watermark_is_the_one_that_was_shown(bench: Bench, topic_name: str) -> None:
    name = bench.topic(topic_name)
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
    name = bench.topic(topic_name)

    def make_anew() -> None:
        bench.driver.delete_topic(name)
        bench.topic(name)

    code, shown = bench.on_a_terminal(
        *("--offset-json-file", bench.file((name, 0, 3))), answers=["y", "n"], meanwhile=make_anew
    )
    assert (code, shown.count(ASKS)) == (1, 2)
    assert bench.log_starts(name) == [0]


def test_a_pause_that_begins_meanwhile_counts(bench: Bench, topic_name: str) -> None:
    name = bench.topic(topic_name)
    bench.state_dir.mkdir()
    code, shown = bench.on_a_terminal(
        *("--offset-json-file", bench.file((name, 0, 3))),
        answers=["y"],
        meanwhile=lambda: write_pause(bench.state_dir, Pause("an audit")),
    )
    assert code == 2
    assert "nothing is deleted: " in shown
    assert bench.log_starts(name) == [0]


@pytest.mark.parametrize("how", [("--dry-run",), ("--yes",)])
def test_a_group_beyond_the_end_or_without_commits_on_the_topic_is_a_failure(
    bench: Bench, topic_name: str, how: tuple[str, ...]
) -> None:
    one, two = bench.topic(f"{topic_name}-1"), bench.topic(f"{topic_name}-2")
    beyond, elsewhere = f"{topic_name}-beyond", f"{topic_name}-elsewhere"
    bench.driver.commit(beyond, {(one, 0): 5000})
    bench.driver.commit(elsewhere, {(two, 0): 5})
    for group, said in (
        (beyond, "its commit 5000 is beyond the high watermark 10"),
        (elsewhere, "it has no commit on this topic"),
    ):
        done = bench.run("--topic", one, "--to-committed", group, *how)
        assert done.code == 1, done
        assert f"{one}-0  error: group '{group}': {said}" in done.out
    assert bench.log_starts(one) == [0]
