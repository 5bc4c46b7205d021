"""Brokers, what they speak, and what this principal may do."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

from retentiond.kafka.brokers import NEWEST_RELEASE, NOT_ALIVE, UNKNOWN_RELEASE, Distance
from retentiond.kafka.interface import CoordinatorState
from retentiond.model import Failure, TopicPartition
from retentiond.tools.doctor.cluster import (
    check_brokers,
    check_distances,
    check_leaders,
)
from retentiond.tools.doctor.finding import Finding, Level
from retentiond.tools.doctor.groups import check_groups_visible
from retentiond.tools.doctor.topics import check_topic_rights
from tests.support.builders.examined_clusters import (
    REFUSED,
    broker,
    brokers,
    config,
    told,
)

ORDERS = config({"name": "orders"})


def test_brokers_that_all_answer_are_ok_and_named_with_their_release() -> None:
    (found,) = check_brokers(brokers(broker(1), broker(2)))
    assert (found.level, found.sentence) == (
        Level.OK,
        "2 of 2 answer: 1, 2; by their API versions, Kafka 4.2",
    )


@pytest.mark.parametrize(
    ("distance", "level", "said"),
    [
        (Distance(0.08, 0.012), Level.OK, "a request takes 12 ms, and a connection with its login"),
        (Distance(3.0, 0.5), Level.WARNING, "little time is left for the groups"),
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


def test_a_broker_of_the_newest_release_that_is_known_may_be_newer() -> None:
    (found,) = check_brokers(brokers(broker(1, release=NEWEST_RELEASE)))
    assert found.sentence.endswith("Kafka 4.4 or newer")


def coordinators(**changes: bool | tuple[int, ...]) -> CoordinatorState:
    facts = {
        "cluster_id": "cluster",
        "leaders": frozenset({(0, 1, 0)}),
        "leaderless": (),
        "may_describe_cluster": True,
    }
    return CoordinatorState(**{**facts, **changes})  # type: ignore[arg-type]  # mixed values


def visible(
    groups_visible: str = "checked", **changes: bool | tuple[int, ...]
) -> Iterable[Finding]:
    mine = config({"name": "orders", "groups_visible": groups_visible})
    return check_groups_visible(coordinators(**changes), mine)


ALL = frozenset({"DESCRIBE", "DESCRIBE_CONFIGS", "DELETE"})

LEADERLESS = [TopicPartition("orders", 1), TopicPartition("others", 0)]  # others is not enabled


def rights(
    dry_run: bool = False, on_trial: bool = False, **found: frozenset[str] | Failure
) -> Iterable[Finding]:
    stage = {"name": "stage", "dry_run": on_trial}
    policy = config({"name": "orders"}, stage, dry_run=dry_run, state_dir="/var/lib/retentiond")
    return check_topic_rights(found, "--bootstrap-server broker:9092", policy)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            check_brokers(brokers(broker(1), broker(2, release=REFUSED))),
            r"^problem broker 2 \[2\]: does not answer \(host-2:9092\).*refused",
        ),
        (  # which only assignments name
            check_brokers(brokers(broker(1), broker(3, is_alive=False, release=NOT_ALIVE))),
            r"^problem broker 3 \[3\]: is down",
        ),
        (
            check_brokers(brokers(broker(1), broker(2, release=(3, 9)))),
            "^warning brokers .*3.9, 4.2",
        ),
        (check_brokers(brokers(broker(1, release=(2, 8)))), "^problem broker 1 "),
        (check_brokers(brokers(broker(1, release=UNKNOWN_RELEASE))), "^problem broker 1 "),
        (
            check_leaders(brokers(broker(1), leaderless=LEADERLESS), ORDERS),
            "^problem partition orders-1 ",
        ),
        (visible(may_describe_cluster=False), "^problem .*--operation Describe --cluster"),
        (visible("assumed", may_describe_cluster=False), "^warning "),
        (visible(may_ask=False), "^problem "),
        (visible(may_describe_offsets=False), "^problem "),
        (visible(leaderless=(3,)), "^problem "),
        (visible(not_at_work=(3,)), "^problem "),
        (
            rights(orders=ALL, stage=ALL - {"DELETE"}),
            r"^problem topic stage \[stage\]: .*--operation Delete --topic stage",
        ),
        (  # nothing is deleted there yet
            rights(stage=ALL - {"DELETE"}, dry_run=True),
            r"^warning topic stage \[stage\]: .*--operation Delete --topic stage",
        ),
        (
            rights(orders=ALL, stage=ALL - {"DELETE"}, on_trial=True),
            r"^warning topic stage \[stage\]: DELETE is not granted: it is needed as soon",
        ),
        (
            rights(stage=ALL - {"DESCRIBE_CONFIGS"}, dry_run=True),
            "^problem .*: DESCRIBE_CONFIGS is not granted",
        ),
        (
            rights(orders=Failure("TOPIC_AUTHORIZATION_FAILED", "no")),
            "^problem .*: DESCRIBE is not granted",
        ),
    ],
)
def test_what_is_not_well_is_told_with_its_remedy(found: Iterable[Finding], said: str) -> None:
    assert re.search(said, told(found))


def test_a_principal_that_sees_all_groups_is_ok() -> None:
    (found,) = visible()
    assert found.level is Level.OK


def test_a_topic_that_does_not_exist_lacks_no_right() -> None:
    assert list(rights(orders=Failure("UNKNOWN_TOPIC_OR_PARTITION", ""))) == []


def test_a_right_that_can_not_be_checked_is_said() -> None:
    (found,) = rights(orders=Failure("LEADER_NOT_AVAILABLE", ""))
    assert found.level is Level.WARNING
    assert "could not be checked" in found.sentence
