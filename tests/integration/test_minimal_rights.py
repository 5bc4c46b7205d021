"""The rights that docs/security.md asks for: with them everything works, without one it shows.

Each test takes one of them away and looks at what an operator is told.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourceType

from devkit.embedded import tools
from retentiond.gather.groups import HIDDEN_GROUPS
from retentiond.kafka.errors.remedies import DESCRIBE_GROUPS, DESCRIBE_READ_TOPICS
from retentiond.model import GroupKind, Outcome
from retentiond.spark.session import SparkSessions
from retentiond.tell.report import CycleReport
from retentiond.tools.delete_records.bounds import Bounds, every_partition, work_out
from tests.faults.held import log_start
from tests.support.brokers.cycles import Retentiond, deleted_up_to, row_of, told
from tests.support.brokers.guarded import (
    CLUSTER,
    EVERY_GROUP,
    EVERY_TOPIC,
    OFFSETS_TOPIC,
    PRINCIPAL,
    Guarded,
    guarded_kafka,
    rule,
)

pytestmark = [pytest.mark.broker, pytest.mark.spark]

TOOL = "org.apache.kafka.tools.AclCommand"

DOCUMENT = Path(__file__).parents[2] / "docs" / "security.md"


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    with guarded_kafka() as made:
        yield made


class Stage:
    """A topic with ten records, seven of which its one group has read, and who deletes them."""

    def __init__(self, guarded: Guarded, spark: SparkSessions, topic: str, folder: Path) -> None:
        self.topic, self.group = topic, f"of-{topic}"
        self.guarded = guarded
        guarded.driver.create_topic(topic)
        guarded.driver.produce(topic, [guarded.driver.now_ms] * 10)
        guarded.driver.commit(self.group, {(topic, 0): 7})
        self._retentiond = Retentiond(guarded.port, spark, folder / "state", topic)
        managed = (ResourceType.TOPIC, topic)
        self.rights = {
            "cluster": rule(CLUSTER),
            "groups": rule(EVERY_GROUP),
            "topics": rule(EVERY_TOPIC),
            "configs": rule(managed, AclOperation.DESCRIBE_CONFIGS),
            "delete": rule(managed, AclOperation.DELETE),
        }

    def cycle(self, *further: AclBinding, without: str | None = None) -> CycleReport:
        """One cycle with the documented rights, less one of them."""
        granted = [right for name, right in self.rights.items() if name != without]
        self.guarded.grant(*granted, *further)
        return self._retentiond.cycle()

    @property
    def log_start(self) -> int:
        return log_start(self.guarded.driver.broker, self.topic)


@pytest.fixture
def stage(
    guarded: Guarded, spark: SparkSessions, topic_name: str, tmp_path: Path
) -> Iterator[Stage]:
    """Its group goes at the end: one that can't be read would hold the next test's topic."""
    made = Stage(guarded, spark, topic_name, tmp_path)
    yield made
    guarded.driver.delete_group(made.group)


def test_the_documented_rights_are_enough(stage: Stage) -> None:
    report = stage.cycle()
    assert deleted_up_to(report, stage.topic) == stage.log_start == 7
    assert (report.result, report.plan.problems) == ("ok", ())


def test_the_commands_of_the_document_grant_them(stage: Stage, guarded: Guarded) -> None:
    guarded.grant()
    section = DOCUMENT.read_text().partition("## Rights in Kafka")[2].partition("\n## ")[0]
    (commands,) = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    kafka = guarded.driver.broker
    words = {"$acls": None, "orders.enriched": stage.topic}
    for line in re.findall(r"^\$acls .*", commands, re.MULTILINE):
        arguments = [words.get(word, word) for word in shlex.split(line)]
        tools.run(
            kafka.version,
            TOOL,
            *("--bootstrap-server", kafka.internal_servers),
            *("--add", "--allow-principal", PRINCIPAL),
            *filter(None, arguments),
        )
    assert guarded.rules() == set(stage.rights.values())


def test_without_describe_on_the_cluster_everything_is_held(stage: Stage) -> None:
    report = stage.cycle(without="cluster")
    assert told(report, stage.topic).reason == "group_list_incomplete"
    assert report.plan.problems == (HIDDEN_GROUPS,)
    assert stage.log_start == 0


def test_without_describe_on_the_groups_everything_is_held(stage: Stage) -> None:
    held = told(stage.cycle(without="groups"), stage.topic)
    assert (held.verdict, held.reason) == ("hold", "group_unreadable")
    assert DESCRIBE_GROUPS in str(held.sentence)
    assert stage.log_start == 0


def test_without_describe_on_all_topics_everything_is_held(stage: Stage) -> None:
    report = stage.cycle(without="topics")
    held = told(report, stage.topic)
    assert (held.verdict, held.reason) == ("hold", "group_list_incomplete")
    assert "kafka-acls --add --topic __consumer_offsets --operation Describe" in str(held.sentence)
    assert stage.log_start == 0


def test_without_describe_configs_the_topic_is_held(stage: Stage) -> None:
    held = told(stage.cycle(without="configs"), stage.topic)
    assert held.verdict == "hold"
    assert f"kafka-acls --add --topic {stage.topic} --operation DescribeConfigs" in str(
        held.sentence
    )
    assert stage.log_start == 0


def test_a_topic_of_the_policy_that_may_not_be_seen_is_held_and_the_missing_right_is_named(
    stage: Stage,
) -> None:
    denied = rule((ResourceType.TOPIC, stage.topic), permission=AclPermissionType.DENY)
    held = told(stage.cycle(denied), stage.topic)
    assert (held.verdict, held.reason) == ("hold", "offset_unreadable")
    assert f"kafka-acls --add --topic {stage.topic} --operation Describe" in str(held.sentence)
    assert stage.log_start == 0


def test_without_delete_a_plan_is_made_and_the_deletion_fails(stage: Stage) -> None:
    report = stage.cycle(without="delete")
    outcome = report.outcome(row_of(report, stage.topic))
    assert outcome.outcome is Outcome.FAILED
    assert f"kafka-acls --add --topic {stage.topic} --operation Delete" in str(outcome.error)
    assert stage.log_start == 0


def test_a_live_group_of_the_new_protocol_that_reads_hidden_topics_holds(
    stage: Stage, guarded: Guarded
) -> None:
    """Why DESCRIBE is on all topics: Kafka shows its members only to who may see all they read."""
    hidden = f"{stage.topic}-hidden"
    guarded.driver.create_topic(hidden)
    reader = f"reader-of-{hidden}"
    visible = (rule((ResourceType.TOPIC, stage.topic)), rule(OFFSETS_TOPIC))
    with guarded.driver.subscribed(reader, GroupKind.CONSUMER, [stage.topic, hidden]):
        held = told(stage.cycle(*visible, without="topics"), stage.topic)
        assert (held.verdict, held.reason) == ("hold", "group_unreadable")
        assert DESCRIBE_READ_TOPICS in str(held.sentence)
    guarded.driver.delete_group(reader)
    assert stage.log_start == 0


def test_a_rule_that_denies_beats_one_that_allows(stage: Stage) -> None:
    denied = rule((ResourceType.GROUP, stage.group), permission=AclPermissionType.DENY)
    held = told(stage.cycle(denied), stage.topic)
    assert (held.verdict, held.reason) == ("hold", "group_unreadable")
    assert stage.log_start == 0


def test_records_are_not_deleted_by_hand_by_an_age_that_tiered_storage_may_hide(
    stage: Stage, guarded: Guarded
) -> None:
    """Without DescribeConfigs nobody can tell whether it is tiered."""
    everything = Bounds(before_ms=guarded.driver.now_ms + 1_000)
    guarded.grant(*stage.rights.values())
    (item,) = work_out(guarded.port, every_partition(guarded.port, [stage.topic]), everything)
    assert item.target == 10

    guarded.grant(*(right for name, right in stage.rights.items() if name != "configs"))
    (item,) = work_out(guarded.port, every_partition(guarded.port, [stage.topic]), everything)
    assert (item.outcome, item.target) == (Outcome.FAILED, None)
    grant = f"kafka-acls --add --topic {stage.topic} --operation DescribeConfigs"
    assert grant in str(item.error)
