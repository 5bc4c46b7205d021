"""Brokers, what they speak, and what this principal may do."""

from __future__ import annotations

import pytest

from retentiond.kafka.brokers import NEWEST_RELEASE, NOT_ALIVE, UNKNOWN_RELEASE, Distance, Release
from retentiond.kafka.interface import CoordinatorState
from retentiond.model import Failure, TopicPartition
from retentiond.tools.doctor.cluster import (
    check_brokers,
    check_distances,
    check_leaders,
)
from retentiond.tools.doctor.finding import Level
from retentiond.tools.doctor.groups import check_groups_visible
from retentiond.tools.doctor.topics import check_topic_rights
from tests.support.builders.examined_clusters import (
    REFUSED,
    broker,
    brokers,
    config,
    only,
)

OPTIONS = "--bootstrap-server broker:9092"

ORDERS = config({"name": "orders"})


def test_brokers_that_all_answer_are_ok_and_named_with_their_release() -> None:
    (found,) = check_brokers(brokers(broker(1), broker(2)))
    assert (found.level, found.sentence) == (
        Level.OK,
        "2 of 2 answer: 1, 2; by their API versions, Kafka 4.2",
    )


def test_a_broker_that_does_not_answer_is_a_problem_and_named_with_its_address() -> None:
    found = only(check_brokers(brokers(broker(1), broker(2, release=REFUSED))))
    assert (found.level, found.subject, found.names) == (Level.PROBLEM, "broker 2", ("2",))
    assert "host-2:9092" in found.sentence
    assert "refused" in found.sentence


def test_a_broker_that_only_assignments_name_is_down() -> None:
    found = only(check_brokers(brokers(broker(1), broker(3, is_alive=False, release=NOT_ALIVE))))
    assert (found.level, found.subject) == (Level.PROBLEM, "broker 3")
    assert "is down" in found.sentence


@pytest.mark.parametrize(
    ("distance", "level", "said"),
    [
        (Distance(0.08, 0.012), Level.OK, "a request takes 12 ms, and a connection with its login"),
        (Distance(3.0, 0.6), Level.WARNING, "little time is left for the groups"),
        (Distance(5.0, 0.9), Level.PROBLEM, "nothing can be deleted"),
        (Distance(8.0, 0.01), Level.WARNING, "a connection that takes longer than 10 s is given"),
    ],
)
def test_a_broker_that_is_too_far_away_is_told_with_the_limit(
    distance: Distance, level: Level, said: str
) -> None:
    (found,) = check_distances({1: Distance(0.01, 0.001), 2: distance})
    assert found.level is level
    assert said in found.sentence
    assert found.names == (() if level is Level.OK else ("2",))


def test_a_name_that_takes_long_to_look_up_is_told_apart_from_the_connection() -> None:
    slow, near = check_distances({1: Distance(0.01, 0.001), 2: Distance(0.01, 0.001, 3.5)})
    assert (slow.level, slow.subject, slow.names) == (Level.WARNING, "names", ("2",))
    assert "takes 3.5 s to look up" in slow.sentence
    assert near.level is Level.OK


def test_brokers_of_different_releases_are_a_warning() -> None:
    old = broker(2, release=(3, 9))
    found = only(check_brokers(brokers(broker(1), old)))
    assert (found.level, found.subject) == (Level.WARNING, "brokers")
    assert "3.9, 4.2" in found.sentence


def test_a_broker_of_the_newest_release_that_is_known_may_be_newer() -> None:
    (found,) = check_brokers(brokers(broker(1, release=NEWEST_RELEASE)))
    assert found.sentence.endswith("Kafka 4.4 or newer")


@pytest.mark.parametrize("release", [(2, 8), UNKNOWN_RELEASE])
def test_a_broker_older_than_3_0_is_a_problem(release: Release) -> None:
    found = only(check_brokers(brokers(broker(1, release=release))))
    assert (found.level, found.subject) == (Level.PROBLEM, "broker 1")


def test_an_enabled_partition_without_a_leader_is_a_problem_and_another_is_not() -> None:
    leaderless = [TopicPartition("orders", 1), TopicPartition("others", 0)]
    found = only(check_leaders(brokers(broker(1), leaderless=leaderless), ORDERS))
    assert (found.level, found.subject) == (Level.PROBLEM, "partition orders-1")


def coordinators(**changes: bool | tuple[int, ...]) -> CoordinatorState:
    facts = {
        "cluster_id": "cluster",
        "leaders": frozenset({(0, 1, 0)}),
        "leaderless": (),
        "may_describe_cluster": True,
    }
    return CoordinatorState(**{**facts, **changes})  # type: ignore[arg-type]  # mixed values


def test_a_principal_that_sees_all_groups_is_ok() -> None:
    (found,) = check_groups_visible(coordinators(), ORDERS)
    assert found.level is Level.OK


def test_without_describe_on_the_cluster_groups_are_hidden_and_the_right_is_named() -> None:
    found = only(check_groups_visible(coordinators(may_describe_cluster=False), ORDERS))
    assert found.level is Level.PROBLEM
    assert found.remedy is not None
    assert "--operation Describe --cluster" in found.remedy


def test_where_all_groups_are_assumed_to_be_visible_that_is_a_warning_only() -> None:
    assuming = config({"name": "orders", "groups_visible": "assumed"})
    found = only(check_groups_visible(coordinators(may_describe_cluster=False), assuming))
    assert found.level is Level.WARNING


@pytest.mark.parametrize(
    "missing",
    [
        {"may_ask": False},
        {"may_describe_offsets": False},
        {"leaderless": (3,)},
        {"not_at_work": (3,)},
    ],
)
def test_what_else_hides_groups_is_a_problem(missing: dict[str, bool | tuple[int, ...]]) -> None:
    found = only(check_groups_visible(coordinators(**missing), ORDERS))
    assert found.level is Level.PROBLEM


ALL = frozenset({"DESCRIBE", "DESCRIBE_CONFIGS", "DELETE"})


def test_a_missing_right_on_topics_is_a_problem_with_the_command_that_grants_it() -> None:
    rights = {"orders": ALL, "stage": ALL - {"DELETE"}}
    found = only(check_topic_rights(rights, OPTIONS))
    assert (found.level, found.subject, found.names) == (
        Level.PROBLEM,
        "topic stage",
        ("stage",),
    )
    assert found.remedy is not None
    assert "--operation Delete --topic stage" in found.remedy


def test_a_topic_that_may_not_be_seen_lacks_describe() -> None:
    denied = Failure("TOPIC_AUTHORIZATION_FAILED", "no")
    found = only(check_topic_rights({"orders": denied}, OPTIONS))
    assert found.level is Level.PROBLEM
    assert found.sentence.startswith("DESCRIBE is not granted")


def test_a_topic_that_does_not_exist_lacks_no_right() -> None:
    absent = Failure("UNKNOWN_TOPIC_OR_PARTITION", "")
    assert list(check_topic_rights({"orders": absent}, OPTIONS)) == []


def test_a_right_that_can_not_be_checked_is_said() -> None:
    (found,) = check_topic_rights({"orders": Failure("LEADER_NOT_AVAILABLE", "")}, OPTIONS)
    assert found.level is Level.WARNING
    assert "could not be checked" in found.sentence
