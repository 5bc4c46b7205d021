"""Commits by partition, against a plain-Python oracle: offsets, and whose they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from retentiond.decide.rule import commits_by_partition
from retentiond.spark.session import SparkSessions

pytestmark = pytest.mark.spark

LARGEST = 2**63 - 1

Commits = Sequence[int | None]
"""Of one partition, by group; None: it could not be read."""


def found(spark: SparkSessions, commits: Commits) -> dict[str, Any]:
    with spark.use() as session:
        frame = session.createDataFrame(
            [(7, group, offset) for group, offset in enumerate(commits)],
            "partition_id int, group_id int, offset bigint",
        )
        (row,) = commits_by_partition(frame, len(commits)).collect()
    result: dict[str, Any] = row.asDict()
    return result


def expected(commits: Commits) -> dict[str, Any]:
    read = {group: offset for group, offset in enumerate(commits) if offset is not None}
    least, most = min(read.values(), default=None), max(read.values(), default=None)
    unreadable = [group for group in range(len(commits)) if group not in read]
    return {
        "partition_id": 7,
        "commits": len(commits),
        "readable_commits": len(read),
        "min_offset": least,
        "min_group_id": min((group for group in read if read[group] == least), default=None),
        "max_offset": most,
        "max_group_id": min((group for group in read if read[group] == most), default=None),
        "unreadable_group_id": min(unreadable, default=None),
    }


@pytest.mark.parametrize(
    "commits",
    [
        (0,),
        (None,),
        (5, 5, 5),
        (5, 6, 7),
        (7, 6, 5),
        (6, 7, 5, 7, 5),
        (0, 0, 1, 1),
        (1, 0, None, 0),
        (None, None, 3, 9, None, 9),
        (2**40, 2**40 - 1, 2**40, 2**40 - 1),
    ],
)
def test_the_first_group_by_name_is_named_for_each_bound(
    spark: SparkSessions, commits: Commits
) -> None:
    assert found(spark, commits) == expected(commits)


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("offset", [LARGEST, LARGEST // 3 + 1, LARGEST // 3])
def test_the_largest_offsets_stay_right_whoever_committed_them(
    spark: SparkSessions, offset: int, place: int
) -> None:
    """Three groups: the largest number of all is no multiple of three."""
    commits = [offset - 1] * 3
    commits[place] = offset

    row = found(spark, commits)

    assert (row["min_offset"], row["max_offset"]) == (offset - 1, offset)
    assert {row["min_group_id"], row["max_group_id"]} <= {0, 1, 2}
