"""How a plan is cut up: in turn, whole topics, as large as can be read and judged in time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retentiond.act import slices as module
from retentiond.act.delete import MAX_EVIDENCE_AGE_S
from retentiond.act.slices import TARGET_AGE_S, Estimate, Slices, Workload
from retentiond.model import PlanRow, TopicPartition, Verdict
from retentiond.snapshot import Snapshot
from tests.support.builders.guard_readings import Reading, deletion, partition, topic


def cluster(
    partitions: Mapping[str, int], groups: int = 1, others: int = 0
) -> tuple[list[PlanRow], Snapshot]:
    """A deletion on each partition. Each group has committed on all of them, and on so many others,
    which no policy enables."""
    reading = Reading(topics={name: topic(name) for name in partitions})
    at = [TopicPartition(name, number) for name in partitions for number in range(partitions[name])]
    reading.partitions = {each: partition(each.partition) for each in at}
    counts = {}
    for number in range(groups):
        reading.add_group(f"group-{number}")
        reading.commits |= {(f"group-{number}", each): 120 for each in at}
        counts[f"group-{number}"] = len(at) + others
    return [deletion(each) for each in at], replace(reading.snapshot(), commit_counts=counts)


def taken(slices: Slices) -> list[dict[str, int]]:
    """What each slice has of each topic."""
    found = []
    while slices:
        found.append(dict(Counter(row.topic for row in slices.take())))
    return found


def test_what_is_small_is_read_at_once() -> None:
    rows, first = cluster({"clicks": 3, "orders": 2})
    assert taken(Slices(rows, Estimate(first))) == [{"clicks": 3, "orders": 2}]


def test_only_deletions_are_taken() -> None:
    rows, first = cluster({"clicks": 2})
    held = replace(rows[0], verdict=Verdict.HOLD)
    assert Slices([held, rows[1]], Estimate(first)).take() == (rows[1],)
    assert not Slices([held], Estimate(first))


def test_a_topic_goes_with_the_first_turn_of_its_partitions() -> None:
    rows, first = cluster({"clicks": 2, "orders": 2})
    turned = [rows[3], rows[0], rows[1], rows[2]]
    assert Slices(turned, Estimate(first)).take() == (rows[3], rows[2], rows[0], rows[1])


def test_no_more_partitions_go_into_one_request_than_a_broker_takes_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_PARTITIONS", 2)
    rows, first = cluster({"clicks": 1, "orders": 3})
    assert taken(Slices(rows, Estimate(first))) == [{"clicks": 1, "orders": 1}, {"orders": 2}]


def test_a_slice_has_whole_topics_up_to_what_can_be_read_in_time() -> None:
    rows, first = cluster({f"topic-{number}": 2 for number in range(8)}, groups=3)
    slices = Slices(rows, Estimate(first))
    one, *_ = rows
    slices.learn([one, rows[1]], TARGET_AGE_S / 3)  # three such topics are in time
    sizes = taken(slices)
    assert all({*each.values()} == {2} for each in sizes)
    assert max(map(len, sizes)) == 3
    assert sum(map(len, sizes)) == 8


def test_a_topic_that_is_too_much_at_once_is_cut_up_for_what_its_deletions_cost() -> None:
    """Each part reads all of the topic, so it is not cut up for the reading's sake."""
    rows, first = cluster({"orders": 64})
    slices = Slices(rows, Estimate(first))
    slices.learn(rows, 2 * TARGET_AGE_S)
    assert taken(slices) == [{"orders": 31}, {"orders": 31}, {"orders": 2}]

    rows, first = cluster({"orders": 4}, groups=1000)
    slices = Slices(rows, Estimate(first))
    slices.learn(rows, 1000.0)
    assert len(taken(slices)) <= 4


def test_what_round_trips_take_makes_no_slice_smaller_by_much() -> None:
    """Nine of 0.4 s: 1.4 s are left, half of it for the next slice."""
    rows, first = cluster({f"topic-{number}": 2 for number in range(8)}, groups=3)
    slices = Slices(rows, Estimate(first))
    slices.round_trip_s = 0.4
    slices.learn(rows[:2], 3.6 + 0.23)
    assert len(slices.take()) == 2 * 3


def test_slices_grow_by_half_of_what_it_goes_faster() -> None:
    rows, first = cluster({f"topic-{number}": 2 for number in range(8)}, groups=3)
    slices = Slices(rows, Estimate(first))
    slices.learn(rows[:2], TARGET_AGE_S / 2)  # two such topics are in time
    slices.learn(rows[:2], TARGET_AGE_S / 4)
    assert len(slices.take()) == 5  # two topics, and a part of a third


def test_a_reading_brings_all_commits_of_small_groups_and_of_large_ones_those_on_its_topics() -> (
    None
):
    _, first = cluster({"orders": 10})
    counted = replace(first, commit_counts={"small": 1, "medium": 5, "large": 100})
    assert Estimate(counted).cost(Workload(partitions=10)) == 1 + 5 + 10


