"""Nothing in the product can change a cluster but by DeleteRecords: it names no other way."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

PRODUCT = Path(__file__).parents[3] / "retentiond"

CHANGES = re.compile(r"^(alter|create|delete|elect|incremental|remove|reset|set|update|abort)_")

READING = re.compile(
    r"(ApiVersions|Metadata|Fetch|ListOffsets|OffsetForLeaderEpoch|FindCoordinator|(Batched|Named)?OffsetFetch"
    r"|ListGroups|\w*Describe\w*)Request"
)

CLIENTS_THAT_WRITE = {"Producer", "Consumer", "KafkaProducer", "KafkaConsumer"}


def names() -> Iterator[str]:
    """All that the product's code refers to."""
    return (name for path in PRODUCT.rglob("*.py") for name in names_in(path))


def names_in(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield node.name.rpartition(".")[2]


def test_of_what_changes_a_cluster_the_product_calls_delete_records_alone() -> None:
    calls = {*dir(AdminClient), *dir(KafkaAdminClient)}
    changing = {name for name in calls if CHANGES.match(name)}
    assert {"create_topics", "alter_group_offsets", "incremental_alter_configs"} <= changing
    assert changing & set(names()) == {"delete_records"}


def test_every_request_that_it_makes_by_itself_reads() -> None:
    requests = {name for name in names() if name.endswith("Request")} - {"Request"}  # of HTTP
    assert "OffsetFetchRequest" in requests
    assert {name for name in requests if not READING.fullmatch(name)} == set()


def test_it_neither_produces_nor_consumes() -> None:
    assert CLIENTS_THAT_WRITE & set(names()) == set()
