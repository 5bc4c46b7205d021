"""Look-ups in remote storage that is slow: how long one call takes, and that the next goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from types import SimpleNamespace

import pytest

from retentiond.kafka.offsets import by_time
from retentiond.kafka.offsets.by_time import Found
from retentiond.kafka.offsets.lookups import SILENT_LEADER
from retentiond.kafka.topics import Leader
from retentiond.model import Failure, TopicPartition

HOUR_MS = 3_600_000

NOW_MS = 10_000 * HOUR_MS

LOG_START, LOCAL_START = 10, 100


class Tier:
    """Partitions of one topic on some leaders; offset N is of hour N + ``first_hour``, and the
    remote part hides, where it was asked about the last hours, what is young.

    Each request takes the leaders ``seconds``; from ``time_out_s`` on none answers.
    """

    def __init__(self, *, seconds: float, leaders: int = 1, time_out_s: float = 30.0) -> None:
        self.now_s = 1000.0
        self.seconds = seconds
        self.time_out_s = time_out_s
        self.leaders = leaders
        self.most_at_once = 0
        self.asked: Counter[TopicPartition] = Counter()

    def node(self, at: TopicPartition) -> int:
        return at.partition % self.leaders

    def in_small_requests(self, times_ms: Mapping[TopicPartition, int]) -> Found:
        assert times_ms
        of_one_leader = max(Counter(map(self.node, times_ms)).values())
        self.most_at_once = max(self.most_at_once, of_one_leader)
        self.asked.update(times_ms.keys())
        if self.seconds >= self.time_out_s:
            self.now_s += self.time_out_s
            return dict.fromkeys(times_ms, SILENT_LEADER)
        self.now_s += self.seconds
        return {at: self._offset(time_ms) for at, time_ms in times_ms.items()}

    def _offset(self, time_ms: int) -> int | None:
        """What is younger than 50 hours is found in the local part alone."""
        hours = (NOW_MS - time_ms) // HOUR_MS
        return 150 if hours < 50 else max(LOG_START, LOCAL_START - hours // 10)

    def asking(self) -> by_time.BrokerQueries:
        def everywhere(offset: int) -> Callable[..., Mapping[TopicPartition, int | Failure]]:
            return lambda partitions: dict.fromkeys(partitions, offset)

        def logs(partitions: Collection[TopicPartition]) -> dict[TopicPartition, by_time.Log]:
            return {at: ("an-id", Leader(self.node(at), 3)) for at in partitions}

        return by_time.BrokerQueries(
            logs=logs,
            log_starts=everywhere(LOG_START),
            local_starts=everywhere(LOCAL_START),
            newest=everywhere(NOW_MS),
            in_small_requests=self.in_small_requests,
        )


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Of the tier that a test puts there."""
    made = SimpleNamespace(tier=None)
    time = SimpleNamespace(monotonic=lambda: made.tier.now_s, sleep=lambda _: None)
    monkeypatch.setattr(by_time, "time", time)
    return made


def partitions(count: int) -> list[TopicPartition]:
    return [TopicPartition("archive", number) for number in range(count)]


def call(lookups: by_time.TieredLookups, tier: Tier, count: int, now_ms: int = NOW_MS) -> Found:
    return lookups.offsets_at(dict.fromkeys(partitions(count), now_ms - HOUR_MS), tier.asking())


@pytest.mark.parametrize("seconds", [5.0, 30.0], ids=["slow", "silent"])
def test_a_call_ends_in_time_whatever_a_look_up_takes(
    clock: SimpleNamespace, seconds: float
) -> None:
    clock.tier = tier = Tier(seconds=seconds)
    began_s = tier.now_s
    found = call(by_time.TieredLookups(), tier, 64)
    assert tier.now_s - began_s <= by_time.CALL_S + seconds
    assert found.keys() == set(partitions(64))
    assert [*found.values()].count(by_time.AGE_PENDING) >= 64 - by_time.PARTITIONS_AT_ONCE


def test_a_search_that_the_time_cuts_off_goes_on_with_the_next_call(
    clock: SimpleNamespace,
) -> None:
    clock.tier = tier = Tier(seconds=5.0)
    lookups = by_time.TieredLookups()
    calls = 0
    while not all(isinstance(each, int) for each in call(lookups, tier, 8).values()):
        calls += 1
        assert calls < 40
    assert set(call(lookups, tier, 8).values()) <= set(range(LOG_START, LOCAL_START))


def test_no_leader_is_asked_about_more_at_once_and_all_leaders_are_asked(
    clock: SimpleNamespace,
) -> None:
    clock.tier = tier = Tier(seconds=0.05, leaders=3)
    found = call(by_time.TieredLookups(), tier, 60)
    assert tier.most_at_once == by_time.PARTITIONS_AT_ONCE
    assert all(isinstance(each, int) for each in found.values())
    assert max(tier.asked.values()) < 20


def test_a_partition_whose_look_up_fails_while_it_is_searched_is_not_asked_on_and_on(
    clock: SimpleNamespace,
) -> None:
    clock.tier = tier = Tier(seconds=0.05)
    in_small_requests = tier.in_small_requests

    def silent_second(times_ms: Mapping[TopicPartition, int]) -> Found:
        return (
            in_small_requests(times_ms)
            if len(tier.asked) < 1
            else dict.fromkeys(times_ms, SILENT_LEADER)
        )

    tier.in_small_requests = silent_second  # type: ignore[method-assign]  # after the first answers
    found = call(by_time.TieredLookups(), tier, 1)
    assert list(found.values()) == [by_time.AGE_PENDING]


def test_of_topics_that_are_not_listed_any_more_nothing_is_remembered(
    clock: SimpleNamespace,
) -> None:
    clock.tier = tier = Tier(seconds=0.05)
    lookups = by_time.TieredLookups()
    found = call(lookups, tier, 4)
    asked = tier.asked.total()
    lookups.keep({"archive"})
    assert call(lookups, tier, 4) == found
    assert tier.asked.total() == asked

    lookups.keep({"orders"})
    assert {**lookups._known, **lookups._asked_at, **lookups._steps} == {}
    assert call(lookups, tier, 4) == found
    assert tier.asked.total() > asked