def test_what_topics_require_adds_up() -> None:
    _, first = cluster({"orders": 10})
    assert Estimate(first).workload([]) == Workload(0, 0.0, 0)
    assert Estimate(first).topic_workload("orders", 5) == Workload(10, 5.0, 5)
    _, first = cluster({"orders": 1}, groups=3)
    assert Estimate(first).topic_workload("orders", 1) == Workload(1, 3.0, 1)
    assert Workload(3, 1.5, 1).plus(Workload(1, 0.5, 3)) == Workload(4, 2.0, 4)


def test_slices_grow_again_where_it_goes_faster() -> None:
    rows, first = cluster({f"topic-{number:03d}": 2 for number in range(200)}, groups=2)
    slices = Slices(rows, Estimate(first))
    slices.learn(rows[:2], TARGET_AGE_S)
    sizes = []
    while slices:
        part = slices.take()
        sizes.append(len(part))
        slices.learn(part, len(part) * 1e-4)
    assert sizes[0] == 2
    assert sizes == sorted(sizes[:-1]) + sizes[-1:]
    assert len(sizes) < 10


# What is too old


def too_old(slices: Slices, part: Sequence[PlanRow]) -> bool:
    slices.learn(part, MAX_EVIDENCE_AGE_S + 3)
    return slices.put_back(part)


def test_what_took_too_long_comes_next_in_smaller_parts() -> None:
    rows, first = cluster({f"topic-{number}": 2 for number in range(8)})
    slices = Slices(rows, Estimate(first))
    part = slices.take()
    assert part == tuple(rows)
    assert too_old(slices, part)
    again = slices.take()
    assert 0 < len(again) < len(part) / 2
    assert again == tuple(rows[: len(again)])


def test_what_took_too_long_twice_is_given_up_and_with_it_all_that_is_not_much_smaller() -> None:
    every, first = cluster({"huge-1": 40, "huge-2": 40, "small": 1}, groups=100)
    rows = [row for row in every if row.partition == 0]
    slices = Slices(rows, Estimate(first))
    part = slices.take()
    assert too_old(slices, part)
    part = slices.take()
    assert part == (rows[0],)
    assert not too_old(slices, part)
    assert slices.give_up(part) == (rows[1],)
    assert slices.take() == (rows[2],)


def test_a_process_that_stood_still_once_gives_up_nothing() -> None:
    rows, first = cluster({"orders": 1})
    slices = Slices(rows, Estimate(first))
    for _ in range(3):
        part = slices.take()
        assert too_old(slices, part)
        slices.learn(part, 0.1)
    assert too_old(slices, slices.take())
    assert not too_old(slices, slices.take())


def test_after_a_slice_was_given_up_the_next_one_has_as_many_tries() -> None:
    (row, another), first = cluster({"orders": 1, "zones": 1})
    slices = Slices([row], Estimate(first))
    part = slices.take()
    assert too_old(slices, part)
    assert not too_old(slices, slices.take())
    slices.give_up(part)
    assert too_old(slices, [another])
    assert not too_old(slices, slices.take())


def test_a_slice_has_one_deletion_where_none_fits() -> None:
    rows, first = cluster({"orders": 3})
    slices = Slices(rows, Estimate(first))
    slices.learn(rows, 1000.0)
    assert taken(slices) == [{"orders": 1}] * 3


TOPICS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 40), min_size=1)


@given(TOPICS, st.integers(1, 5), st.integers(0, 100), st.floats(1e-7, 0.1), st.floats(0, 8))
def test_it_ends_and_whatever_can_be_read_in_time_is(
    partitions: dict[str, int], groups: int, others: int, pace_s: float, fixed_s: float
) -> None:
    """Whatever a reading takes, in all and for each commit. What is left could not be read in time
    by far."""
    rows, first = cluster(partitions, groups, others)
    estimate = Estimate(first)
    slices = Slices(rows, estimate)
    done: list[PlanRow] = []
    left: list[PlanRow] = []
    readings = 0

    def took_s(part: Sequence[PlanRow]) -> float:
        return fixed_s + pace_s * estimate.cost(estimate.workload(part))

    while slices:
        readings += 1
        part = slices.take()
        seconds = took_s(part)
        slices.learn(part, seconds)
        if seconds <= MAX_EVIDENCE_AGE_S:
            done += part
        elif not slices.put_back(part):
            left += (*part, *slices.give_up(part))

    assert sorted([*done, *left], key=rows.index) == rows
    assert readings <= 2 * len(rows) + 2
    for name in {row.topic for row in left}:
        alone = [row for row in rows if row.topic == name][:1]
        assert 2.5 * took_s(alone) > MAX_EVIDENCE_AGE_S
