"""What an authorizer keeps from retentiond: Kafka hides groups from whoever may not see them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AclBinding, AclPermissionType, ResourceType

from retentiond.gather.groups import HIDDEN_GROUPS
from retentiond.kafka.remedies import DESCRIBE_GROUPS
from retentiond.model import Failure
from tests.contract.real import RealDriver
from tests.faults.held import log_start
from tests.support.brokers.cycles import Retentiond, Stage, Told, deleted_up_to, row_of, told
from tests.support.brokers.guarded import (
    CLUSTER,
    ENOUGH,
    OFFSETS_TOPIC,
    TOPICS,
    Guarded,
    rule,
)
from tests.support.brokers.java_clients import copying
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker


@pytest.fixture
def stage(guarded: Guarded, tmp_path: Path, topic_name: str) -> Iterator[Stage]:
    """The fast group has read nine records, the slow one three."""
    made = Stage(guarded.driver, tmp_path, topic_name, kafka=guarded.port)
    made.commit(made.fast, 9)
    made.commit(made.slow, 3)
    yield made
    for group in (made.fast, made.slow):
        guarded.driver.delete_group(group)


def hides_the_slow_group(stage: Stage) -> tuple[AclBinding, ...]:
    """No DESCRIBE on the cluster, and on one group only."""
    return (rule((ResourceType.GROUP, stage.fast)), *TOPICS)


INCOMPLETE = Told(
    "hold", "group_list_incomplete", f"not every group may have been seen: {HIDDEN_GROUPS}"
)


def test_where_kafka_hides_a_group_everything_is_held_and_the_missing_right_is_named(
    guarded: Guarded, stage: Stage
) -> None:
    guarded.grant(*hides_the_slow_group(stage))
    assert {each.group_id for each in guarded.port.list_groups()} == {stage.fast}  # no error

    report = stage.retentiond.cycle()
    assert told(report, stage.topic) == INCOMPLETE
    assert "grant it DESCRIBE on the cluster" in HIDDEN_GROUPS
    assert (report.result, report.plan.problems) == ("incomplete", (HIDDEN_GROUPS,))
    assert stage.log_start == 0

    guarded.grant(*ENOUGH)
    assert deleted_up_to(stage.retentiond.cycle(), stage.topic) == stage.log_start == 3


def test_a_right_that_is_taken_away_between_the_readings_holds(
    guarded: Guarded, stage: Stage
) -> None:
    guarded.grant(*ENOUGH)
    hidden = hides_the_slow_group(stage)
    report = stage.retentiond.cycle(before_guard=lambda: guarded.grant(*hidden))
    assert told(report, stage.topic) == Told("hold", "evidence_changed", HIDDEN_GROUPS)
    assert stage.log_start == 0


@pytest.mark.parametrize("how", ["denied", "no longer granted"])
def test_a_group_that_is_listed_and_may_no_longer_be_read_holds(
    guarded: Guarded, stage: Stage, how: str
) -> None:
    guarded.grant(*ENOUGH)
    assert deleted_up_to(stage.retentiond.cycle(), stage.topic) == 3
    if how == "denied":
        denied = rule((ResourceType.GROUP, stage.slow), permission=AclPermissionType.DENY)
        guarded.grant(denied, *ENOUGH)
    else:
        guarded.grant(rule(CLUSTER), *hides_the_slow_group(stage))
    report = stage.retentiond.cycle()
    held = told(report, stage.topic)
    assert (held.verdict, held.reason) == ("hold", "group_unreadable")
    assert held.sentence == (
        f"group {stage.slow} could not be read (GROUP_AUTHORIZATION_FAILED: {DESCRIBE_GROUPS})"
    )
    assert row_of(report, stage.topic).binding_group == stage.slow
    assert stage.log_start == 3


def test_where_the_offsets_topic_is_hidden_everything_is_held_and_the_missing_right_is_named(
    guarded: Guarded, stage: Stage
) -> None:
    hidden = rule(OFFSETS_TOPIC, permission=AclPermissionType.DENY)
    guarded.grant(hidden, *ENOUGH)
    assert stage.told == Told(
        "hold",
        "group_list_incomplete",
        "not every group may have been seen: Kafka hides __consumer_offsets from this principal, "
        "so groups could go missing unnoticed: grant it DESCRIBE on that topic "
        "(kafka-acls --add --topic __consumer_offsets --operation Describe)",
    )
    assert stage.log_start == 0


def has_committed(driver: RealDriver, group: str, topic: str, offset: int) -> bool:
    commits = driver.kafka.commits([group])[group]
    assert not isinstance(commits, Failure)
    return any((each.topic, each.offset) == (topic, offset) for each in commits)


def test_a_streams_group_that_can_not_be_described_holds_what_it_may_read(
    guarded: Guarded, stage: Stage, tmp_path: Path
) -> None:
    """It has commits on a topic that may be seen, none on the one with records, and one of its
    sources may not be seen, so that nobody is told which they are."""
    driver, group = guarded.driver, f"copies-{stage.topic}"
    read, hidden, sink = (f"{stage.topic}-{each}" for each in ("read", "hidden", "sink"))
    source = f"{stage.topic}-source"
    for name in (read, hidden, sink, source):
        driver.create_topic(name)
    driver.produce(read, [driver.now_ms])
    with copying(driver.broker, group, read, sink, tmp_path / "app", hidden, source):
        eventually(lambda: has_committed(driver, group, read, 1))
    driver.produce(source, [driver.now_ms] * 10)
    driver.commit(stage.fast, {(source, 0): 10})
    unseen = rule((ResourceType.TOPIC, hidden), permission=AclPermissionType.DENY)
    guarded.grant(*ENOUGH, unseen)
    assert guarded.port.commits([group])[group]

    report = Retentiond(guarded.port, tmp_path / "source", source).cycle()

    row = row_of(report, source)
    assert (row.verdict, row.reason, row.binding_group) == ("hold", "group_unreadable", group)
    assert log_start(driver.broker, source) == 0
    driver.delete_group(group)
