"""The doctor as a principal that lacks a right: it is named, with the command that grants it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourceType

from retentiond.tools.doctor.examine import Examination
from retentiond.tools.doctor.finding import Level
from tests.support.brokers.examined import about, bad, examined
from tests.support.brokers.guarded import (
    CLUSTER,
    ENOUGH,
    EVERY_GROUP,
    OFFSETS_TOPIC,
    TOPICS,
    Guarded,
    rule,
)

pytestmark = pytest.mark.broker

TOPIC = "examined"
GROUP = "readers"

UNTOLD = (Level.WARNING, "offsets.retention.minutes of broker 1")
"""Not one of the rights that retentiond needs: DESCRIBE_CONFIGS on CLUSTER."""


@pytest.fixture(scope="module", autouse=True)
def topic(guarded: Guarded) -> Iterator[None]:
    guarded.driver.filled_topic(TOPIC, {GROUP: 5}, config={"segment.ms": "3600000"})
    yield
    guarded.driver.delete_group(GROUP)


def examined_with(guarded: Guarded, folder: Path, *rules: AclBinding) -> Examination:
    guarded.grant(*rules)
    return examined(guarded.section["bootstrap.servers"], folder, [TOPIC], guarded.section)


def without(left_out: AclBinding) -> tuple[AclBinding, ...]:
    return tuple(each for each in ENOUGH if each != left_out)


def worst(found: Examination) -> list[tuple[Level, str]]:
    return [each for each in bad(found) if each[1] != "disk" and each != UNTOLD]


def test_with_the_rights_that_the_documents_ask_for_there_is_no_problem(
    guarded: Guarded, tmp_path: Path
) -> None:
    found = examined_with(guarded, tmp_path, *ENOUGH)
    assert worst(found) == []
    (untold,) = about(found, UNTOLD[1])
    assert untold.level is Level.WARNING
    assert "could not be checked: CLUSTER_AUTHORIZATION_FAILED" in untold.sentence


def test_with_describe_configs_on_the_cluster_everything_can_be_checked(
    guarded: Guarded, tmp_path: Path
) -> None:
    found = examined_with(guarded, tmp_path, *ENOUGH, rule(CLUSTER, AclOperation.DESCRIBE_CONFIGS))
    assert UNTOLD not in bad(found)
    assert worst(found) == []


@pytest.mark.parametrize(
    ("left_out", "operation", "level"),
    [
        (TOPICS[1], "DescribeConfigs", Level.PROBLEM),
        (TOPICS[2], "Delete", Level.WARNING),  # in a dry run
    ],
    ids=["DESCRIBE_CONFIGS", "DELETE"],
)
def test_a_right_on_a_topic_that_is_missing_is_told(
    left_out: AclBinding, operation: str, level: Level, guarded: Guarded, tmp_path: Path
) -> None:
    found = examined_with(guarded, tmp_path, *without(left_out))
    assert (level, f"topic {TOPIC}") in bad(found)
    remedies = [each.remedy or "" for each in about(found, f"topic {TOPIC}")]
    assert any(f"--operation {operation} --topic {TOPIC}" in remedy for remedy in remedies)


def test_a_topic_that_may_not_be_described_is_named_although_it_can_not_be_seen(
    guarded: Guarded, tmp_path: Path
) -> None:
    found = examined_with(guarded, tmp_path, rule(CLUSTER), rule(EVERY_GROUP), rule(OFFSETS_TOPIC))
    (named,) = about(found, f"topic {TOPIC}")
    assert (named.level, named.sentence.split(" is ")[0]) == (Level.PROBLEM, "DESCRIBE")


def test_without_describe_on_the_cluster_hidden_groups_are_a_problem(
    guarded: Guarded, tmp_path: Path
) -> None:
    found = examined_with(guarded, tmp_path, *without(rule(CLUSTER)))
    assert (Level.PROBLEM, "DESCRIBE on CLUSTER") in bad(found)


def test_without_describe_on_all_groups_the_unreadable_one_is_named(
    guarded: Guarded, tmp_path: Path
) -> None:
    found = examined_with(guarded, tmp_path, *without(rule(EVERY_GROUP)))
    assert {(Level.PROBLEM, "DESCRIBE on GROUP *"), (Level.PROBLEM, f"group {GROUP}")} <= {
        *bad(found)
    }


def test_a_group_that_is_denied_is_named(guarded: Guarded, tmp_path: Path) -> None:
    denied = rule((ResourceType.GROUP, GROUP), permission=AclPermissionType.DENY)
    found = examined_with(guarded, tmp_path, denied, *ENOUGH)
    assert worst(found) == [(Level.PROBLEM, f"group {GROUP}"), (Level.WARNING, f"topic {TOPIC}")]


def test_without_any_right_every_reading_is_said_and_nothing_raises(
    guarded: Guarded, tmp_path: Path
) -> None:
    found = examined_with(guarded, tmp_path)
    assert found.problems >= 3
    assert found.cluster_id is not None
