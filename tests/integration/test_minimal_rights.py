"""The rights that docs/security.md asks for: with them everything works, without one it shows.

What hides groups, or the offsets topic, is test_evidence_acl.py's; what an operator is told of a
deletion that is refused is test_cli_run.py's.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourceType

from devkit.embedded import tools
from retentiond.kafka.remedies import DESCRIBE_READ_TOPICS
from retentiond.model import GroupKind, Outcome
from retentiond.tools.delete_records.bounds import every_partition, work_out
from tests.support.brokers.cycles import Stage, deleted_up_to
from tests.support.brokers.guarded import (
    CLUSTER,
    EVERY_GROUP,
    EVERY_TOPIC,
    OFFSETS_TOPIC,
    PRINCIPAL,
    Guarded,
    rule,
)

pytestmark = pytest.mark.broker

TOOL = "org.apache.kafka.tools.AclCommand"

DOCUMENT = Path(__file__).parents[2] / "docs" / "security.md"


class Limited(Stage):
    """Seven of whose records its slow group has read, with the rights that are documented."""

    def __init__(self, guarded: Guarded, topic: str, folder: Path) -> None:
        super().__init__(guarded.driver, folder, topic, kafka=guarded.port)
        self.commit(self.slow, 7)
        self.guarded = guarded
        managed = (ResourceType.TOPIC, topic)
        self.rights = {
            "cluster": rule(CLUSTER),
            "groups": rule(EVERY_GROUP),
            "topics": rule(EVERY_TOPIC),
            "configs": rule(managed, AclOperation.DESCRIBE_CONFIGS),
            "delete": rule(managed, AclOperation.DELETE),
        }

    def grant(self, *further: AclBinding, without: str | None = None) -> None:
        """The documented rights, less one of them."""
        granted = [right for name, right in self.rights.items() if name != without]
        self.guarded.grant(*granted, *further)


@pytest.fixture
def stage(guarded: Guarded, topic_name: str, tmp_path: Path) -> Iterator[Limited]:
    made = Limited(guarded, topic_name, tmp_path)
    yield made
    guarded.driver.delete_group(made.slow)


def test_the_documented_rights_are_enough(stage: Limited) -> None:
    stage.grant()
    report = stage.retentiond.cycle()
    assert deleted_up_to(report, stage.topic) == stage.log_start == 7
    assert (report.result, report.plan.problems) == ("ok", ())


def test_the_commands_of_the_document_grant_them(stage: Limited, guarded: Guarded) -> None:
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


def test_without_describe_configs_the_topic_is_held(stage: Limited) -> None:
    stage.grant(without="configs")
    held = stage.told
    assert held.verdict == "hold"
    assert f"kafka-acls --add --topic {stage.topic} --operation DescribeConfigs" in str(
        held.sentence
    )
    assert stage.log_start == 0


def test_a_topic_of_the_policy_that_may_not_be_seen_is_held_and_the_missing_right_is_named(
    stage: Limited,
) -> None:
    denied = rule((ResourceType.TOPIC, stage.topic), permission=AclPermissionType.DENY)
    stage.grant(denied)
    held = stage.told
    assert (held.verdict, held.reason) == ("hold", "offset_unreadable")
    assert f"kafka-acls --add --topic {stage.topic} --operation Describe" in str(held.sentence)
    assert stage.log_start == 0


def test_a_live_group_of_the_new_protocol_that_reads_hidden_topics_holds(
    stage: Limited, guarded: Guarded
) -> None:
    """Why DESCRIBE is on all topics: Kafka shows its members only to who may see all they read."""
    hidden = f"{stage.topic}-hidden"
    guarded.driver.create_topic(hidden)
    reader = f"reader-of-{hidden}"
    visible = (rule((ResourceType.TOPIC, stage.topic)), rule(OFFSETS_TOPIC))
    stage.grant(*visible, without="topics")
    with guarded.driver.subscribed(reader, GroupKind.CONSUMER, [stage.topic, hidden]):
        held = stage.told
        assert (held.verdict, held.reason) == ("hold", "group_unreadable")
        assert DESCRIBE_READ_TOPICS in str(held.sentence)
    guarded.driver.delete_group(reader)
    assert stage.log_start == 0


def test_records_are_not_deleted_by_hand_by_an_age_that_tiered_storage_may_hide(
    stage: Limited, guarded: Guarded
) -> None:
    """Without DescribeConfigs nobody can tell whether it is tiered."""
    everything = guarded.driver.now_ms + 1_000
    stage.grant()
    (item,) = work_out(guarded.port, every_partition(guarded.port, [stage.topic]), everything)
    assert item.target == 10

    stage.grant(without="configs")
    (item,) = work_out(guarded.port, every_partition(guarded.port, [stage.topic]), everything)
    assert (item.outcome, item.target) == (Outcome.FAILED, None)
    grant = f"kafka-acls --add --topic {stage.topic} --operation DescribeConfigs"
    assert grant in str(item.error)
