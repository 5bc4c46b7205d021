"""What the doctor has read of a cluster. What could not be read is a `Failure` in its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from retentiond.collect.census import Census
from retentiond.collect.topics import EnabledTopic
from retentiond.kafka.brokers import Brokers
from retentiond.kafka.port import CoordinatorState
from retentiond.kafka.rights import Operations
from retentiond.model import Failure, TopicPartition


@dataclass(frozen=True, slots=True)
class Clocks:
    """Epoch milliseconds. The cluster's was asked for between ``before_ms`` and ``after_ms`` of
    this host's; None: it does not tell."""

    before_ms: int
    cluster_ms: int | None
    after_ms: int


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """``size_bytes``: of the largest replica; None where no disk shows it. ``offset_ago``: for
    each age in ms, the first offset whose record is younger; the high watermark if none is."""

    log_start_offset: int
    high_watermark: int
    size_bytes: int | None
    offset_ago: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Seen:
    """``topics``: those that the policy enables. ``offsets_retention``: each broker's
    ``offsets.retention.minutes``, as it stands there."""

    brokers: Brokers
    names: frozenset[str] | Failure
    topics: tuple[EnabledTopic, ...] | Failure
    rights: Mapping[str, Operations | Failure] | Failure
    coordinators: CoordinatorState | Failure
    census: Census | Failure
    clocks: Clocks | Failure
    offsets_retention: Mapping[int, str | Failure] | Failure
    logs: Mapping[TopicPartition, PartitionLog | Failure] | Failure
