"""The records that one group alone keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retentiond.config.pattern import Pattern
from retentiond.memory.readers import GroupOnTopic
from retentiond.model import PlanRow, Reason, TopicPartition, Verdict
from retentiond.tell.figures.positions import kept_by_one_group, positions
from tests.support.builders.guard_readings import (
    ORDERS_0,
    POLICY,
    Reading,
    deletion,
    group,
    partition,
    topic,
)


def small(commits: dict[str, list[int | None]]) -> Reading:
    """One topic; each group's commits on its partitions, whose offsets go from 10 to 200, are
    old up to 150 and decided up to 180."""
    reading = Reading(topics={"orders": topic("orders")})
    for group_id, offsets in commits.items():
        reading.groups[group_id] = group(group_id)
        for number, offset in enumerate(offsets):
            at = TopicPartition("orders", number)
            reading.partitions[at] = partition(number)
            if offset is not None:
                reading.commits[group_id, at] = offset
    return reading


def bound(by: str | None, committed: int | None, number: int = 0, groups: int = 2) -> PlanRow:
    return replace(
        deletion(TopicPartition("orders", number)),
        binding_group=by,
        binding_committed_offset=committed,
        groups=groups,
    )


def kept(reading: Reading, *rows: PlanRow) -> dict[GroupOnTopic, int]:
    snapshot = reading.snapshot()
    return dict(kept_by_one_group(snapshot, rows, positions(snapshot)))


BILLING = GroupOnTopic("billing", "orders")


@pytest.mark.parametrize(
    "unread", ["log_start_offset", "high_watermark", "last_stable_offset", "retention_offset"]
)
def test_a_partition_whose_offsets_are_unread_counts_for_nobody(unread: str) -> None:
    reading = small({"billing": [100]})
    reading.change_partition(ORDERS_0, **{unread: None})
    assert kept(reading, bound("billing", 100, groups=1)) == {}


OFFSETS = st.none() | st.integers(0, 220)


@settings(deadline=None)  # the machine may be busy
@given(
    st.lists(st.lists(OFFSETS, min_size=2, max_size=2), min_size=1, max_size=4),
    st.sampled_from([150, 180]),
    st.sampled_from([130, 180]),
)
def test_what_a_group_keeps_is_what_would_go_if_it_were_not_there(
    commits: list[list[int | None]], retention_offset: int, last_stable_offset: int
) -> None:
    """Nothing goes where a group has no commit. Who is excluded does not count."""
    names = [f"group-{number}" for number in range(len(commits))]
    reading = small({**dict(zip(names, commits, strict=True)), "excluded": [11, 11]})
    reading.change_topic("orders", policy=replace(POLICY, excluded=(Pattern("excluded"),)))
    expected: dict[GroupOnTopic, int] = {}
    rows = []
    for number in range(2):
        reading.change_partition(
            TopicPartition("orders", number),
            retention_offset=retention_offset,
            last_stable_offset=last_stable_offset,
        )
        bounds = {name: each[number] or 10 for name, each in zip(names, commits, strict=True)}
        offsets = {name: each[number] for name, each in zip(names, commits, strict=True)}
        binding = min(names, key=lambda name: (offsets[name] is not None, offsets[name], name))
        others = [bound for name, bound in bounds.items() if name != binding]
        end = min(retention_offset, last_stable_offset)
        with_it = max(10, min(end, bounds[binding], *others))
        without_it = max(10, min([end, *others]))
        at = GroupOnTopic(binding, "orders")
        expected[at] = expected.get(at, 0) + without_it - with_it
        rows.append(bound(binding, offsets[binding], number, groups=len(names)))
    assert kept(reading, *rows) == expected


def test_rows_that_hold_count_like_others() -> None:
    reading = small({"billing": [100], "search": [140]})
    row = replace(bound("billing", 100), verdict=Verdict.HOLD, reason=Reason.PAUSED, records=0)
    assert kept(reading, row) == {BILLING: 40}


def test_a_row_that_no_group_binds_is_not_the_one_of_the_group_with_the_empty_id() -> None:
    reading = small({"": [100], "billing": [120]})
    assert kept(reading, bound("", 100)) == {GroupOnTopic("", "orders"): 20}
    assert kept(reading, bound(None, None)) == {}
