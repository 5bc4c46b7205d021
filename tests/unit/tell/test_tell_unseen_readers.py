"""Topics that are some system's own, by their names, and what readers they speak for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from retentiond.model import GroupKind
from retentiond.snapshot import VANISHED, GroupReading
from retentiond.tell.unseen_readers import (
    NOTHING_UNSEEN,
    UNLIMITED_MS,
    system_of,
    unlimited_topics,
    unseen_readers,
)
from tests.support.builders import guard_readings

CHANGELOG, REPARTITION = "changelog of Streams", "repartition topic of Streams"
CONNECT, MIRROR, REGISTRY = "Kafka Connect's own", "MirrorMaker's own", "Schema Registry's own"
DEBEZIUM, APICURIO = "Debezium's schema history", "Apicurio's journal"
KSQL = "ksqlDB's command topic"


@pytest.mark.parametrize(
    ("topic", "whose", "reader"),
    [
        ("app-KSTREAM-AGGREGATE-STATE-STORE-0000000003-changelog", CHANGELOG, None),
        ("app-by-user-repartition", REPARTITION, None),
        ("app-KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-7-topic", REPARTITION, None),
        ("connect-configs", CONNECT, "Kafka Connect"),
        ("connect-offsets", CONNECT, "Kafka Connect"),
        ("my-connect-cluster-status", CONNECT, "Kafka Connect"),
        ("_connect_offsets", CONNECT, "Kafka Connect"),
        ("debezium_offsets", CONNECT, "Kafka Connect"),
        ("mm2-offset-syncs.west.internal", MIRROR, "MirrorMaker 2"),
        ("mm2-configs.a.internal", MIRROR, "MirrorMaker 2"),
        ("west.checkpoints.internal", MIRROR, "MirrorMaker 2"),
        ("heartbeats", MIRROR, "MirrorMaker 2"),
        ("west.heartbeats", MIRROR, "MirrorMaker 2"),
        # MirrorMaker 2 with another replication.policy.separator
        ("west_checkpoints_internal", MIRROR, "MirrorMaker 2"),
        ("mm2-offset-syncs-b-internal", MIRROR, "MirrorMaker 2"),
        # what Strimzi, Amazon's MSK Connect and Redpanda call them
        ("mirrormaker2-cluster-offsets", MIRROR, "MirrorMaker 2"),
        ("__amazon_msk_connect_offsets_mirror_c4f1-2", CONNECT, "Kafka Connect"),
        ("_internal_connectors_offsets", CONNECT, "Kafka Connect"),
        ("__amazon_msk_canary", "some system's own", None),
        ("_schemas", REGISTRY, None),
        ("prod._schemas", REGISTRY, None),
        ("_schema_encoders", REGISTRY, None),
        ("schema-changes.inventory", DEBEZIUM, None),
        ("schemahistory.fulfillment", DEBEZIUM, None),
        ("schema-history", DEBEZIUM, None),
        ("dbhistory.inventory", DEBEZIUM, None),
        ("shop.database_history", DEBEZIUM, None),
        ("debezium.schema-history.prod-oracle", DEBEZIUM, None),
        ("kafkasql-journal", APICURIO, None),
        ("_kafkasql-journal", APICURIO, None),
        ("kafkasql-snapshots", APICURIO, None),
        ("global-id-topic", APICURIO, None),
        ("_confluent-ksql-default__command_topic", KSQL, None),
        ("pipelines_ksql__commands", KSQL, None),
        ("DataHubUpgradeHistory_v1", "DataHub's upgrade history", None),
    ],
)
def test_a_topic_of_a_system_is_known_by_its_name_and_gives_away_who_reads_without_committing(
    topic: str, whose: str, reader: str | None
) -> None:
    found = system_of(topic)
    assert found is not None
    assert found.short == whose
    seen = unseen_readers(["orders", topic], [])
    assert bool(seen.evidence) is (reader is not None)
    assert not reader or seen.evidence[0].startswith(f"topic {topic} is {reader}'s, ")


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


SPARK = group("spark-kafka-source-1f3c--1-driver-0")
MIRRORS, WORKERS = group("east-mm2"), group("loaders", is_connect=True)


@pytest.mark.parametrize(
    ("topic", "by", "said"),
    [
        ("orders", SPARK, "group spark-kafka-source-1f3c--1-driver-0 is Spark's, "),
        ("orders", MIRRORS, "group east-mm2 is MirrorMaker 2's, "),
        ("heartbeats", MIRRORS, "topic heartbeats is MirrorMaker 2's, "),  # named once
        ("orders", WORKERS, "group loaders is Kafka Connect's, "),
        ("connect-offsets", WORKERS, "topic connect-offsets is Kafka Connect's, "),
        ("orders", group("east-mm2", is_connect=True), "group east-mm2 is MirrorMaker 2's, "),
    ],
)
def test_a_system_is_given_away_by_its_groups_too(topic: str, by: GroupReading, said: str) -> None:
    (evidence,) = unseen_readers([topic], [group("billing"), by]).evidence
    assert evidence.startswith(said)


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
