"""What the command asks of a cluster: `retentiond.kafka.records.RecordsClient` can do it all."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from retentiond.kafka.deletions import Target
from retentiond.kafka.port import DeleteFailure, OffsetBound, TopicDescription
from retentiond.model import Failure, TopicPartition


class Cluster(Protocol):
    def topic_names(self) -> frozenset[str]: ...

    def describe_topics(
        self, names: Collection[str]
    ) -> Mapping[str, TopicDescription | Failure]: ...

    def offsets(
        self, partitions: Collection[TopicPartition], bound: OffsetBound
    ) -> Mapping[TopicPartition, int | Failure]: ...

    def offsets_at(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int | Failure | None]: ...

    def delete_up_to(
        self, targets: Mapping[TopicPartition, Target], timeout_s: float
    ) -> Mapping[TopicPartition, int | DeleteFailure]: ...
