"""``retentiond explain`` on a real broker, after a cycle that has seen what came before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.contract.real import RealDriver
from tests.support.brokers.command import Document, configure, consumed
from tests.support.command_here import run_here
from tests.support.tiers import OwnKafka

pytestmark = [pytest.mark.broker, pytest.mark.spark]

HOUR_MS = 3_600_000

DAY_MS = 24 * HOUR_MS

FOR_EVER = {"retention.ms": "-1"}
"""Kafka's own retention would delete what is two days old at once."""

SEGMENTED = {**FOR_EVER, "segment.bytes": str(2**20)}

FROM_THE_FUTURE = {**FOR_EVER, "message.timestamp.after.max.ms": str(2**63 - 1)}
"""Kafka 4 refuses records that are dated more than an hour ahead, unless it is told to."""

RECORDS = 40


@dataclass(frozen=True)
class Explained:
    """What `retentiond explain` says of each topic, as JSON, after one cycle."""

    folder: Path
    documents: dict[str, Document]
    planned_at: str

    def partition(self, topic: str, number: int = 0) -> Document:
        document: Document = self.documents[topic]["partitions"][number]
        return document

    def group(self, topic: str, name: str) -> Document:
        groups = {each["group"]: each for each in self.partition(topic)["relevant_groups"]}
        found: Document = groups[name]
        return found


def entry(topic: str, **rules: Any) -> Document:
    return consumed(topic, **{"retention.commitoffset.ms": HOUR_MS, **rules})


def populate(driver: RealDriver) -> None:
    two_days_ago = driver.now_ms - 2 * DAY_MS
    driver.create_topic("orders", 2, SEGMENTED)
    driver.produce("orders", [two_days_ago] * RECORDS, value=bytes(100_000))
    driver.produce("orders", [two_days_ago] * 3, 1)
    driver.create_topic("backfilled", 1, FOR_EVER)
    driver.create_topic("stalled", 1, FROM_THE_FUTURE)
    driver.produce("stalled", [two_days_ago, driver.now_ms + 40 * DAY_MS, two_days_ago])
    driver.commit("billing", {("orders", 0): 30, ("orders", 1): 3})
    driver.commit("search", {("orders", 0): RECORDS, ("stalled", 0): 3, ("backfilled", 0): 0})


@pytest.fixture(scope="module")
def found(own_kafka: OwnKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Explained]:
    folder = tmp_path_factory.mktemp("explain")
    with own_kafka() as kafka, closing(RealDriver(kafka)) as driver:
        populate(driver)
        topics = ("orders", "backfilled", "stalled")
        configure(folder, kafka.bootstrap_servers, *map(entry, (*topics, "nowhere")))
        cycle = run_here("run", "--once", "--output", "json", cwd=folder).plan
        driver.produce("backfilled", [driver.now_ms - 2 * DAY_MS] * 5)
        driver.commit("search", {("backfilled", 0): 2})
        documents = {
            topic: run_here("explain", topic, "--output", "json", cwd=folder).plan
            for topic in topics
        }
        yield Explained(folder, documents, cycle["planned_at"])


def test_the_rule_has_the_partitions_figures(found: Explained) -> None:
    document = found.partition("orders")
    assert (
        document.items()
        >= {
            "topic": "orders",
            "partition": 0,
            "log_start_offset": 0,
            "min_committed_offset": 30,
            "binding_group": "billing",
            "retention_offset": RECORDS,
            "end": RECORDS,
            "cutoff": 30,
            "verdict": "delete",
            "reason": "consumed",
            "records": 30,
            "consumed_retention_ms": HOUR_MS,
        }.items()
    )
    assert document["why"] == "group billing has consumed the least"


def test_each_group_stands_where_the_cycle_has_seen_it(found: Explained) -> None:
    billing = found.group("orders", "billing")
    assert (billing["kind"], billing["state"], billing["binds"]) == ("classic", "Empty", True)
    assert (billing["committed_offset"], billing["lag"]) == (30, 10)
    assert billing["stands_since"] is not None
    assert found.group("orders", "search")["lag"] == 0


def test_a_commit_that_has_moved_since_the_cycle_moves_now(found: Explained) -> None:
    search = found.group("backfilled", "search")
    assert (search["committed_offset"], search["remembered_offset"]) == (2, 0)
    assert search["stands_since"] > found.planned_at


def test_it_says_what_deletion_frees_and_when_the_broker_frees_it(found: Explained) -> None:
    document = found.partition("orders")
    assert 0 < document["predicted_bytes"] < document["size_bytes"]
    takes, frees, when = document["on_disk"]
    assert takes.startswith("It takes 3.8 MiB on the disks of all replicas.")
    assert frees.startswith("Deleting up to the cutoff frees about ")
    assert "a segment holds up to 1.0 MiB, or what arrives in 7 days" in frees
    assert when.startswith("The brokers free it when they have next looked")
    assert when.endswith("and waited (file.delete.delay.ms).")


def test_a_topic_is_summed_up_by_reason(found: Explained) -> None:
    document = found.documents["orders"]
    reasons = [(each["reason"], each["partitions"]) for each in document["reasons"]]
    assert reasons == [("consumed", [0]), ("group_without_commit", [1])]
    (held,) = (each for each in document["reasons"] if each["verdict"] == "hold")
    assert held["binding_groups"] == ["search"]
    assert "--group search --topic orders:1 --to-earliest" in held["remedy"]


def test_a_record_from_the_future_is_noticed(found: Explained) -> None:
    document = found.partition("stalled")
    assert (document["reason"], document["cutoff"]) == ("consumed", 1)
    (sentence,) = document["timestamps"]
    assert sentence.startswith("The record at offset 1 is dated more than 30 days in the future: ")


def test_a_topic_that_is_not_in_the_cluster_ends_with_2_and_one_sentence(found: Explained) -> None:
    done = run_here("explain", "nowhere", cwd=found.folder)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("retentiond: there is no topic nowhere in the cluster, ")
    assert done.err.count("\n") == 1
