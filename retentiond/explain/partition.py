"""Why one partition stands where it does: the rule's figures, the groups, the reason, the disk."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from retentiond.collect.snapshot import PartitionReading, Snapshot, TopicReading
from retentiond.config import TopicPolicy
from retentiond.explain.age import doubts, stalled_by
from retentiond.explain.evidence import Evidence
from retentiond.explain.freeing import on_disk, pace
from retentiond.explain.keepers import Keeper, kept_records
from retentiond.explain.standings import Standing, TopicGroups
from retentiond.model import PlanRow, TopicPartition
from retentiond.wording.reasons import remedy, short


@dataclass(frozen=True, slots=True)
class Explanation:
    """One partition.

    ``end`` is the smaller of last stable offset and high watermark, None where one is unread;
    ``consumed_retention_ms`` is None where the policy gives none. ``excluded`` are groups that
    would count but for the policy. ``why``, ``remedy``, ``on_disk`` and ``ages`` are sentences;
    ``ages`` says what is proven of the records' time stamps.
    """

    row: PlanRow
    end: int | None
    consumed_retention_ms: int | None
    standings: tuple[Standing, ...]
    excluded: tuple[str, ...]
    kept: Mapping[Keeper, int]
    size_bytes: int | None
    why: str
    remedy: str
    on_disk: tuple[str, ...]
    ages: tuple[str, ...]

    def lag(self, standing: Standing) -> int | None:
        """Records that the group has yet to read; None where that is not known."""
        end, committed = self.row.high_watermark, standing.committed_offset
        return None if end is None or committed is None else max(0, end - committed)

    def binds(self, standing: Standing) -> bool:
        return standing.group_id == self.row.binding_group

    def size_of(self, records: int) -> int | None:
        """About what so many of its records take on the disks; None where that is not known."""
        start, end = self.row.log_start_offset, self.row.high_watermark
        if self.size_bytes is None or start is None or end is None or end <= start:
            return None
        return self.size_bytes * records // (end - start)


def explained(
    evidence: Evidence, topic: str, only: Collection[int] | None = None
) -> tuple[Explanation, ...]:
    """The partitions of a topic of the plan, ascending, ``only`` those if given."""
    position, reading = _topic(evidence.snapshot, topic)
    groups = TopicGroups(evidence.snapshot, evidence.remembered, topic)
    partitions = {
        each.partition: each for each in evidence.snapshot.partitions if each.topic == position
    }
    return tuple(
        _explained(evidence, row, reading, partitions[row.partition], groups)
        for row in evidence.rows
        if row.topic == topic and (only is None or row.partition in only)
    )


def _explained(
    evidence: Evidence,
    row: PlanRow,
    topic: TopicReading,
    partition: PartitionReading,
    groups: TopicGroups,
) -> Explanation:
    policy = topic.policy
    at = TopicPartition(row.topic, row.partition)
    ends = (partition.last_stable_offset, partition.high_watermark)
    clearing = pace(evidence.brokers, topic.config)
    return Explanation(
        row=row,
        end=None if None in ends else min(each for each in ends if each is not None),
        consumed_retention_ms=(
            policy.consumed_retention_ms if isinstance(policy, TopicPolicy) else None
        ),
        standings=groups.standings(row.partition),
        excluded=groups.excluded,
        kept=kept_records(row),
        size_bytes=evidence.disk.size_bytes.get(at),
        why=row.detail or short(row.reason, row.binding_group),
        remedy=remedy(row),
        on_disk=tuple(on_disk(row, evidence.disk, topic.config, clearing)),
        ages=_ages(evidence, topic, partition, at),
    )


def _ages(
    evidence: Evidence, topic: TopicReading, partition: PartitionReading, at: TopicPartition
) -> tuple[str, ...]:
    policy, snapshot = topic.policy, evidence.snapshot
    if not isinstance(policy, TopicPolicy) or not policy.consumed_retention_ms:
        return ()
    retention_ms = policy.consumed_retention_ms
    if at in evidence.ahead:  # the record itself is known, so that its arrival proves no more
        return (stalled_by(evidence.ahead[at], retention_ms),)
    known = evidence.remembered.topics.get(topic.name)
    ends = known.ends if known is not None and known.topic_id == topic.topic_id else ()
    return doubts(partition, ends, retention_ms, snapshot.taken_at_ms)


def _topic(snapshot: Snapshot, name: str) -> tuple[int, TopicReading]:
    return next((at, each) for at, each in enumerate(snapshot.topics) if each.name == name)
