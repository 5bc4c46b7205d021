"""Targets that are worked out: every doubt keeps records."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from retentiond.errors import KafkaUnavailable, UsageError
from retentiond.kafka.interface import (
    AGE_NOT_YET_KNOWN,
    EpochEnd,
    GroupMembers,
    ListedGroup,
    OffsetBound,
)
from retentiond.model import Commit, Failure, GroupKind, Outcome, TopicPartition
from retentiond.tools.delete_records.bounds import (
    Bounds,
    Targets,
    every_partition,
    read_commits,
    read_targets,
    work_out,
)
from retentiond.tools.delete_records.partitions import Item
from tests.support.builders.deletable_topics import AT, Deletable, topic

BEFORE_MS = 1_000

BY_TIME = Bounds(before_ms=BEFORE_MS)

UNREADABLE = Failure("LEADER_NOT_AVAILABLE", "no leader")


def cluster(
    *,
    start: int | Failure = 2,
    high: int | Failure = 10,
    stable: int | Failure | None = None,
    by_time: int | Failure | None = None,
) -> Deletable:
    return Deletable(
        topics={"orders": topic()},
        bounds={
            OffsetBound.LOG_START: {AT: start},
            OffsetBound.HIGH_WATERMARK: {AT: high},
            OffsetBound.LAST_STABLE: {AT: high if stable is None else stable},
        },
        times={AT: by_time},
    )


OTHER, PAYMENTS = TopicPartition("orders", 1), TopicPartition("payments", 0)


def of(asked: Deletable, bounds: Bounds = BY_TIME) -> Item:
    (item,) = work_out(asked, every_partition(asked, ["orders"]), bounds)
    return item


def committed(**offsets: int | None) -> Bounds:
    return Bounds(commits={group: {AT: Commit(*AT, each)} for group, each in offsets.items()})


def test_records_before_the_first_younger_one_go() -> None:
    asked = cluster(by_time=7)
    item = of(asked)
    assert asked.asked_at == [{AT: BEFORE_MS}]
    assert (item.target, item.records, item.is_pending) == (7, 5, True)
    assert (item.log_start_offset, item.high_watermark, item.topic_id) == (2, 10, "id")


def test_where_none_is_younger_the_end_that_was_read_before_is_the_target() -> None:
    assert of(cluster(by_time=None)).target == 10


def test_records_of_an_open_transaction_stay() -> None:
    assert of(cluster(stable=6)).target == 6
    assert of(cluster(stable=6, by_time=8)).target == 6
    assert of(cluster(stable=6), committed(a=9)).target == 6


def test_without_a_bound_nothing_is_worked_out() -> None:
    with pytest.raises(ValueError, match="everything"):
        work_out(cluster(), every_partition(cluster(), ["orders"]), Bounds())


def test_the_smallest_commit_of_the_groups_counts() -> None:
    assert of(cluster(), committed(a=9, b=5, c=7)).target == 5


def test_groups_alone_need_no_look_up_by_time() -> None:
    asked = cluster()
    of(asked, committed(a=9))
    assert asked.asked_at == []


def test_of_time_and_commits_the_smaller_one_counts() -> None:
    bounds = replace(committed(a=8), before_ms=BEFORE_MS)
    assert of(cluster(by_time=5), bounds).target == 5
    assert of(cluster(by_time=9), bounds).target == 8


@pytest.mark.parametrize(
    ("bounds", "reason"),
    [
        (
            Bounds(commits={"a": {AT: Commit(*AT, 9)}, "b": {OTHER: Commit(*OTHER, 9)}}),
            "group 'b': it has no commit here",
        ),
        (committed(a=9, b=2), "nothing to delete: it begins at 2, and 2 is the bound"),
        (committed(a=1), "nothing to delete: it begins at 2, and 1 is the bound"),
    ],
)
def test_a_partition_is_left_out_with_the_reason(bounds: Bounds, reason: str) -> None:
    item = of(cluster(), bounds)
    assert (item.target, item.is_pending, item.has_failed) == (None, False, False)
    assert item.error == reason
    assert item.records == 0


@pytest.mark.parametrize(
    ("bounds", "reason"),
    [
        (
            Bounds(commits={"a": {AT: Commit(*AT, 9)}, "b": {PAYMENTS: Commit(*PAYMENTS, 9)}}),
            "group 'b': it has no commit on this topic",
        ),
        (committed(a=9, b=None), "group 'b': its commit can't be read"),
        (committed(a=9, b=11), "group 'b': its commit 11 is beyond the high watermark 10"),
    ],
)
def test_a_group_that_cant_have_consumed_this_topic_fails_the_partition(
    bounds: Bounds, reason: str
) -> None:
    item = of(cluster(), bounds)
    assert (item.outcome, item.is_pending, item.records) == (Outcome.FAILED, False, 0)
    assert str(item.error).startswith(reason)
    assert "nothing was deleted" in str(item.error)


@pytest.mark.parametrize(
    ("end", "target"),
    [
        (None, 6),  # the leader's own epoch, which has not ended
        (EpochEnd(3, 6), 6),
        (EpochEnd(3, 9), 6),
        (EpochEnd(2, 6), 6),
        (EpochEnd(3, 5), None),  # the log has grown past the commit in another epoch
        (EpochEnd(2, 9), None),  # the offset was written in an earlier epoch
        (EpochEnd(None, None), None),
        (UNREADABLE, None),
    ],
)
def test_a_group_that_read_records_which_were_lost_fails_the_partition(
    end: EpochEnd | Failure | None, target: int | None
) -> None:
    bounds = Bounds(commits={"a": {AT: Commit(*AT, 6, leader_epoch=3)}})
    item = of(replace(cluster(), epochs={3: end}), bounds)
    assert item.target == target
    if target is None:
        assert item.outcome is Outcome.FAILED
        assert str(item.error).startswith("group 'a': ")
        assert "nothing was deleted" in str(item.error)


def test_a_leader_that_says_nothing_of_a_leader_epoch_fails_the_partition() -> None:
    bounds = Bounds(commits={"a": {AT: Commit(*AT, 6, leader_epoch=3)}})
    assert "can't be looked up (NOT_ANSWERED" in str(of(cluster(), bounds).error)


def test_a_lost_log_that_the_group_has_not_gone_past_is_no_matter() -> None:
    bounds = Bounds(commits={"a": {AT: Commit(*AT, 2, leader_epoch=3)}})
    item = of(replace(cluster(), epochs={3: EpochEnd(None, None)}), bounds)
    assert item.error == "nothing to delete: it begins at 2, and 2 is the bound"


@pytest.mark.parametrize(
    "asked",
    [
        cluster(start=UNREADABLE),
        cluster(high=UNREADABLE),
        cluster(stable=UNREADABLE),
        cluster(by_time=UNREADABLE),
    ],
)
def test_an_offset_that_cant_be_read_fails_the_partition(asked: Deletable) -> None:
    item = of(asked)
    assert (item.outcome, item.target) == (Outcome.FAILED, None)
    assert item.error is not None
    assert "can't be read (LEADER_NOT_AVAILABLE: no leader)" in item.error


def test_where_nobody_can_tell_whether_a_topic_is_tiered_no_age_is_believed() -> None:
    asked = replace(cluster(by_time=7), configs={"orders": UNREADABLE})
    item = of(asked)
    assert (item.outcome, item.target) == (Outcome.FAILED, None)
    assert item.error == "its offset by time can't be read (LEADER_NOT_AVAILABLE: no leader)"
    assert asked.asked_at == []


NOT_YET = Failure(AGE_NOT_YET_KNOWN, "a few at a time")


def test_what_waits_for_its_turn_in_remote_storage_is_asked_again() -> None:
    asked = cluster(by_time=NOT_YET)
    asked.topics = {"orders": topic(partitions=2)}
    other = TopicPartition("orders", 1)
    for offsets in asked.bounds.values():
        cast(dict[TopicPartition, Any], offsets)[other] = offsets[AT]
    turns: Iterator[dict[TopicPartition, Any]] = iter([{AT: 7, other: NOT_YET}, {other: 8}])

    def offsets_at(
        timestamps_ms: Mapping[TopicPartition, int], logs: object = None
    ) -> dict[TopicPartition, Any]:
        found = next(turns)
        assert found.keys() == timestamps_ms.keys()
        return found

    asked.offsets_at = offsets_at  # type: ignore[method-assign]  # as said

    first, second = work_out(asked, every_partition(asked, ["orders"]), BY_TIME)

    assert (first.target, second.target) == (7, 8)


def test_what_comes_no_further_in_remote_storage_fails() -> None:
    asked = cluster(by_time=NOT_YET)
    item = of(asked)
    assert (item.outcome, item.target) == (Outcome.FAILED, None)
    assert len(asked.asked_at) == 1


def test_commits_that_cant_be_read_refuse_everything() -> None:
    commits = [Commit("orders", 0, 4), Commit("orders", 1, None)]
    asked = replace(cluster(), committed={"a": commits, "b": UNREADABLE})
    assert read_commits(asked, ["a"]) == {"a": {AT: commits[0], OTHER: commits[1]}}
    for group in ("b", "c"):  # of which the answer says nothing
        with pytest.raises(KafkaUnavailable, match=f"the commits of group '{group}' can't be read"):
            read_commits(asked, ["a", group])


class Recreated(Deletable):
    """Its topic is deleted and made again right after its commits were read."""

    def commits(self, groups: Collection[str]) -> Mapping[str, Sequence[Commit] | Failure]:
        answer = super().commits(groups)
        self.topics = {"orders": topic(topic_id="new")}
        return answer


def test_a_commit_on_a_topic_that_is_recreated_frees_nothing_of_the_new_one() -> None:
    """The request is refused, because the topic has another id then."""
    before = cluster()
    asked = Recreated(
        topics=before.topics, bounds=before.bounds, committed={"a": [Commit("orders", 0, 4)]}
    )
    (item,) = Targets(topics=("orders",), groups=("a",)).items(asked)
    assert (item.target, item.topic_id) == (4, "id")


STREAMS = ListedGroup("a", GroupKind.STREAMS, "Stable", "streams")


def test_nothing_goes_that_a_streams_group_restores_its_state_from() -> None:
    members = GroupMembers(frozenset({"orders"}), changelogs=frozenset({"orders"}))
    asked = replace(
        cluster(),
        committed={"a": [Commit("orders", 0, 4)]},
        listed=(STREAMS,),
        topologies={"a": members},
    )
    (item,) = Targets(groups=("a",)).items(asked)
    assert (item.outcome, item.is_pending) == (Outcome.FAILED, False)
    assert str(item.error).startswith("group 'a': it restores its state from this topic")

    asked.topologies = {"a": replace(members, changelogs=frozenset({"a-store-changelog"}))}
    (item,) = Targets(groups=("a",)).items(asked)
    assert item.target == 4

    asked.topologies = {"a": UNREADABLE}
    with pytest.raises(KafkaUnavailable, match="the topology of group 'a' can't be read"):
        Targets(groups=("a",)).items(asked)


def test_a_group_that_has_no_commit_refuses_everything() -> None:
    asked = replace(cluster(), committed={"a": [Commit("orders", 0, 4)], "typo": []})
    for topics in ((), ("orders",)):
        wanted = Targets(topics=topics, groups=("a", "typo"))
        with pytest.raises(UsageError, match="group 'typo' has no commit"):
            wanted.items(asked)
    (item,) = Targets(groups=("a",)).items(asked)
    assert item.target == 4


@pytest.mark.parametrize(("year", "warns"), [(2001, False), (2999, True)])
def test_a_time_in_the_future_is_a_warning(year: int, warns: bool) -> None:
    text = f"{year}-02-01T12:00:00Z"
    found = read_targets(file=None, topics=["orders"], older_than=None, to_datetime=text, groups=[])
    expected = f"--to-datetime {text} is in the future: every record is older"
    assert found.warnings == ((expected,) if warns else ())


def test_an_unknown_topic_is_refused_before_anything_is_deleted() -> None:
    with pytest.raises(UsageError, match="topic 'nosuch': UNKNOWN_TOPIC_OR_PARTITION"):
        work_out(cluster(), every_partition(cluster(), ["orders", "nosuch"]), BY_TIME)


def test_a_topic_of_kafkas_own_is_refused() -> None:
    asked = replace(cluster(), topics={"inner": replace(topic("inner"), is_internal=True)})
    with pytest.raises(UsageError, match=r"topic 'inner': .*never deleted from"):
        work_out(asked, every_partition(asked, ["inner"]), BY_TIME)


def test_a_topic_named_twice_is_one() -> None:
    assert len(work_out(cluster(), every_partition(cluster(), ["orders", "orders"]), BY_TIME)) == 1
