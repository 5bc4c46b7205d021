"""What an explanation is made from: a plan, what it rests on, and a little more."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from retentiond.collect.remembered import Remembered
from retentiond.collect.snapshot import Snapshot, partitions_of
from retentiond.disk.report import DiskReport
from retentiond.errors import KafkaUnavailable, UsageError
from retentiond.explain.age import Ahead, dated_ahead
from retentiond.explain.freeing import CHECK_INTERVAL, DELETE_DELAY, BrokerConfigs
from retentiond.kafka.port import Kafka
from retentiond.model import PlanRow, TopicPartition
from retentiond.observe.report import CycleReport


@dataclass(frozen=True, slots=True)
class Evidence:
    """``brokers``: their settings; ``ahead``: records that are dated ahead of the clock."""

    rows: tuple[PlanRow, ...]
    snapshot: Snapshot
    remembered: Remembered
    disk: DiskReport
    brokers: BrokerConfigs
    ahead: Mapping[TopicPartition, Ahead]


def evidence(
    kafka: Kafka,
    report: CycleReport,
    snapshot: Snapshot,
    remembered: Remembered,
    partitions: Collection[TopicPartition],
) -> Evidence:
    """Asks what a plan needs not know about the ``partitions``; nothing fails for that."""
    brokers: BrokerConfigs = {}
    ahead: Mapping[TopicPartition, Ahead] = {}
    try:
        brokers = kafka.broker_configs([CHECK_INTERVAL, DELETE_DELAY])
        ahead = dated_ahead(kafka, partitions, snapshot.taken_at_ms)
    except KafkaUnavailable:
        pass  # the explanation says that it does not know, or does not speak of it
    return Evidence(report.plan.rows, snapshot, remembered, report.disk, brokers, ahead)


def refuse_unknown(topic: str, topics: Collection[str]) -> None:
    """Raises `UsageError` unless it is one of those."""
    if topic not in topics:
        raise UsageError(
            f"there is no topic {topic} in the cluster, or this principal may not DESCRIBE it; "
            "`retentiond plan` shows those that are"
        )


def partitions_at(
    snapshot: Snapshot, topic: str, partition: int | None
) -> tuple[TopicPartition, ...]:
    """All partitions of the topic, or that one.

    Raises `UsageError` for one that is not there, and `KafkaUnavailable` where the topic can't
    be read.
    """
    readings = {each.name: each for each in snapshot.topics}
    refuse_unknown(topic, readings)
    there = [at for at in partitions_of(snapshot) if at.topic == topic]
    if not there:
        raise KafkaUnavailable(
            f"topic {topic} can't be read ({readings[topic].failure}); see that its brokers are "
            "up, and that this principal may DESCRIBE it"
        )
    found = tuple(at for at in there if partition in (None, at.partition))
    if not found:
        numbers = f"0 to {there[-1].partition}" if len(there) > 1 else "0"
        raise UsageError(f"topic {topic} has no partition {partition}, only {numbers}")
    return found
