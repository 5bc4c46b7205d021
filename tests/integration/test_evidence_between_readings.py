"""What changes between the plan and the guard's reading, on a real broker.

Each time the plan was right when it was made: seven of ten records can be deleted. Then a
group lowers what can be deleted, and the guard is to find it. The plan itself is the oracle's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from retentiond.kafka.interface import TopicDescription
from retentiond.model import GroupKind
from tests.contract.real import RealDriver, RealTransaction
from tests.faults.held import log_start
from tests.support.brokers.cycles import (
    NO_SPARK,
    Retentiond,
    Told,
    deleted_up_to,
    planned_by_the_oracle,
    row_of,
    told,
)

pytestmark = pytest.mark.broker


class Stage:
    """A topic with ten records, of which ``group`` has read seven."""

    def __init__(self, driver: RealDriver, folder: Path, topic: str) -> None:
        self.driver = driver
        self.topic = topic
        self.group = f"readers-of-{topic}"
        self.retentiond = Retentiond(driver.kafka, NO_SPARK, folder, topic)
        self.make_topic()
        self.commit(7)

    def make_topic(self) -> None:
        self.driver.create_topic(self.topic)
        self.driver.produce(self.topic, [self.driver.now_ms] * 10)

    def commit(self, offset: int, group: str | None = None) -> None:
        self.driver.commit(group or self.group, {(self.topic, 0): offset})

    @property
    def log_start(self) -> int:
        return log_start(self.driver.broker, self.topic)


@pytest.fixture
def stage(driver: RealDriver, tmp_path: Path, topic_name: str) -> Iterator[Stage]:
    with planned_by_the_oracle():
        yield Stage(driver, tmp_path, topic_name)


def changed(sentence: str) -> Told:
    return Told("hold", "evidence_changed", sentence)


def test_a_group_that_goes_back_holds_and_the_next_cycle_takes_its_new_offset(
    stage: Stage,
) -> None:
    report = stage.retentiond.cycle(before_guard=lambda: stage.commit(4))
    sentence = f"group {stage.group} moved back from 7 to 4"
    assert told(report, stage.topic) == changed(sentence)
    row = row_of(report, stage.topic)
    assert (row.binding_group, row.binding_committed_offset) == (stage.group, 4)
    assert stage.log_start == 0
    assert stage.retentiond.audit == []

    assert deleted_up_to(stage.retentiond.cycle(), stage.topic) == 4
    assert stage.log_start == 4


def test_a_group_that_is_deleted_holds_and_is_waited_for(stage: Stage) -> None:
    """Kept alive by another group, which has read everything."""
    stage.commit(10, "fast-" + stage.group)
    report = stage.retentiond.cycle(before_guard=lambda: stage.driver.delete_group(stage.group))
    sentence = f"group {stage.group} was there for the plan and is gone"
    assert told(report, stage.topic) == changed(sentence)

    again = stage.retentiond.cycle()
    assert told(again, stage.topic)[:2] == ("hold", "group_vanished")
    assert stage.log_start == 0


def test_a_group_that_is_deleted_and_comes_back_lower_holds(stage: Stage) -> None:
    def come_back() -> None:
        stage.driver.delete_group(stage.group)
        stage.commit(2)

    report = stage.retentiond.cycle(before_guard=come_back)
    assert told(report, stage.topic) == changed(f"group {stage.group} moved back from 7 to 2")
    assert deleted_up_to(stage.retentiond.cycle(), stage.topic) == 2
    assert stage.log_start == 2


def test_an_unknown_group_that_has_read_less_holds_and_then_counts(stage: Stage) -> None:
    newcomer = f"newcomer-{stage.topic}"
    report = stage.retentiond.cycle(before_guard=lambda: stage.commit(3, newcomer))
    sentence = f"group {newcomer} has committed 3, below the cutoff 7"
    assert told(report, stage.topic) == changed(sentence)
    assert row_of(report, stage.topic).binding_group == newcomer

    assert deleted_up_to(stage.retentiond.cycle(), stage.topic) == 3
    assert stage.log_start == 3


def test_an_unknown_group_that_has_read_more_is_evidence_as_well(stage: Stage) -> None:
    newcomer = f"newcomer-{stage.topic}"
    report = stage.retentiond.cycle(before_guard=lambda: stage.commit(9, newcomer))
    assert deleted_up_to(report, stage.topic) == stage.log_start == 7
    (deletion,) = stage.retentiond.audit
    assert {each.group_id: each.committed_offset for each in deletion.evidence} == {
        stage.group: 7,
        newcomer: 9,
    }


@pytest.mark.parametrize("kind", [GroupKind.CLASSIC, GroupKind.CONSUMER])
def test_a_group_that_subscribes_and_has_not_committed_yet_holds(
    stage: Stage, kind: GroupKind
) -> None:
    newcomer = f"newcomer-{stage.topic}"
    member = stage.driver.subscribed(newcomer, kind, [stage.topic])
    with ExitStack() as meanwhile:
        report = stage.retentiond.cycle(before_guard=lambda: meanwhile.enter_context(member))
    sentence = f"group {newcomer} has no commit on the partition"
    assert told(report, stage.topic) == changed(sentence)
    assert stage.log_start == 0


def test_a_topic_that_is_recreated_holds_though_its_readers_commit_again(stage: Stage) -> None:
    def recreate() -> None:
        stage.driver.delete_topic(stage.topic)
        stage.make_topic()
        stage.commit(7)

    report = stage.retentiond.cycle(before_guard=recreate)
    now = stage.driver.kafka.describe_topics([stage.topic])[stage.topic]
    assert isinstance(now, TopicDescription)
    planned = row_of(report, stage.topic).topic_id
    assert told(report, stage.topic) == changed(
        f"the topic's id is {now.topic_id}, and the plan's is {planned}"
    )
    assert stage.log_start == 0


def test_a_transaction_that_begins_does_not_matter_to_what_lies_before_it(stage: Stage) -> None:
    begun: list[RealTransaction] = []
    report = stage.retentiond.cycle(
        before_guard=lambda: begun.append(stage.driver.begin(stage.topic, 2))
    )
    begun[0].abort()
    assert deleted_up_to(report, stage.topic) == stage.log_start == 7
