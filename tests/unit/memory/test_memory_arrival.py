"""The ends that are remembered, and for how long."""

from __future__ import annotations

from dataclasses import replace

import pytest

from retentiond.config import PolicyConflict, TopicPolicy
from retentiond.memory.remembered import NOTHING, EndsSeen, known_topics, with_ends
from tests.support.builders.guard_readings import healthy

DAY_MS = 24 * 3_600_000
POLICY = TopicPolicy(enabled=True, consumed_retention_ms=DAY_MS)


def at(ms: int) -> EndsSeen:
    return EndsSeen(ms, {0: ms})


def after(*cycles_ms: int, policy: TopicPolicy = POLICY) -> list[int]:
    """When the remembered ends were seen, after cycles at these times."""
    ends: tuple[EndsSeen, ...] = ()
    for ms in cycles_ms:
        ends = with_ends(ends, at(ms), policy)
    return [seen.at_ms for seen in ends]


def test_half_a_consumed_retention_lies_between_remembered_ends() -> None:
    assert after(*range(0, DAY_MS, 300_000)) == [0, DAY_MS // 2]


def test_of_many_days_the_last_ends_stay_one_younger_and_one_older_than_the_retention() -> None:
    now_ms = 9 * DAY_MS + 7
    ages = [now_ms - ms for ms in after(*range(0, now_ms, 3_600_000))]
    assert len(ages) == 4
    assert any(0 < age <= DAY_MS for age in ages)
    assert any(age > DAY_MS + 60_000 for age in ages)


def test_of_a_short_retention_a_minute_lies_between_remembered_ends() -> None:
    assert after(0, 1_000, 59_000, 60_000, policy=replace(POLICY, consumed_retention_ms=2_000)) == [
        0,
        60_000,
    ]


def test_ends_from_a_clock_that_was_ahead_are_dropped() -> None:
    assert after(5_000, 50 * DAY_MS, 6_000) == [5_000, 6_000]


@pytest.mark.parametrize(
    "policy", [replace(POLICY, consumed_retention_ms=0), PolicyConflict(("topics[0]",))]
)
def test_where_age_is_no_bound_no_ends_are_remembered(
    policy: TopicPolicy | PolicyConflict,
) -> None:
    assert with_ends((at(1),), at(2), policy) == ()


def test_each_topics_own_ends_are_remembered_and_unread_ones_are_left_out() -> None:
    reading = healthy()
    for number, partition in enumerate(sorted(reading.partitions)):
        reading.change_partition(partition, high_watermark=number or None)
    known = known_topics(reading.snapshot(), NOTHING, 1)
    assert known["clicks"].ends == (EndsSeen(1_000_000, {}),)
    assert known["orders"].ends == (EndsSeen(1_000_000, {0: 1, 1: 2}),)


def test_a_recreated_topic_keeps_no_ends_of_the_old_one() -> None:
    reading = healthy()
    before = replace(NOTHING, topics=known_topics(reading.snapshot(), NOTHING, 1))
    reading.change_topic("orders", topic_id="another")
    reading.change_partition(next(at for at in reading.partitions if at.topic == "orders"))
    later = replace(reading.snapshot(), taken_at_ms=1_000_000 + DAY_MS)
    known = known_topics(later, before, 1)
    assert [len(known[name].ends) for name in ("clicks", "orders")] == [2, 1]
