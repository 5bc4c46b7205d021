"""Gathers from real brokers, and looks into what came of it by name."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from retentiond.config import Config
from retentiond.gather.gather import gather
from retentiond.kafka.interface import Kafka
from retentiond.model import TopicPartition
from retentiond.snapshot import GroupReading, PartitionReading, Snapshot

HOUR_MS = 3_600_000


def policy(*topics: str, minutes: int = 60) -> Config:
    """Each of the topics enabled with that consumed retention."""
    return Config.model_validate(
        {
            "kafka": {"bootstrap.servers": "not used here:9092"},
            "topics": [
                {
                    "name": topic,
                    "retention.commitoffset.enable": True,
                    "retention.commitoffset.minutes": minutes,
                }
                for topic in topics
            ],
        }
    )


def sleep_until(instant: float) -> None:
    time.sleep(max(0.0, instant - time.monotonic()))


def snapshot(kafka: Kafka, config: Config) -> Snapshot:
    return gather(kafka, config, time.time_ns() // 1_000_000, wait_until=sleep_until)


def partitions(taken: Snapshot) -> dict[TopicPartition, PartitionReading]:
    return {
        TopicPartition(taken.topics[each.topic].name, each.partition): each
        for each in taken.partitions
    }


def groups(taken: Snapshot) -> dict[str, GroupReading]:
    return {each.group_id: each for each in taken.groups}


def commits(taken: Snapshot) -> dict[tuple[str, TopicPartition], int | None]:
    at = list(partitions(taken))
    return {
        (taken.groups[row["group_id"]].group_id, at[row["partition_id"]]): row["offset"]
        for row in taken.commits.to_pylist()
        if row["is_committed"]
    }


class Interrupted:
    """A cluster on which something happens once, right before the first call of ``api``."""

    def __init__(self, kafka: Kafka, api: str, happens: Callable[[], object]) -> None:
        self._kafka = kafka
        self._api = api
        self._happens: Callable[[], object] | None = happens

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._kafka, name)

        def interrupted(*args: Any, **kwargs: Any) -> Any:
            happens = self._happens
            if name == self._api and happens is not None:
                self._happens = None
                happens()
            return call(*args, **kwargs)

        return interrupted
