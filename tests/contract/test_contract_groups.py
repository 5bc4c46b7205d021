"""The listing of groups and their commits, as the port shows them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from retentiond.kafka.interface import ListedGroup
from retentiond.model import Commit, Failure, GroupKind, TopicPartition
from tests.contract.driver import Driver
from tests.support.waiting import eventually

KINDS_WITH_MEMBERS = [GroupKind.CLASSIC, GroupKind.CONSUMER]


def listed(driver: Driver, group: str) -> ListedGroup | None:
    return {each.group_id: each for each in driver.kafka.list_groups()}.get(group)


def committed(driver: Driver, group: str) -> set[Commit]:
    """The group's commits, each of which must come once."""
    answers = driver.kafka.commits([group])
    assert set(answers) == {group}
    commits = answers[group]
    assert not isinstance(commits, Failure)
    assert len(commits) == len(set(commits))
    return set(commits)


def test_a_group_that_only_committed_is_listed_as_empty(
    any_driver: Driver, topic_name: str
) -> None:
    any_driver.create_topic(topic_name)
    any_driver.commit(topic_name, {(topic_name, 0): 5})
    assert listed(any_driver, topic_name) == ListedGroup(
        topic_name, GroupKind.CLASSIC, "Empty", protocol_type=""
    )


@pytest.mark.parametrize("kind", KINDS_WITH_MEMBERS)
def test_a_group_is_listed_with_its_kind_while_members_come_and_go(
    driver: Driver, topic_name: str, kind: GroupKind
) -> None:
    driver.create_topic(topic_name)
    assert listed(driver, topic_name) is None
    stable = ListedGroup(topic_name, kind, "Stable", protocol_type="consumer")
    empty = ListedGroup(topic_name, kind, "Empty", protocol_type="consumer")
    with driver.subscribed(topic_name, kind, [topic_name]):
        eventually(lambda: listed(driver, topic_name), lambda group: group == stable)
    eventually(lambda: listed(driver, topic_name), lambda group: group == empty)


def test_a_share_group_is_listed_with_its_kind(driver: Driver, topic_name: str) -> None:
    driver.create_topic(topic_name)
    with driver.subscribed(topic_name, GroupKind.SHARE, [topic_name]):
        pass
    assert listed(driver, topic_name) == ListedGroup(
        topic_name, GroupKind.SHARE, "Empty", protocol_type="share"
    )


def test_a_deleted_group_is_listed_no_more(driver: Driver, topic_name: str) -> None:
    driver.create_topic(topic_name)
    driver.commit(topic_name, {(topic_name, 0): 5})
    driver.delete_group(topic_name)
    assert listed(driver, topic_name) is None
    assert committed(driver, topic_name) == set()


def test_all_commits_of_a_group_are_read_whatever_it_wrote_beside_them(
    any_driver: Driver, topic_name: str
) -> None:
    other = f"{topic_name}-other"
    any_driver.create_topic(topic_name, partitions=3)
    any_driver.create_topic(other)
    any_driver.commit(topic_name, {(topic_name, 0): 5, (topic_name, 2): 0, (other, 0): 70})
    assert committed(any_driver, topic_name) == {
        Commit(topic_name, 0, 5),
        Commit(topic_name, 2, 0),
        Commit(other, 0, 70),
    }


def test_a_commit_beyond_the_end_is_read_as_it_is(any_driver: Driver, topic_name: str) -> None:
    any_driver.create_topic(topic_name)
    any_driver.commit(topic_name, {(topic_name, 0): 1_000_000_000_000})
    assert committed(any_driver, topic_name) == {Commit(topic_name, 0, 1_000_000_000_000)}


def test_a_commit_below_zero_is_one_without_an_offset(any_driver: Driver, topic_name: str) -> None:
    any_driver.create_topic(topic_name)
    any_driver.commit(topic_name, {(topic_name, 0): -1})
    assert committed(any_driver, topic_name) == {Commit(topic_name, 0, None)}


def test_a_commit_that_went_back_is_read_as_it_is(driver: Driver, topic_name: str) -> None:
    driver.create_topic(topic_name)
    driver.commit(topic_name, {(topic_name, 0): 9})
    driver.commit(topic_name, {(topic_name, 0): 4})
    assert committed(driver, topic_name) == {Commit(topic_name, 0, 4)}


