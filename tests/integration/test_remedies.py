"""Each command of Kafka's own that a remedy offers, run with Kafka's own tools."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewPartitions

from devkit.embedded import tools
from retentiond.kafka.interface import OffsetBound
from retentiond.model import Failure, GroupKind, PlanRow, Reason, TopicPartition
from retentiond.tell.reasons import remedy, tool_options
from tests.contract.real import TIMEOUT_S, RealDriver
from tests.support.brokers.command import configure
from tests.support.brokers.java_clients import copying
from tests.support.builders.reports import row
from tests.support.command_here import run_here
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker

MAIN_CLASSES = {
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
}

KINDS = (
    GroupKind.CLASSIC,
    GroupKind.SHARE,
    pytest.param(GroupKind.STREAMS, marks=pytest.mark.thorough("Java clients")),
)
"""A consumer group's tool is that of a classic one."""

ADDED = 1
"""The partition that the topic gets when the group has ended."""


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_stopped_group_gets_an_offset_and_goes_by_the_commands_of_its_remedies(
    kind: GroupKind, driver: RealDriver, topic_name: str, tmp_path: Path
) -> None:
    driver.create_topic(topic_name)
    driver.produce(topic_name, [driver.now_ms] * 3)
    read_and_end(driver, topic_name, kind, tmp_path)
    admin = driver.broker.admin()
    admin.create_partitions([NewPartitions(topic_name, ADDED + 1)])[topic_name].result(TIMEOUT_S)
    eventually(lambda: len(described(driver, topic_name)) == ADDED + 1)

    resets = {ADDED: Reason.GROUP_WITHOUT_COMMIT, 0: Reason.COMMIT_REWOUND}
    if kind is GroupKind.STREAMS:
        del resets[ADDED]  # the tool resets only what such a group has committed
    for partition, reason in resets.items():
        (command,) = commands(driver, topic_name, partition, reason, kind)
        ran = run(driver, command)
        assert offsets(driver, topic_name, kind)[partition] == 0, ran
    to_earliest, to_latest = commands(driver, topic_name, 0, Reason.COMMIT_BEYOND_END, kind)
    for command, offset in ((to_latest, 3), (to_earliest, 0)):
        ran = run(driver, command)
        assert offsets(driver, topic_name, kind)[0] == offset, ran
    (command,) = commands(driver, topic_name, 0, Reason.NOT_CONSUMED, kind)
    ran = run(driver, command)
    assert topic_name not in {group.group_id for group in driver.kafka.list_groups()}, ran


def described(driver: RealDriver, topic: str) -> Collection[object]:
    """Its partitions."""
    found = driver.kafka.describe_topics([topic])[topic]
    assert not isinstance(found, Failure)
    return found.partitions


def read_and_end(driver: RealDriver, topic: str, kind: GroupKind, folder: Path) -> None:
    """A group called as its topic has read some of partition 0, and has no members."""
    if kind is GroupKind.STREAMS:
        driver.create_topic(f"{topic}-copy")
        with copying(driver.broker, topic, topic, f"{topic}-copy", folder):
            eventually(lambda: offsets(driver, topic, kind))
        return
    if kind is GroupKind.SHARE:
        with driver.subscribed(topic, kind, [topic]):
            pass
    else:
        driver.commit(topic, {(topic, 0): 2})


def offsets(driver: RealDriver, group: str, kind: GroupKind) -> Mapping[int, int | None]:
    """By partition."""
    kafka = driver.kafka
    read = kafka.share_offsets if kind is GroupKind.SHARE else kafka.commits
    found = read([group])[group]
    assert not isinstance(found, Failure)
    return {commit.partition: commit.offset for commit in found}


def commands(
    driver: RealDriver, topic: str, partition: int, reason: Reason, kind: GroupKind
) -> list[str]:
    """Those of Kafka's own that are offered for the group called as its topic."""
    held = replace(row(topic, partition, reason), binding_group=topic, binding_kind=kind)
    return offered(driver, held)


def offered(driver: RealDriver, held: PlanRow) -> list[str]:
    options = tool_options({"bootstrap.servers": driver.broker.bootstrap_servers})
    return re.findall(r"`(kafka-[^`]+)`", remedy(held, options))


def run(driver: RealDriver, command: str) -> str:
    """What the tool says to the command as it is printed. Some report errors and end with 0."""
    tool, *arguments = shlex.split(command)
    done = tools.run(driver.broker.version, MAIN_CLASSES[tool], *arguments)
    return done.stdout + done.stderr


def test_an_open_transaction_is_ended_by_the_commands_of_the_remedy(
    driver: RealDriver, topic_name: str
) -> None:
    """Its producer has not ended it, and the group has read all before."""
    driver.create_topic(topic_name)
    driver.produce(topic_name, [driver.now_ms] * 3)
    at = TopicPartition(topic_name, 0)
    assert driver.kafka.delete_records({at: 3}) == {at: 3}
    servers = driver.broker.bootstrap_servers
    producer = Producer({"bootstrap.servers": servers, "transactional.id": topic_name})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic_name, b"open", partition=0)
    assert not producer.flush(TIMEOUT_S)

    def last_stable() -> int | Failure:
        return driver.kafka.offsets([at], OffsetBound.LAST_STABLE)[at]

    assert last_stable() == 3
    held = replace(row(topic_name, 0, Reason.OPEN_TRANSACTION), log_start_offset=3)
    find, abort = offered(driver, held)
    assert run(driver, find).startswith("Topic\t")
    ran = run(driver, abort)
    assert last_stable() == 5, ran  # with the marker


def test_a_negative_commit_is_told_and_reset_by_the_command_of_its_remedy(
    driver: RealDriver, topic_name: str, tmp_path: Path
) -> None:
    driver.create_topic(topic_name, config={"retention.ms": "-1"})
    driver.produce(topic_name, [0] * 3)
    driver.commit(topic_name, {(topic_name, 0): -1001})
    config = configure(tmp_path, driver.broker.bootstrap_servers, topic_name)

    def explained() -> Mapping[str, Any]:
        at = f"{topic_name}:0"
        return run_here("explain", at, "-c", config, "--output", "json", cwd=tmp_path).plan

    found = explained()
    assert (found["verdict"], found["reason"]) == ("hold", "group_unreadable")
    assert found["binding_group"] == topic_name
    assert found["why"].startswith(f"group {topic_name} has committed -1001, a negative offset")
    assert "DESCRIBE" not in found["remedy"]
    (command,) = re.findall(r"`(kafka-[^`]+)`", found["remedy"])
    ran = run(driver, command)
    assert offsets(driver, topic_name, GroupKind.CLASSIC) == {0: 0}, ran
    assert explained()["reason"] == "not_consumed"
