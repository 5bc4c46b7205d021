"""Topics that are some system's own, by their names, and what readers they speak for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from retentiond.model import GroupKind
from retentiond.snapshot import VANISHED, GroupReading
from retentiond.tell.first_look.unseen_readers import (
    NOTHING_UNSEEN,
    UNLIMITED_MS,
    system_of,
    unlimited_topics,
    unseen_readers,
)
from tests.support.builders import guard_readings


@pytest.mark.parametrize(
    ("topic", "whose"),
    [
        ("app-KSTREAM-AGGREGATE-STATE-STORE-0000000003-changelog", "changelog of Streams"),
        ("app-by-user-repartition", "repartition topic of Streams"),
        ("connect-configs", "Kafka Connect's own"),
        ("connect-offsets", "Kafka Connect's own"),
        ("my-connect-cluster-status", "Kafka Connect's own"),
        ("_connect_offsets", "Kafka Connect's own"),
        ("mm2-offset-syncs.west.internal", "MirrorMaker's own"),
        ("west.checkpoints.internal", "MirrorMaker's own"),
        ("west.heartbeats", "MirrorMaker's own"),
        ("west_checkpoints_internal", "MirrorMaker's own"),
        ("mirrormaker2-cluster-status", "MirrorMaker's own"),
        ("__amazon_msk_connect_status_sink_1f-2", "Kafka Connect's own"),
        ("_schemas", "Schema Registry's own"),
        ("prod._schemas", "Schema Registry's own"),
        ("_schema_encoders", "Schema Registry's own"),
        ("schema-changes.inventory", "Debezium's schema history"),
        ("schemahistory.fulfillment", "Debezium's schema history"),
        ("schema-history", "Debezium's schema history"),
        ("dbhistory.inventory", "Debezium's schema history"),
        ("shop.database_history", "Debezium's schema history"),
        ("debezium.schema-history.prod-oracle", "Debezium's schema history"),
        ("debezium_offsets", "Kafka Connect's own"),
        ("kafkasql-journal", "Apicurio's journal"),
        ("_kafkasql-journal", "Apicurio's journal"),
        ("kafkasql-snapshots", "Apicurio's journal"),
        ("global-id-topic", "Apicurio's journal"),
        ("_confluent-ksql-default__command_topic", "ksqlDB's command topic"),
        ("pipelines_ksql__commands", "ksqlDB's command topic"),
        ("app-KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-7-topic", "repartition topic of Streams"),
        ("DataHubUpgradeHistory_v1", "DataHub's upgrade history"),
        ("__amazon_msk_canary", "some system's own"),
    ],
)
def test_a_topic_of_a_system_is_known_by_its_name(topic: str, whose: str) -> None:
    found = system_of(topic)
    assert found is not None
    assert found.short == whose


@pytest.mark.parametrize(
    "topic",
    [
        "orders",
        "changelog",
        "repartition.v2",
        "connect-offsets-of-orders",
        "connections.status",
        "schemas",
        "orders.history",
        "schema-changeset",
        "device-commands",
        "command_topic",
    ],
)
def test_any_other_topic_is_nobodys(topic: str) -> None:
    assert system_of(topic) is None


def group(name: str, kind: GroupKind = GroupKind.CLASSIC, **more: Any) -> GroupReading:
    return GroupReading(name, kind, "Stable", **more)


@pytest.mark.parametrize(
    ("topic", "system"),
    [
        ("mm2-offset-syncs.b.internal", "MirrorMaker 2"),
        ("a.checkpoints.internal", "MirrorMaker 2"),
        ("heartbeats", "MirrorMaker 2"),
        ("a.heartbeats", "MirrorMaker 2"),
        ("mm2-configs.a.internal", "MirrorMaker 2"),
        ("connect-offsets", "Kafka Connect"),
        ("my-connect-status", "Kafka Connect"),
        # MirrorMaker 2 with another replication.policy.separator
        ("mm2-offset-syncs_b_internal", "MirrorMaker 2"),
        ("mm2-offset-syncs-b-internal", "MirrorMaker 2"),
        ("a_checkpoints_internal", "MirrorMaker 2"),
        # what Strimzi, Amazon's MSK Connect and Redpanda call them
        ("mirrormaker2-cluster-offsets", "MirrorMaker 2"),
        ("__amazon_msk_connect_offsets_mirror_c4f1-2", "Kafka Connect"),
        ("_internal_connectors_offsets", "Kafka Connect"),
    ],
)
def test_a_system_that_reads_without_committing_is_given_away_by_its_topics(
    topic: str, system: str
) -> None:
    (evidence,) = unseen_readers(["orders", topic], []).evidence
    assert evidence.startswith(f"topic {topic} is {system}'s, ")


def test_spark_is_given_away_by_a_group() -> None:
    name = "spark-kafka-source-1f3c--1-driver-0"
    (evidence,) = unseen_readers(["orders"], [group("billing"), group(name)]).evidence
    assert evidence.startswith(f"group {name} is Spark's, ")


def test_mirror_maker_is_given_away_by_its_workers_too_and_named_once() -> None:
    (evidence,) = unseen_readers(["orders"], [group("billing"), group("east-mm2")]).evidence
    assert evidence.startswith("group east-mm2 is MirrorMaker 2's, ")
    (evidence,) = unseen_readers(["heartbeats"], [group("east-mm2")]).evidence
    assert evidence.startswith("topic heartbeats is MirrorMaker 2's, ")


def test_kafka_connect_is_given_away_by_its_workers_too_whatever_they_are_called() -> None:
    workers = group("loaders", is_connect=True)
    (evidence,) = unseen_readers(["orders"], [group("billing"), workers]).evidence
    assert evidence.startswith("group loaders is Kafka Connect's, ")
    (evidence,) = unseen_readers(["connect-offsets"], [workers]).evidence
    assert evidence.startswith("topic connect-offsets is Kafka Connect's, ")
    (evidence,) = unseen_readers(["orders"], [group("east-mm2", is_connect=True)]).evidence
    assert evidence.startswith("group east-mm2 is MirrorMaker 2's, ")


@pytest.mark.parametrize("topic", ["orders", "_schemas", "app-store-changelog", "__transaction_x"])
def test_other_topics_speak_for_nobody(topic: str) -> None:
    assert unseen_readers([topic], [group("billing")]) == NOTHING_UNSEEN


@pytest.mark.parametrize("topic", ["my-app-store-changelog", "my-app-by-key-repartition"])
def test_a_group_with_topics_of_its_own_is_one_of_kafka_streams(topic: str) -> None:
    groups = [group("my-app"), group("my"), group("billing"), group("app-store")]
    assert unseen_readers([topic, "orders"], groups).streams == {"my-app", "my"}
    empty = GroupReading("my-app", GroupKind.CLASSIC, VANISHED)
    assert unseen_readers([topic], [empty]).streams == {"my-app"}


def test_a_group_of_the_streams_protocol_tells_its_changelogs_itself() -> None:
    told = group("app", GroupKind.STREAMS)
    assert unseen_readers(["app-store-changelog"], [told]) == NOTHING_UNSEEN
    silent = group("app", is_streams_classic=True)
    assert unseen_readers(["orders"], [silent]).streams == {"app"}


def test_a_doubt_is_about_the_sources_of_streams_first_and_then_about_every_topic() -> None:
    unseen = unseen_readers(["heartbeats"], [group("app", is_streams_classic=True)])
    assert (unseen.doubt("orders", ["app", "billing"]) or "").startswith(
        "group app looks like Kafka Streams"
    )
    assert (unseen.doubt("orders", ["billing"]) or "").startswith(
        "somebody may read it unseen: topic heart"
    )
    assert NOTHING_UNSEEN.doubt("orders", ["billing"]) is None


@pytest.mark.parametrize(
    ("retention_ms", "is_unlimited"),
    [(None, True), (2**63 - 1, True), (UNLIMITED_MS, True), (UNLIMITED_MS - 1, False), (0, False)],
)
def test_a_retention_that_deletes_nothing_in_ten_years_is_unlimited(
    retention_ms: int | None, is_unlimited: bool
) -> None:
    topic = replace(guard_readings.topic("journal"), forced_retention_ms=retention_ms)
    assert ("journal" in unlimited_topics([topic])) is is_unlimited
