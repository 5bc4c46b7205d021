"""Topics that are some system's own, by their names."""

from __future__ import annotations

import pytest

from retentiond.look.special import owner


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
        ("_schemas", "some system's own"),
        ("__amazon_msk_canary", "some system's own"),
    ],
)
def test_a_topic_of_a_system_is_known_by_its_name(topic: str, whose: str) -> None:
    found = owner(topic)
    assert found is not None
    assert found.short == whose


@pytest.mark.parametrize(
    "topic",
    ["orders", "changelog", "repartition.v2", "connect-offsets-of-orders", "connections.status"],
)
def test_any_other_topic_is_nobodys(topic: str) -> None:
    assert owner(topic) is None
