"""What an authorizer keeps from retentiond: Kafka hides groups from whoever may not see them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AclBinding, AclPermissionType, ResourceType

from retentiond.gather.groups import HIDDEN_GROUPS
from retentiond.kafka.errors.remedies import DESCRIBE_GROUPS
from retentiond.model import Failure
from retentiond.spark.session import SparkSessions
from tests.contract.real import RealDriver
from tests.faults.held import log_start
from tests.support.brokers.command import consumed
from tests.support.brokers.cycles import Retentiond, Told, deleted_up_to, row_of, told
from tests.support.brokers.guarded import (
    CLUSTER,
    ENOUGH,
    EVERY_GROUP,
    OFFSETS_TOPIC,
    TOPICS,
    Guarded,
    guarded_kafka,
    rule,
)
from tests.support.brokers.java_clients import copying
from tests.support.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark]


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    with guarded_kafka() as made:
        yield made


class Stage:
    """A topic with ten records; ``fast`` has read nine of them, ``slow`` three."""

    def __init__(self, guarded: Guarded, topic: str) -> None:
        self.topic = topic
        self.fast, self.slow = f"fast-{topic}", f"slow-{topic}"
        self._driver = guarded.driver
        self._driver.create_topic(topic)
        self._driver.produce(topic, [self._driver.now_ms] * 10)
        self._driver.commit(self.fast, {(topic, 0): 9})
        self._driver.commit(self.slow, {(topic, 0): 3})

    @property
    def log_start(self) -> int:
        return log_start(self._driver.broker, self.topic)

    @property
    def hides_the_slow_group(self) -> tuple[AclBinding, ...]:
        """No DESCRIBE on the cluster, and on one group only."""
        return (rule((ResourceType.GROUP, self.fast)), *TOPICS)


@pytest.fixture
def stage(guarded: Guarded, topic_name: str) -> Iterator[Stage]:
    """Its groups go at the end: one that can't be read would hold the next test's topic."""
    made = Stage(guarded, topic_name)
    yield made
    for group in (made.fast, made.slow):
        guarded.driver.delete_group(group)


@pytest.fixture
def checked(guarded: Guarded, spark: SparkSessions, tmp_path: Path, stage: Stage) -> Retentiond:
    return Retentiond(guarded.port, spark, tmp_path / "checked", stage.topic)


@pytest.fixture
def assumed(guarded: Guarded, spark: SparkSessions, tmp_path: Path, stage: Stage) -> Retentiond:
    topic = consumed(stage.topic, groups_visible="assumed")
    return Retentiond(guarded.port, spark, tmp_path / "assumed", topic)


INCOMPLETE = Told(
    "hold", "group_list_incomplete", f"not every group may have been seen: {HIDDEN_GROUPS}"
)


def test_where_kafka_hides_a_group_everything_is_held_and_the_missing_right_is_named(
    guarded: Guarded, stage: Stage, checked: Retentiond
) -> None:
    guarded.grant(*stage.hides_the_slow_group)
    assert {each.group_id for each in guarded.port.list_groups()} == {stage.fast}  # no error

    report = checked.cycle()
    assert told(report, stage.topic) == INCOMPLETE
    assert "grant it DESCRIBE on the cluster" in HIDDEN_GROUPS
    assert (report.result, report.plan.problems) == ("incomplete", (HIDDEN_GROUPS,))
    assert stage.log_start == 0

    guarded.grant(*ENOUGH)
    assert deleted_up_to(checked.cycle(), stage.topic) == stage.log_start == 3


def test_a_right_that_is_taken_away_between_the_readings_holds(
    guarded: Guarded, stage: Stage, checked: Retentiond
) -> None:
    guarded.grant(*ENOUGH)
    report = checked.cycle(before_guard=lambda: guarded.grant(*stage.hides_the_slow_group))
    assert told(report, stage.topic) == Told("hold", "evidence_changed", HIDDEN_GROUPS)
    assert stage.log_start == 0


def test_groups_that_are_assumed_to_be_visible_do_not_hold_and_each_cycle_warns(
    guarded: Guarded, stage: Stage, assumed: Retentiond
) -> None:
    guarded.grant(rule(EVERY_GROUP), *TOPICS)
    for cutoff in (3, 5):
        guarded.driver.commit(stage.slow, {(stage.topic, 0): cutoff})
        report = assumed.cycle()
        assert deleted_up_to(report, stage.topic) == stage.log_start == cutoff
        assert (report.result, report.plan.problems) == ("ok", (HIDDEN_GROUPS,))


def test_a_group_that_is_hidden_after_it_was_seen_is_waited_for_though_all_are_assumed_visible(
    guarded: Guarded, stage: Stage, assumed: Retentiond
) -> None:
    guarded.grant(rule(EVERY_GROUP), *TOPICS)
    assert deleted_up_to(assumed.cycle(), stage.topic) == 3
    guarded.grant(*stage.hides_the_slow_group)
    assert told(assumed.cycle(), stage.topic) == Told(
        "hold",
        "group_vanished",
        f"group {stage.slow} once committed here and has no commit any more",
    )
    assert stage.log_start == 3


@pytest.mark.parametrize("how", ["denied", "no longer granted"])
def test_a_group_that_is_listed_and_may_no_longer_be_read_holds(
    guarded: Guarded, stage: Stage, checked: Retentiond, how: str
) -> None:
    guarded.grant(*ENOUGH)
    assert deleted_up_to(checked.cycle(), stage.topic) == 3
    if how == "denied":
        denied = rule((ResourceType.GROUP, stage.slow), permission=AclPermissionType.DENY)
        guarded.grant(denied, *ENOUGH)
    else:
        guarded.grant(rule(CLUSTER), *stage.hides_the_slow_group)
    report = checked.cycle()
    held = told(report, stage.topic)
    assert (held.verdict, held.reason) == ("hold", "group_unreadable")
    assert held.sentence == (
        f"group {stage.slow} could not be read (GROUP_AUTHORIZATION_FAILED: {DESCRIBE_GROUPS})"
    )
    assert row_of(report, stage.topic).binding_group == stage.slow
    assert stage.log_start == 3


def test_where_the_offsets_topic_is_hidden_everything_is_held_and_the_missing_right_is_named(
    guarded: Guarded, stage: Stage, checked: Retentiond
) -> None:
    hidden = rule(OFFSETS_TOPIC, permission=AclPermissionType.DENY)
    guarded.grant(hidden, *ENOUGH)
    assert told(checked.cycle(), stage.topic) == Told(
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
    guarded: Guarded, stage: Stage, checked: Retentiond, tmp_path: Path
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

    checked.config = Retentiond(guarded.port, SparkSessions("", {}), tmp_path, source).config
    report = checked.cycle()

    row = row_of(report, source)
    assert (row.verdict, row.reason, row.binding_group) == ("hold", "group_unreadable", group)
    assert log_start(driver.broker, source) == 0
    driver.delete_group(group)
