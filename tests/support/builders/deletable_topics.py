"""A cluster of plain values: what it is asked to delete is written down, and answered by script."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from retentiond.kafka.interface import (
    DeleteFailure,
    LogRange,
    OffsetBound,
    RequestResult,
    Target,
    TopicConfig,
    TopicDescription,
)
from retentiond.model import Failure, TopicPartition

PLAIN = TopicConfig(frozenset({"delete"}), None)

Answer = int | DeleteFailure

AT = TopicPartition("orders", 0)

UNKNOWN_ID = Failure("NO_TOPIC_ID", "the cluster gives no topic ids")


def failure(result: RequestResult, code: str = "SOME_ERROR") -> DeleteFailure:
    return DeleteFailure(result, Failure(code, "in the broker's words"))


PartOfKafka: Any = object
"""To mypy it has all of a cluster's methods; those that no test calls are left out."""


@dataclass
class Deletable(PartOfKafka):  # type: ignore[misc]  # as said
    """``answers``: one for each request; a request after the last one is a failed test."""

    topics: Mapping[str, TopicDescription | Failure] = field(default_factory=dict)
    bounds: Mapping[OffsetBound, Mapping[TopicPartition, int | Failure]] = field(
        default_factory=dict
    )
    times: Mapping[TopicPartition, int | Failure | None] = field(default_factory=dict)
    configs: Mapping[str, TopicConfig | Failure] = field(default_factory=dict)
    answers: Iterator[Mapping[TopicPartition, Answer] | Exception] = field(
        default_factory=lambda: iter(())
    )
    described: list[str] = field(default_factory=list)
    asked_at: list[Mapping[TopicPartition, int]] = field(default_factory=list)
    requests: list[Mapping[TopicPartition, Target]] = field(default_factory=list)

    def topic_names(self) -> frozenset[str]:
        return frozenset(self.topics)

    def describe_topics(self, names: Collection[str]) -> Mapping[str, TopicDescription | Failure]:
        self.described += names
        unknown = Failure("UNKNOWN_TOPIC_OR_PARTITION", "Broker: Unknown topic or partition")
        return {name: self.topics.get(name, unknown) for name in names}

    def offsets(
        self, partitions: Collection[TopicPartition], bound: OffsetBound
    ) -> Mapping[TopicPartition, int | Failure]:
        return {at: self.bounds[bound][at] for at in partitions}

    def topic_configs(self, names: Collection[str]) -> Mapping[str, TopicConfig | Failure]:
        return {name: self.configs.get(name, PLAIN) for name in names}

    def offsets_at(
        self,
        timestamps_ms: Mapping[TopicPartition, int],
        logs: Mapping[TopicPartition, LogRange] | None = None,
        now_ms: int | None = None,
    ) -> Mapping[TopicPartition, int | Failure | None]:
        self.asked_at.append(timestamps_ms)
        return {at: self.times[at] for at in timestamps_ms}

    def look_before_deleting(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[str, str | Failure]:
        return {
            at.topic: (found.topic_id or UNKNOWN_ID)
            if isinstance(found, TopicDescription)
            else found
            for at in partitions
            for found in [self.topics.get(at.topic, topic())]
        }

    def delete_up_to(
        self, targets: Mapping[TopicPartition, Target], timeout_s: float
    ) -> Mapping[TopicPartition, Answer]:
        self.requests.append(dict(targets))
        answer = next(self.answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


def topic(name: str = "orders", partitions: int = 1, topic_id: str = "id") -> TopicDescription:
    return TopicDescription(name, topic_id, False, tuple(range(partitions)))
