"""Commits by partition, where group and offset share one number."""

from __future__ import annotations

import pytest

from retentiond.decide.rule import commits_by_partition
from retentiond.spark.session import SparkSessions

pytestmark = pytest.mark.spark

LARGEST = 2**63 - 1


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("offset", [LARGEST, LARGEST // 3 + 1, LARGEST // 3])
def test_the_largest_offsets_stay_right_whoever_committed_them(
    spark: SparkSessions, offset: int, place: int
) -> None:
    """Three groups: the largest number of all is no multiple of three."""
    commits = [offset - 1] * 3
    commits[place] = offset

    with spark.use() as session:
        frame = session.createDataFrame(
            [(7, group, each) for group, each in enumerate(commits)],
            "partition_id int, group_id int, offset bigint",
        )
        (row,) = commits_by_partition(frame, len(commits)).collect()

    assert (row["min_offset"], row["max_offset"]) == (offset - 1, offset)
    assert {row["min_group_id"], row["max_group_id"]} <= {0, 1, 2}
