"""What an explanation is made from: a plan, what it rests on, and what age protects.

The consumed retention goes by the records' own time stamps, which producers set. What is known
of a record's arrival comes from the ends that earlier cycles saw (`retentiond.memory.remembered`):

- A record at or above such an end arrived after it was seen. If it counts as older than the
  consumed retention although the end was seen within that, its time stamp lies in the past.
- A record below such an end had arrived when it was seen. If it counts as young although the
  end was seen before that, its time stamp lies ahead of its arrival.

Both are proofs; where neither is possible, nothing is said.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from retentiond.errors import KafkaUnavailable, UsageError
from retentiond.formatting import DAY_MS, HOUR_MS, MINUTE_MS, say_about
from retentiond.kafka.interface import Kafka
from retentiond.memory.remembered import EndsSeen, Remembered
from retentiond.model import Failure, TopicPartition
from retentiond.snapshot import PartitionReading, Snapshot, partitions_of
from retentiond.tell.explain.freeing import CHECK_INTERVAL, DELETE_DELAY, BrokerConfigs
from retentiond.tell.report import CycleReport


@dataclass(frozen=True, slots=True)
class ExplainedPlan:
    """``brokers``: their settings; ``ahead``: records that are dated ahead of the clock."""

    report: CycleReport
    snapshot: Snapshot
    remembered: Remembered
    brokers: BrokerConfigs
    ahead: Mapping[TopicPartition, Ahead]


def evidence(
    kafka: Kafka,
    report: CycleReport,
    snapshot: Snapshot,
    remembered: Remembered,
    partitions: Collection[TopicPartition],
) -> ExplainedPlan:
    """Asks what a plan needs not know about the ``partitions``; nothing fails for that."""
    brokers: BrokerConfigs = {}
    ahead: Mapping[TopicPartition, Ahead] = {}
    try:
        brokers = kafka.broker_configs([CHECK_INTERVAL, DELETE_DELAY])
        ahead = dated_ahead(kafka, partitions, snapshot.taken_at_ms)
    except KafkaUnavailable:
        pass  # the explanation says that it does not know, or does not speak of it
    return ExplainedPlan(report, snapshot, remembered, brokers, ahead)


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

    Of a topic that can't be read the plan has the first one only. Raises `UsageError` for one that
    is not there, and `KafkaUnavailable` for one that may be.
    """
    readings = {each.name: each for each in snapshot.topics}
    refuse_unknown(topic, readings)
    there = [at for at in partitions_of(snapshot) if at.topic == topic]
    found = tuple(at for at in there if partition in (None, at.partition))
    if not found and readings[topic].failure:
        raise KafkaUnavailable(
            f"topic {topic} can't be read ({readings[topic].failure}); see that its brokers are "
            "up, and that this principal may DESCRIBE it"
        )
    if not found:
        numbers = f"0 to {there[-1].partition}" if len(there) > 1 else "0"
        raise UsageError(f"topic {topic} has no partition {partition}, only {numbers}")
    return found


LEAST_MS = MINUTE_MS
"""What clocks and the time that a reading takes may make up for."""

AHEAD_MS = (MINUTE_MS, HOUR_MS, DAY_MS, 30 * DAY_MS, 365 * DAY_MS)
"""How far ahead of the clock records are looked for."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """The first record dated ahead of the clock, and by how much at least, in milliseconds."""

    offset: int
    by_ms: int


def dated_ahead(
    kafka: Kafka, partitions: Iterable[TopicPartition], now_ms: int
) -> Mapping[TopicPartition, Ahead]:
    """The partitions that have such a record; one whose look-up fails is left out."""
    asked = list(partitions)
    found: dict[TopicPartition, Ahead] = {}
    for by_ms in AHEAD_MS:
        answers = kafka.offsets_at(dict.fromkeys(asked, now_ms + by_ms)) if asked else {}
        here = {
            at: Ahead(offset, by_ms)
            for at, offset in answers.items()
            if offset is not None and not isinstance(offset, Failure)
        }
        asked = [
            at for at, ahead in here.items() if at not in found or found[at].offset == ahead.offset
        ]
        found |= {at: here[at] for at in asked}
    return found


def stalled_by(ahead: Ahead, consumed_retention_ms: int) -> str:
    """What a future-dated record means for its partition."""
    return (
        f"The record at offset {ahead.offset} is dated more than {say_about(ahead.by_ms)} in the "
        f"future: no cutoff passes it until its timestamp is {say_about(consumed_retention_ms)} "
        "old. Correct the producer's clock, or have brokers stamp the topic's records "
        "(message.timestamp.type=LogAppendTime); once it is consumed, "
        "retentiond delete-records --to-committed deletes past it."
    )


def doubts(
    reading: PartitionReading,
    ends: Iterable[EndsSeen],
    consumed_retention_ms: int,
    now_ms: int,
) -> tuple[str, ...]:
    """What is proven about the partition's time stamps, a sentence each.

    ``ends``: what earlier cycles saw, for the same topic id; ``now_ms``: of the look-up by time.
    """
    young_since, end = reading.retention_offset, reading.high_watermark
    if not consumed_retention_ms or young_since is None or end is None:
        return ()
    young_from_ms = now_ms - consumed_retention_ms
    seen = [
        (each.at_ms, each.high_watermarks[reading.partition])
        for each in ends
        if reading.partition in each.high_watermarks
        and each.high_watermarks[reading.partition] <= end  # else records were lost meanwhile
        and each.at_ms < now_ms
    ]
    behind = [at for at in seen if at[0] >= young_from_ms and at[1] < young_since]
    before = [at for at in seen if at[0] < young_from_ms and young_since < at[1]]
    found = []
    least_ms = min(LEAST_MS, consumed_retention_ms // 2)
    if behind and (by_ms := max(behind)[0] - young_from_ms) >= least_ms:
        since_ms, first = max(behind)
        found.append(
            f"Age protects nothing here: the records from offset {first} on arrived in the last "
            f"{say_about(now_ms - since_ms)}, but are dated at least {say_about(by_ms)} before "
            "they arrived (a backfill, or a producer's clock that is behind), so that they count "
            f"as older than {say_about(consumed_retention_ms)}. Only the groups' commits keep "
            "them: name the groups that must read them under groups.required, or have brokers "
            "stamp the topic's records (message.timestamp.type=LogAppendTime)."
        )
    if before and (by_ms := young_from_ms - min(before)[0]) >= LEAST_MS:
        found.append(
            f"The record at offset {young_since} arrived more than "
            f"{say_about(now_ms - min(before)[0])} ago and still counts as younger than "
            f"{say_about(consumed_retention_ms)}: it is dated at least {say_about(by_ms)} after "
            "it arrived, and no cutoff passes it before it is as old as that. Correct the "
            "producer's clock, or have brokers stamp the topic's records "
            "(message.timestamp.type=LogAppendTime)."
        )
    return tuple(found)
