"""A streams group on a real broker: what it reads, and restores its state from. That it bounds what
it reads like any other is test_releases.py's."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from devkit.embedded import EmbeddedKafka
from retentiond.kafka.interface import OffsetBound
from retentiond.model import Reason, TopicPartition, Verdict
from retentiond.tell.first_look import FirstLook
from retentiond.tell.starting_config import Origin, starting_config
from retentiond.tell.unseen_readers import unseen_readers
from tests.contract.real import RealDriver
from tests.faults.plain_plan import decide
from tests.support.brokers.cycles import Retentiond, told
from tests.support.brokers.examined import about, examined
from tests.support.brokers.gathering import policy, snapshot
from tests.support.brokers.java_clients import copying, keeping_a_table
from tests.support.builders.gather_worlds import HOUR_MS, commits, groups
from tests.support.builders.reports import report
from tests.support.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.thorough("Java clients")]


def test_a_streams_group_without_a_commit_holds_what_its_topology_reads(
    kafka: EmbeddedKafka,
    driver: RealDriver,
    topic_name: str,
    tmp_path: Path,
) -> None:
    copy = f"{topic_name}-copy"
    driver.create_topic(topic_name)
    driver.create_topic(copy)
    config = policy(topic_name)
    with copying(kafka, topic_name, topic_name, copy, tmp_path):
        eventually(
            lambda: groups(snapshot(driver.kafka, config)).get(topic_name),
            lambda group: group is not None and group.state == "Stable",
        )
    # It ended before there was anything to read, and what it reads is still its topology.
    driver.produce(topic_name, [driver.now_ms - 2 * HOUR_MS] * 4)

    (row,) = decide(None, snapshot(driver.kafka, config))

    assert (row.verdict, row.reason) == (Verdict.HOLD, Reason.GROUP_WITHOUT_COMMIT)
    assert row.binding_group == topic_name


ENTRIES = 20


def test_a_changelog_that_is_a_source_is_not_deleted_from_and_restores_every_entry(
    kafka: EmbeddedKafka,
    driver: RealDriver,
    topic_name: str,
    tmp_path: Path,
) -> None:
    """The table's changelog is its source, whose cleanup.policy is delete."""
    driver.create_topic(topic_name)
    fill(kafka, topic_name)
    retentiond = Retentiond(driver.kafka, tmp_path, topic_name)
    with keeping_a_table(kafka, topic_name, topic_name, tmp_path / "first", "streams") as entries:
        eventually(entries, lambda found: found == ENTRIES)
        eventually(
            lambda: commits(snapshot(driver.kafka, policy(topic_name))).get(
                (topic_name, TopicPartition(topic_name, 0))
            ),
            lambda offset: offset == ENTRIES,
        )
        with_members = told(retentiond.cycle(), topic_name)
    eventually(
        lambda: groups(snapshot(driver.kafka, policy(topic_name)))[topic_name].state,
        lambda state: state == "Empty",
    )
    without_members = told(retentiond.cycle(), topic_name)

    for verdict, reason, sentence in (with_members, without_members):
        assert (verdict, reason) == ("hold", "not_deletable")
        assert sentence == (
            f"the topic is a changelog of group {topic_name}, which restores its state from it"
        )
    at = TopicPartition(topic_name, 0)
    assert driver.kafka.offsets([at], OffsetBound.LOG_START) == {at: 0}
    # On another host there is no local state.
    with keeping_a_table(kafka, topic_name, topic_name, tmp_path / "second", "streams") as entries:
        eventually(entries, lambda found: found == ENTRIES)


def fill(kafka: EmbeddedKafka, topic: str) -> None:
    """Records of as many keys."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    for number in range(ENTRIES):
        producer.produce(topic, b"value", str(number).encode(), partition=0)
    assert producer.flush(30) == 0


def test_a_classic_java_application_is_known_and_its_source_left_disabled(
    kafka: EmbeddedKafka,
    driver: RealDriver,
    topic_name: str,
    tmp_path: Path,
) -> None:
    """Nothing tells what its changelogs are."""
    driver.create_topic(topic_name)
    fill(kafka, topic_name)
    with keeping_a_table(kafka, topic_name, topic_name, tmp_path, "classic") as entries:
        eventually(entries, lambda found: found == ENTRIES)
        taken = snapshot(driver.kafka, policy(topic_name))
        found = groups(taken)
        (source,) = about(
            examined(kafka.bootstrap_servers, tmp_path, [topic_name]), f"topic {topic_name}"
        )[:1]
    looks_like_it = f"group {topic_name} looks like Kafka Streams, which may have no other change"
    unseen = unseen_readers(driver.kafka.topic_names(), taken.groups)
    origin = Origin(taken.cluster_id, {"bootstrap.servers": "localhost:9092"}, (), "now")
    readers = {topic_name: [topic_name]}
    look = FirstLook(report(decide(None, taken)), HOUR_MS, unseen, readers)
    written = starting_config(look, origin)
    assert f"  # Not enabled: {looks_like_it}" in written
    assert "enable: true" not in written
    assert f"      required: ['{topic_name}']\n" in written
    assert source.sentence.startswith(f"read by group {topic_name}, which looks like Kafka Streams")
    assert found[topic_name].is_streams_classic
    assert [name for name, group in found.items() if group.is_streams_classic] == [topic_name]
    assert not taken.changelogs
