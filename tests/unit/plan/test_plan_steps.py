"""What each step hands on: names and types, as its docstring says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame

from retentiond.plan.commits import commits_by_partition, commits_of_failed
from retentiond.plan.groups import groups_by_topic, relevant_groups, without_excluded
from retentiond.plan.plan import (
    counted_partitions,
    doubts_about,
    judged_partitions,
    that_count,
    without_doubts,
)
from retentiond.plan.session import SparkSessions
from retentiond.plan.silence import rewound_partitions, silent_groups
from retentiond.plan.star import Star
from retentiond.plan.tables import star
from retentiond.plan.verdict import topic_holds
from tests.unit.act.readings import crowded, healthy

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", params=[healthy, crowded])
def frames(spark: SparkSessions, request: pytest.FixtureRequest) -> Iterator[Star[DataFrame]]:
    """With all tables, and without those that may be left out."""
    with spark.use() as session:
        yield star(request.param().snapshot()).map(session.createDataFrame)


@pytest.fixture(scope="module")
def counted(frames: Star[DataFrame]) -> DataFrame:
    """The partitions with what the first steps know of them."""
    return counted_partitions(that_count(frames))


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


def test_relevant_groups_tell_the_kinds_of_trace(frames: Star[DataFrame]) -> None:
    assert columns(relevant_groups(frames)) == (
        "topic_id int, group_id int, committed boolean, required boolean, failed boolean"
    )


def test_groups_by_topic_count_and_name_those_that_hold(frames: Star[DataFrame]) -> None:
    assert columns(groups_by_topic(relevant_groups(frames))) == (
        "topic_id int, groups bigint, failed_group_id int, missing_group_id int"
    )


def test_exclusion_changes_no_column(frames: Star[DataFrame]) -> None:
    kept = without_excluded(frames.commits, frames.excluded)

    assert sorted(kept.dtypes) == sorted(frames.commits.dtypes)


def test_commits_by_partition_name_the_smallest_and_the_largest(frames: Star[DataFrame]) -> None:
    assert columns(commits_by_partition(frames.commits, frames.group_count)) == (
        "partition_id int, commits bigint, readable_commits bigint, min_offset bigint, "
        "min_group_id int, max_offset bigint, max_group_id int, unread_group_id int"
    )


def test_commits_of_failed_groups_are_only_shown(frames: Star[DataFrame]) -> None:
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


def test_silent_groups_name_the_first_and_the_vanished(
    frames: Star[DataFrame], counted: DataFrame
) -> None:
    silent = silent_groups(counted, relevant_groups(frames), frames.commits, frames.remembered)

    assert columns(silent) == "partition_id int, silent_group_id int, vanished_group_id int"


def test_rewound_partitions_are_marked(frames: Star[DataFrame], counted: DataFrame) -> None:
    remembered = frames.commits if frames.remembered is None else frames.remembered

    assert columns(rewound_partitions(counted, remembered)) == ("partition_id int, rewound boolean")


def test_no_doubts_look_like_doubts(frames: Star[DataFrame], counted: DataFrame) -> None:
    assert columns(without_doubts(counted)) == columns(doubts_about(counted, that_count(frames)))


def test_topic_holds_bring_what_the_policy_says_of_groups(frames: Star[DataFrame]) -> None:
    assert columns(topic_holds(frames.topics)) == (
        "topic_id int, topic_reason string, min_groups int, hidden boolean"
    )


def test_a_plan_is_positions_and_figures(frames: Star[DataFrame], counted: DataFrame) -> None:
    facts = that_count(frames)
    judged = judged_partitions(doubts_about(counted, facts), facts)

    assert columns(judged.select(*PLAN)) == (
        "partition_id int, reason string, groups bigint, min_committed_offset bigint, "
        "binding_group_id int, binding_committed_offset bigint, cutoff bigint, records bigint"
    )