def test_the_commits_of_a_deleted_topic_are_gone(driver: Driver, topic_name: str) -> None:
    other = f"{topic_name}-other"
    driver.create_topic(topic_name)
    driver.create_topic(other)
    driver.commit(topic_name, {(topic_name, 0): 5, (other, 0): 6})
    driver.delete_topic(topic_name)
    left = {Commit(other, 0, 6)}
    eventually(lambda: committed(driver, topic_name), lambda commits: commits == left)


@pytest.mark.parametrize("kind", KINDS_WITH_MEMBERS)
def test_a_group_without_a_commit_has_none(
    driver: Driver, topic_name: str, kind: GroupKind
) -> None:
    driver.create_topic(topic_name)
    with driver.subscribed(topic_name, kind, [topic_name]):
        assert committed(driver, topic_name) == set()


@pytest.mark.parametrize("kind", KINDS_WITH_MEMBERS)
def test_the_commits_of_a_group_that_had_members_are_read(
    driver: Driver, topic_name: str, kind: GroupKind
) -> None:
    driver.create_topic(topic_name)
    with driver.subscribed(topic_name, kind, [topic_name]):
        pass
    driver.commit(topic_name, {(topic_name, 0): 3})
    assert committed(driver, topic_name) == {Commit(topic_name, 0, 3)}


def test_an_unknown_group_has_no_commits(any_driver: Driver, topic_name: str) -> None:
    assert committed(any_driver, topic_name) == set()


def test_more_groups_than_fit_into_one_request_are_all_answered(
    driver: Driver, topic_name: str
) -> None:
    groups = {f"{topic_name}-{number}": number for number in range(120)}
    driver.create_topic(topic_name)
    for group, offset in groups.items():
        driver.commit(group, {(topic_name, 0): offset})
    assert driver.kafka.commits(list(groups)) == {
        name: [Commit(topic_name, 0, offset)] for name, offset in groups.items()
    }


def test_asked_about_some_partitions_it_tells_the_commits_on_these_alone(
    any_driver: Driver, topic_name: str
) -> None:
    """Also of a partition that is not there, and of a group that has committed nothing."""
    other = f"{topic_name}-other"
    any_driver.create_topic(topic_name, 3)
    any_driver.create_topic(other)
    any_driver.commit(topic_name, {(topic_name, 0): 5, (topic_name, 2): 7, (other, 0): 9})
    on = [TopicPartition(topic_name, number) for number in (0, 1, 4)]
    assert any_driver.kafka.commits([topic_name, other], on) == {
        topic_name: [Commit(topic_name, 0, 5)],
        other: [],
    }


def test_asked_about_no_group_it_answers_nothing(any_driver: Driver) -> None:
    assert any_driver.kafka.commits([]) == {}
    assert any_driver.kafka.members([]) == {}


def test_the_coordinators_are_those_that_lead_the_offsets_topic(any_driver: Driver) -> None:
    state = any_driver.kafka.coordinator_state()
    assert {(partition, leader) for partition, leader, _ in state.leaders} == {
        (partition, 1) for partition in range(4)
    }
    assert state.leaderless == ()
    assert state.not_at_work == ()
    assert state.may_ask
    assert state.may_describe_cluster
    assert state.may_describe_offsets
    assert state.cluster_id == any_driver.kafka.cluster_id()
    assert any_driver.kafka.coordinator_state() == state
    assert any_driver.kafka.coordinator_state(state) == state
    assert any_driver.kafka.coordinators_since(state) == state


def test_coordinators_that_lead_as_before_are_taken_for_what_they_were(any_driver: Driver) -> None:
    state = any_driver.kafka.coordinator_state()
    not_at_work = replace(state, not_at_work=(0, 3))

    assert any_driver.kafka.coordinators_since(not_at_work) == not_at_work


def test_coordinators_that_have_moved_since_are_asked(any_driver: Driver) -> None:
    state = any_driver.kafka.coordinator_state()
    moved = frozenset((partition, leader, epoch - 1) for partition, leader, epoch in state.leaders)
    earlier = replace(state, leaders=moved, not_at_work=(0, 3))

    assert any_driver.kafka.coordinators_since(earlier) == state


def test_the_coordinators_of_another_cluster_are_asked(any_driver: Driver) -> None:
    state = any_driver.kafka.coordinator_state()
    earlier = replace(state, cluster_id="another", not_at_work=(0, 3))

    assert any_driver.kafka.coordinators_since(earlier) == state
