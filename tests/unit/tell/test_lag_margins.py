"""How long until Kafka's own retention reaches what a group has not read."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retentiond.errors import KafkaUnavailable
from retentiond.model import Failure, TopicPartition
from retentiond.tell.figures.margins import ROUNDS
from tests.support.builders.lag_logs import HOUR_MS, Logs, name

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def hours(*ages: float) -> list[int]:
    return [int(age * HOUR_MS) for age in ages]


def assert_close(shown_s: float, hours_left: float) -> None:
    """Never more than is left, and a twentieth less at most."""
    left_s = hours_left * 3600
    assert left_s - max(1, abs(shown_s) / 20) <= shown_s <= left_s


Commits = dict[str, list[int]]
"""By group, its commit on each partition in turn."""


def test_in_an_empty_log_nothing_is_unread() -> None:
    """A consumer of transactions that commits "last record + 1" stands before the last commit
    marker; on an idle topic Kafka's retention removes that, too."""
    logs = Logs(hours(90, 80), hours(80, 20))
    logs.commit("billing", 1, 2)
    logs.partitions[ORDERS_0].delete_to(2)
    assert logs.margins() == {}


@pytest.mark.parametrize("deleted_to", [0, 2, 3])
def test_what_is_left_of_a_log_without_a_record_is_nothing_to_read(deleted_to: int) -> None:
    """Two markers are left; Kafka's retention is about to remove them, or has removed one."""
    logs = Logs(hours(99, 99))
    logs.end_transaction(0, *hours(99))
    logs.end_transaction(0, *hours(99))
    logs.commit("billing", 2)
    logs.commit("search", 1)
    logs.partitions[ORDERS_0].delete_to(deleted_to)
    shown = logs.margins()
    assert "billing" not in shown
    assert ("search" in shown) is (deleted_to < 2)
    assert logs.margins().keys() == shown.keys()
    assert len(logs.fetched) <= 2  # what was found is remembered

    logs.produce(0)
    assert logs.margins()["billing"] == (-1 if deleted_to > 2 else pytest.approx(3600, rel=0.06))


def test_a_tail_that_cant_be_read_or_is_far_from_danger_counts_as_unread() -> None:
    logs = Logs(hours(10))
    logs.end_transaction(0, *hours(10))
    logs.commit("billing", 1)
    assert_close(logs.margins()["billing"], 90)
    assert logs.fetched == []
    logs.now_ms += 89 * HOUR_MS
    logs.answers[ORDERS_0] = Failure("TOPIC_AUTHORIZATION_FAILED", "no READ")
    assert 0 < logs.margins()["billing"] <= 3600
    assert logs.fetched != []
    logs.answers.clear()


def test_a_loss_that_was_seen_coming_goes_on_from_there() -> None:
    logs = Logs(hours(98, 97, 1))
    logs.commit("billing", 1)
    assert_close(logs.margins()["billing"], 3)
    logs.now_ms += 5 * HOUR_MS
    logs.partitions[ORDERS_0].delete_to(2)
    assert logs.margins()["billing"] == pytest.approx(-2 * 3600, abs=3 * 3600 / 20 + 1)


@pytest.mark.parametrize("unlimited", [True, False])
def test_where_age_deletes_nothing_there_is_no_margin(unlimited: bool) -> None:
    logs = Logs(hours(90), retention_ms=None if unlimited else 100 * HOUR_MS)
    logs.cleanup_policy = frozenset({"delete" if unlimited else "compact"})
    logs.commit("billing", 0)
    assert logs.margins() == {}


def test_after_a_deletion_one_look_up_confirms_what_was_known() -> None:
    logs = Logs(hours(60, 60, 60, 50))
    logs.commit("billing", 2)
    before = logs.margins()
    asked = len(logs.asked)
    logs.partitions[ORDERS_0].delete_to(2)
    assert logs.margins() == before
    assert len(logs.asked) == asked + 1


def test_after_a_deletion_what_was_known_is_shown_while_it_cannot_be_confirmed() -> None:
    logs = Logs(hours(60, 60, 60, 50))
    logs.commit("billing", 2)
    before = logs.margins()
    logs.partitions[ORDERS_0].delete_to(2)
    logs.answers[ORDERS_0] = Failure("NOT_LEADER", "moved")
    assert logs.margins() == before


def test_what_was_asked_once_is_not_asked_again() -> None:
    logs = Logs(hours(90, 60), hours(50, 40))
    logs.commit("billing", 0, 0)
    logs.margins()
    asked = len(logs.asked)
    assert 0 < asked <= ROUNDS
    logs.now_ms += 60_000
    logs.commit("search", 0, 0)
    assert_close(logs.margins()["search"], 10 - 1 / 60)
    assert len(logs.asked) == asked


def test_groups_that_keep_up_need_one_look_up() -> None:
    logs = Logs(hours(3, 2, 1), hours(0.5))
    for number in range(3):
        logs.commit(f"group-{number}", number, 0)
    assert all(margin > 95 * 3600 for margin in logs.margins().values())
    assert len(logs.asked) == 1


def test_only_what_may_be_shown_is_looked_up() -> None:
    logs = Logs(hours(99), hours(1))
    logs.commit("billing", 0, 0)
    logs.margins()
    assert [ORDERS_1 in asked for asked in logs.asked] == [True] + [False] * (len(logs.asked) - 1)


