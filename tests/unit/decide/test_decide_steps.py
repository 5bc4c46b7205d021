"""What each step hands on: names and types, as its docstring says."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from retentiond.decide.groups import (
    groups_by_topic,
    groups_without_commit,
    relevant_groups,
    rewound_partitions,
    without_excluded,
)
from retentiond.decide.plan import (
    counted_partitions,
    doubts_about,
    judged_partitions,
    without_doubts,
)
from retentiond.decide.rule import commits_by_partition, commits_of_failed, topic_holds
from retentiond.decide.star_schema import StarSchema, star_schema
from retentiond.spark.session import SparkSessions
from tests.support.builders.guard_readings import crowded, healthy

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", params=[healthy, crowded])
def frames(spark: SparkSessions, request: pytest.FixtureRequest) -> Iterator[StarSchema[DataFrame]]:
    """With all tables, and without those that may be left out."""
    with spark.use() as session:
        yield star_schema(request.param().snapshot()).map(session.createDataFrame)


@pytest.fixture(scope="module")
def counted(frames: StarSchema[DataFrame]) -> DataFrame:
    """The partitions with what the first steps know of them."""
    return counted_partitions(without_excluded(frames), relevant_groups(frames))


PLAN = (
    "partition_id",
    "reason",
    "groups",
    "min_committed_offset",
    "binding_group_id",
    "binding_committed_offset",
    "cutoff",
    "records",
)


def columns(frame: DataFrame) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in frame.dtypes)


def test_relevant_groups_tell_the_kinds_of_trace(frames: StarSchema[DataFrame]) -> None:
    assert columns(relevant_groups(frames)) == (
        "topic_id int, group_id int, committed boolean, required boolean, failed boolean"
    )


def test_groups_by_topic_count_and_name_those_that_hold(frames: StarSchema[DataFrame]) -> None:
    assert columns(groups_by_topic(relevant_groups(frames))) == (
        "topic_id int, groups bigint, failed_group_id int, missing_group_id int"
    )


def test_exclusion_changes_no_column(frames: StarSchema[DataFrame]) -> None:
    assert sorted(without_excluded(frames).commits.dtypes) == sorted(frames.commits.dtypes)


def test_commits_by_partition_name_the_smallest_and_the_largest(
    frames: StarSchema[DataFrame],
) -> None:
    assert columns(commits_by_partition(frames.commits, frames.group_count)) == (
        "partition_id int, commits bigint, readable_commits bigint, min_offset bigint, "
        "min_group_id int, max_offset bigint, max_group_id int, unreadable_group_id int"
    )


def test_commits_of_failed_groups_are_those_of_no_other(frames: StarSchema[DataFrame]) -> None:
    session = frames.commits.sparkSession
    commits = pa.table({"group_id": [0, 3], "partition_id": [1, 2], "offset": [5, 7]})
    shown = commits_of_failed(
        session.createDataFrame(commits), session.createDataFrame(pa.table({"group_id": [3]}))
    )
    assert shown.toArrow().to_pylist() == [
        {"partition_id": 2, "failed_group_id": 3, "failed_group_offset": 7}
    ]


def test_commits_of_failed_groups_are_only_shown(frames: StarSchema[DataFrame]) -> None:
    failed = frames.commits.select("group_id") if frames.failed is None else frames.failed

    assert columns(commits_of_failed(frames.commits, failed)) == (
        "partition_id int, failed_group_id int, failed_group_offset bigint"
    )


def test_bounds_add_end_minimum_and_cutoff(counted: DataFrame) -> None:
    assert columns(counted.select("end", "min_committed_offset", "cutoff")) == (
        "end bigint, min_committed_offset bigint, cutoff bigint"
    )


def test_the_first_answer_says_which_partitions_are_in_doubt(counted: DataFrame) -> None:
    assert columns(counted.select("groups", "commits", "doubtful")) == (
        "groups bigint, commits bigint, doubtful boolean"
    )


def test_groups_without_commit_name_the_first_and_the_vanished(
    frames: StarSchema[DataFrame], counted: DataFrame
) -> None:
    relevant = relevant_groups(frames)
    silent = groups_without_commit(
        counted, relevant, frames.commits, frames.remembered, frames.failed
    )

    assert columns(silent) == "partition_id int, silent_group_id int, vanished_group_id int"


def test_rewound_partitions_are_marked(frames: StarSchema[DataFrame], counted: DataFrame) -> None:
    remembered = frames.commits if frames.remembered is None else frames.remembered

    assert columns(rewound_partitions(counted, remembered)) == ("partition_id int, rewound boolean")


def test_no_doubts_look_like_doubts(frames: StarSchema[DataFrame], counted: DataFrame) -> None:
    assert columns(without_doubts(counted)) == columns(
        doubts_about(counted, frames, relevant_groups(frames))
    )


def test_topic_holds_bring_what_the_policy_says_of_groups(frames: StarSchema[DataFrame]) -> None:
    assert columns(topic_holds(frames.topics)) == (
        "topic_id int, topic_reason string, min_groups bigint, hidden boolean, "
        "changelog_group_id int"
    )


def test_a_plan_is_positions_and_figures(frames: StarSchema[DataFrame], counted: DataFrame) -> None:
    doubted = doubts_about(counted, frames, relevant_groups(frames))
    judged = judged_partitions(doubted, frames)

    assert columns(judged.select(*PLAN)) == (
        "partition_id int, reason string, groups bigint, min_committed_offset bigint, "
        "binding_group_id int, binding_committed_offset bigint, cutoff bigint, records bigint"
    )
