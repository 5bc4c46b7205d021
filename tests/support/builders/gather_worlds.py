"""A healthy cluster in memory, its policy, and what a snapshot says about it by name."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any

from retentiond.config import Config
from retentiond.gather.gather import gather, gather_again
from retentiond.memory.recall import recalled
from retentiond.memory.remembered import NOTHING, Remembered
from retentiond.model import GroupKind, TopicPartition
from retentiond.snapshot import GroupReading, PartitionReading, Snapshot, TopicReading
from tests.support.fakes import FakeCluster

HOUR_MS = 3_600_000

ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)
CLICKS_0 = TopicPartition("clicks", 0)

ENABLED = (CLICKS_0, ORDERS_0, ORDERS_1)


def config(*topics: dict[str, Any]) -> Config:
    """``orders`` and ``clicks`` with an hour each, if no other topics are given."""
    every = topics or (entry("orders"), entry("clicks"))
    return Config.model_validate(
        {"kafka": {"bootstrap.servers": "fake:9092"}, "topics": [dict(each) for each in every]}
    )


def entry(name: str, minutes: int = 60, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "retention.commitoffset.enable": True,
        "retention.commitoffset.minutes": minutes,
        **more,
    }


def healthy() -> FakeCluster:
    """Two enabled topics and one that is not; groups of three kinds, one of them live.

    Each partition of the enabled topics has four old records and two young ones.
    """
    kafka = FakeCluster(brokers=3, offsets_partitions=4)
    for topic, partitions in (("clicks", 1), ("orders", 2), ("secrets", 1)):
        kafka.create_topic(topic, partitions)
        for partition in range(partitions):
            kafka.produce(topic, partition, 4, timestamp_ms=kafka.now_ms - 2 * HOUR_MS)
            kafka.produce(topic, partition, 2)
    kafka.commit("billing", {ORDERS_0: 3, ORDERS_1: 4})
    kafka.commit("search", {ORDERS_0: 5, CLICKS_0: 1}, GroupKind.CONSUMER)
    kafka.join("search", ["orders", "clicks"], kind=GroupKind.CONSUMER)
    kafka.commit("stranger", {("secrets", 0): 2})
    kafka.join("newcomer", ["clicks"])
    kafka.commit("pipeline", {CLICKS_0: 2}, GroupKind.STREAMS)
    return kafka


class Waits:
    """Notes what it is asked to wait for, and does not wait."""

    def __init__(self) -> None:
        self.instants: list[float] = []

    def __call__(self, instant: float) -> None:
        self.instants.append(instant - time.monotonic())


def snapshot(
    kafka: FakeCluster,
    policy: Config | None = None,
    *,
    remembered: Remembered = NOTHING,
    wait_until: Callable[[float], None] | None = None,
    now_ms: int | None = None,
) -> Snapshot:
    """``now_ms``: the host's time, if it is not the cluster's."""
    read = gather(
        kafka,
        policy or config(),
        kafka.now_ms if now_ms is None else now_ms,
        cluster_id=remembered.cluster_id,
        remembered_topics=remembered.topic_names(),
        wait_until=wait_until or Waits(),
    )
    return recalled(read, remembered)


def second_snapshot(
    kafka: FakeCluster,
    first: Snapshot,
    only: Collection[TopicPartition],
    policy: Config | None = None,
    *,
    remembered: Remembered = NOTHING,
    now_ms: int | None = None,
) -> Snapshot:
    """As the guard reads it."""
    read = gather_again(
        kafka,
        policy or config(),
        kafka.now_ms if now_ms is None else now_ms,
        first,
        frozenset(only),
        cluster_id=remembered.cluster_id,
        wait_until=Waits(),
    )
    return recalled(read, remembered)


def topic(taken: Snapshot, name: str) -> TopicReading:
    return {each.name: each for each in taken.topics}[name]


def partitions(taken: Snapshot) -> dict[TopicPartition, PartitionReading]:
    return {
        TopicPartition(taken.topics[each.topic].name, each.partition): each
        for each in taken.partitions
    }


def groups(taken: Snapshot) -> dict[str, GroupReading]:
    return {each.group_id: each for each in taken.groups}


def commits(taken: Snapshot) -> dict[tuple[str, TopicPartition], int | None]:
    at = list(partitions(taken))
    rows = [row for row in taken.commits.to_pylist() if row["is_committed"]]
    found = {
        (taken.groups[row["group_id"]].group_id, at[row["partition_id"]]): row["offset"]
        for row in rows
    }
    assert len(found) == len(rows), "a commit came twice"
    return found


def readers(taken: Snapshot) -> set[tuple[str, str]]:
    return {
        (taken.groups[each.group].group_id, taken.topics[each.topic].name) for each in taken.readers
    }
