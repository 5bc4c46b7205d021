"""Names to positions, for whole columns at once, against the plain way: one commit at a time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from retentiond.config import TopicPolicy
from retentiond.gather.assemble import commit_rows
from retentiond.gather.topics import EnabledTopic
from retentiond.kafka.groups.commit_columns import CommitColumns
from retentiond.model import Commit
from retentiond.snapshot import COMMIT_SCHEMA, GroupTopic, PartitionReading, TopicReading

NAMES = st.sampled_from(["clicks", "orders", "payments"])
NUMBERS = st.one_of(st.integers(0, 4), st.sampled_from([2**31 - 1, 2**63 - 1]))
OFFSETS = st.one_of(st.none(), st.integers(0, 2**63 - 1))
EPOCHS = st.none() | st.integers(0, 9)
COMMITS = st.lists(
    st.builds(Commit, NAMES, NUMBERS, OFFSETS, EPOCHS).map(
        lambda each: each._replace(leader_epoch=None) if each.offset is None else each
    ),
    max_size=8,
)
LAYOUTS = st.dictionaries(NAMES, st.sets(st.integers(0, 4), max_size=4), max_size=3)


def enabled(layout: dict[str, set[int]]) -> list[EnabledTopic]:
    return [
        EnabledTopic(
            TopicReading(
                name,
                TopicPolicy(enabled=True),
                topic_id=None,
                is_internal=False,
                cleanup_policy=frozenset(),
                forced_retention_ms=None,
            ),
            tuple(sorted(layout[name])),
        )
        for name in sorted(layout)
    ]


def readings(topics: list[EnabledTopic]) -> list[PartitionReading]:
    return [
        PartitionReading(at, partition, None, None, None, None)
        for at, topic in enumerate(topics)
        for partition in topic.partitions
    ]


@given(LAYOUTS, st.dictionaries(st.integers(0, 9), COMMITS, max_size=4), st.booleans())
def test_every_commit_finds_its_partition_or_is_a_stray(
    layout: dict[str, set[int]], commits: dict[int, list[Commit]], as_columns: bool
) -> None:
    topics = enabled(layout)
    places = {
        (topics[each.topic].reading.name, each.partition): position
        for position, each in enumerate(readings(topics))
    }
    rows, strays = commit_rows(
        {
            group: CommitColumns.of(those) if as_columns else those
            for group, those in commits.items()
        },
        {topic.reading.name: at for at, topic in enumerate(topics)},
        readings(topics),
    )
    every = [(group, *commit) for group, those in commits.items() for commit in those]
    assert rows.schema == COMMIT_SCHEMA
    assert [tuple(row.values()) for row in rows.to_pylist()] == [
        (group, places[topic, number], True, offset, epoch, False, False, None, None)
        for group, topic, number, offset, epoch in every
        if (topic, number) in places
    ]
    assert strays == {
        GroupTopic(group, sorted(layout).index(topic))
        for group, topic, number, *_ in every
        if topic in layout and (topic, number) not in places
    }


ANY_INT32 = st.sampled_from([-(2**31), -2, -1, 0, 2**31 - 1]) | st.integers(-(2**31), 2**31 - 1)


@given(ANY_INT32, ANY_INT32)
def test_every_negative_leader_epoch_is_one_that_was_not_told(number: int, epoch: int) -> None:
    topics = enabled({"orders": {0}})
    columns = CommitColumns(
        [("orders", 2)],
        np.array([0, number]),
        np.array([7, 8]),
        np.array([False, number == 0]),
        np.array([epoch, epoch]),
    )
    rows, _ = commit_rows({0: columns}, {"orders": 0}, readings(topics))
    told = None if epoch < 0 else epoch
    assert rows["leader_epoch"].to_pylist() == ([told, None] if number == 0 else [told])
    assert columns[0].leader_epoch == told


@given(COMMITS)
def test_columns_are_the_commits_they_were_made_of(commits: list[Commit]) -> None:
    columns = CommitColumns.of(commits)
    assert columns == commits
    assert len(columns) == len(commits)
    assert [columns[at] for at in range(len(commits))] == commits
