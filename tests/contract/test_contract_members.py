"""What the live members of groups read, as the port shows it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from retentiond.kafka.interface import GroupMembers, ListedGroup
from retentiond.model import Commit, Failure, GroupKind
from tests.contract.driver import Driver
from tests.support.waiting import eventually


def members(driver: Driver, group: str) -> GroupMembers | Failure:
    listed = {each.group_id: each for each in driver.kafka.list_groups()}[group]
    answers = driver.kafka.members([listed])
    assert set(answers) == {group}
    return answers[group]


@pytest.mark.parametrize("kind", [GroupKind.CLASSIC, GroupKind.CONSUMER])
def test_members_show_the_topics_that_they_are_subscribed_to(
    driver: Driver, topic_name: str, kind: GroupKind
) -> None:
    topics = [topic_name, f"{topic_name}-other"]
    for topic in topics:
        driver.create_topic(topic)
    expected = GroupMembers(frozenset(topics))
    with driver.subscribed(topic_name, kind, topics):
        eventually(lambda: members(driver, topic_name), lambda found: found == expected)


def test_a_classic_subscription_is_shown_by_an_old_broker_too(
    any_driver: Driver, topic_name: str
) -> None:
    any_driver.create_topic(topic_name)
    expected = GroupMembers(frozenset({topic_name}))
    with any_driver.subscribed(topic_name, GroupKind.CLASSIC, [topic_name]):
        eventually(lambda: members(any_driver, topic_name), lambda found: found == expected)


def test_a_subscription_by_pattern_shows_the_pattern(driver: Driver, topic_name: str) -> None:
    driver.create_topic(topic_name)
    with driver.subscribed(topic_name, GroupKind.CONSUMER, pattern=f"^{topic_name}.*"):
        found = members(driver, topic_name)
        assert isinstance(found, GroupMembers)
        (pattern,) = found.patterns
        assert re.fullmatch(pattern, topic_name)
        assert not re.fullmatch(pattern, f"other-{topic_name}")


def test_a_topic_matched_by_pattern_is_among_those_that_members_read(
    driver: Driver, topic_name: str, gap_of_the_fake: Callable[[str], None]
) -> None:
    gap_of_the_fake("it assigns no partitions, so a pattern stays a pattern")
    driver.create_topic(topic_name)
    with driver.subscribed(topic_name, GroupKind.CONSUMER, pattern=f"^{topic_name}.*"):
        found = members(driver, topic_name)
        assert isinstance(found, GroupMembers)
        assert found.topics == {topic_name}


def test_a_consumer_that_took_its_partitions_itself_is_no_member(
    any_driver: Driver, topic_name: str
) -> None:
    any_driver.create_topic(topic_name)
    with any_driver.assigned(topic_name, topic_name):
        assert members(any_driver, topic_name) == GroupMembers(frozenset())
        assert any_driver.kafka.commits([topic_name]) == {topic_name: [Commit(topic_name, 0, 1)]}


def test_a_share_group_without_members_reads_nothing(driver: Driver, topic_name: str) -> None:
    driver.create_topic(topic_name)
    with driver.subscribed(topic_name, GroupKind.SHARE, [topic_name]):
        pass
    eventually(
        lambda: members(driver, topic_name), lambda found: found == GroupMembers(frozenset())
    )


def test_a_group_of_one_kind_asked_for_as_another_is_a_failure(
    driver: Driver, topic_name: str
) -> None:
    driver.create_topic(topic_name)
    driver.commit(topic_name, {(topic_name, 0): 0})
    wrong = ListedGroup(topic_name, GroupKind.CONSUMER, "Stable", "consumer")
    assert isinstance(driver.kafka.members([wrong])[topic_name], Failure)


def test_many_groups_of_both_kinds_are_answered_in_one_call(
    driver: Driver, topic_name: str
) -> None:
    driver.create_topic(topic_name)
    for number in range(60):
        driver.commit(f"{topic_name}-{number}", {(topic_name, 0): number})
    expected = GroupMembers(frozenset({topic_name}))
    with (
        driver.subscribed(f"{topic_name}-a", GroupKind.CLASSIC, [topic_name]),
        driver.subscribed(f"{topic_name}-b", GroupKind.CONSUMER, [topic_name]),
    ):

        def found() -> tuple[int, set[GroupMembers | Failure]]:
            mine = [g for g in driver.kafka.list_groups() if g.group_id.startswith(topic_name)]
            answers = driver.kafka.members(mine)
            return len(answers), {answers[f"{topic_name}-{name}"] for name in "ab"}

        eventually(found, lambda answer: answer == (62, {expected}))