def test_a_topic_that_was_recreated_is_asked_anew() -> None:
    logs = Logs(hours(50))
    logs.commit("billing", 0)
    logs.margins()
    asked = len(logs.asked)
    logs.topic_id = "another"
    logs.margins()
    assert len(logs.asked) == 2 * asked


def test_a_partition_that_lost_its_end_is_asked_anew() -> None:
    logs = Logs(hours(99, 2, 1))
    logs.commit("billing", 2)
    assert_close(logs.margins()["billing"], 99)
    log = logs.partitions[ORDERS_0]
    del log.records[1:]
    assert logs.margins() == {}
    logs.produce(0, age_ms=90 * HOUR_MS)
    logs.produce(0, age_ms=90 * HOUR_MS)
    assert_close(logs.margins()["billing"], 10)


def test_a_partition_that_cannot_be_asked_spoils_no_other() -> None:
    logs = Logs(hours(50), hours(80))
    logs.commit("billing", 0, 0)
    logs.answers[ORDERS_1] = Failure("NOT_LEADER", "moved")
    assert_close(logs.margins()["billing"], 50)
    assert sum(ORDERS_1 in asked for asked in logs.asked) == 1
    logs.answers.clear()
    assert_close(logs.margins()["billing"], 20)


def test_a_group_of_which_nothing_is_known_has_no_margin() -> None:
    logs = Logs(hours(50))
    logs.commit("billing", 0)
    logs.answers[ORDERS_0] = Failure("NOT_LEADER", "moved")
    assert logs.margins() == {}


def test_when_kafka_is_gone_what_is_known_is_shown_and_the_problem_told() -> None:
    logs = Logs(hours(50), hours(80))
    logs.commit("billing", 0)
    logs.margins()
    logs.commit("search", 0, 0)
    logs.error = KafkaUnavailable("no broker answers")
    found = logs.report()
    assert found.problem == "no broker answers"
    assert_close(found.margins[name("billing")], 50)


def test_a_bug_is_told_and_stops_nothing() -> None:
    logs = Logs(hours(50))
    logs.commit("billing", 0)
    found = logs.reader.report(None, logs.snapshot(), (), lambda: False)  # type: ignore[arg-type]  # that is the bug
    assert found.margins == {}
    assert found.problem is not None
    assert found.problem.endswith("please report this")


def test_a_process_that_is_to_end_asks_nothing_more() -> None:
    logs = Logs(hours(50))
    logs.commit("billing", 0)
    rows = ()
    logs.reader.report(logs, logs.snapshot(), rows, lambda: True)  # type: ignore[arg-type]  # asked for nothing
    assert logs.asked == []


ages = st.integers(-HOUR_MS, 300 * HOUR_MS)
stamps = st.lists(ages, max_size=12)


@pytest.mark.long
@settings(deadline=None)  # the machine may be busy
@given(
    st.lists(st.tuples(stamps, st.integers(0, 12)), min_size=1, max_size=3),
    st.lists(st.lists(st.integers(0, 14), min_size=1, max_size=3), min_size=1, max_size=4),
    st.sampled_from([0, 1000, HOUR_MS, 100 * HOUR_MS, 10_000 * HOUR_MS]),
)
def test_a_margin_is_never_more_than_is_left_and_a_twentieth_less_at_most(
    partitions: list[tuple[list[int], int]], commits: list[list[int]], retention_ms: int
) -> None:
    """However the timestamps are disordered."""
    logs = Logs(*(ages_ms for ages_ms, _ in partitions), retention_ms=retention_ms)
    for log, (_, log_start) in zip(logs.partitions.values(), partitions, strict=True):
        log.delete_to(log_start)
    for number, offsets in enumerate(commits):
        logs.commit(f"group-{number}", *offsets[: len(partitions)])
    for _ in range(4):
        shown = logs.margins()
    for number, offsets in enumerate(commits):
        group_id = f"group-{number}"
        left = logs.true_margin(group_id)
        is_gone = any(
            offset < log.log_start < log.high_watermark
            for offset, log in zip(offsets, logs.partitions.values(), strict=False)
        )
        if is_gone:
            assert shown[group_id] <= -1
        elif left is None:
            assert group_id not in shown
        else:
            precision = max(1.001, abs(shown[group_id]) / 20)
            assert left - precision <= shown[group_id] <= left + 0.001


@pytest.mark.long
@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 40 * HOUR_MS),
            st.lists(st.integers(0, 120 * HOUR_MS), max_size=5),
            st.integers(0, 5),
        )
    )
)
def test_a_margin_stays_true_while_time_passes_and_records_come_and_go(
    steps: list[tuple[int, list[int], int]],
) -> None:
    """In each step some records come, of whatever age, a group reads some, and Kafka and
    retentiond delete some."""
    logs = Logs(hours(1))
    log = logs.partitions[ORDERS_0]
    position = 0
    for passed_ms, written, read in steps:
        logs.now_ms += passed_ms
        for age_ms in written:
            logs.produce(0, age_ms)
        position = min(position + read, log.high_watermark)
        log.delete_to(position - 1)
        log.expire(logs.now_ms - 100 * HOUR_MS)
        logs.commit("billing", position)
        logs.margins()
        shown = logs.margins()
        left = logs.true_margin("billing")
        if position < log.log_start:
            assert shown["billing"] <= -1
        elif left is None:
            assert shown == {}
        else:
            assert left - max(1.001, abs(shown["billing"]) / 20) <= shown["billing"] <= left + 0.001
