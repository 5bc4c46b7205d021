"""Readings of a small cluster, written down as plain values and changed by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from retentiond.act.approved import CommitEvidence, GroupEvidence
from retentiond.config import TopicPolicy
from retentiond.gather.offsets import are_kept
from retentiond.kafka.interface import EpochEnd
from retentiond.model import GroupKind, PlanRow, TopicPartition
from retentiond.snapshot import (
    COMMIT_SCHEMA,
    GroupReading,
    GroupTopic,
    PartitionReading,
    Snapshot,
    TopicReading,
)
from tests.support.builders.reports import row

POLICY = TopicPolicy(enabled=True, consumed_retention_ms=60_000)
Commits = dict[tuple[str, TopicPartition], int | None]  # by group and partition
Epochs = dict[tuple[str, TopicPartition], tuple[int, int | None, int | None]]
"""By group and partition: the epoch of its commit, the one that the leader knows, and its end."""


def commit_evidence(commits: Sequence[GroupEvidence]) -> CommitEvidence:
    return CommitEvidence(
        tuple((each.group_id, each.kind) for each in commits),
        tuple(each.committed_offset for each in commits),
    )


def topic(name: str) -> TopicReading:
    return TopicReading(
        name=name,
        policy=POLICY,
        topic_id=f"id-of-{name}",
        is_internal=False,
        cleanup_policy=frozenset({"delete"}),
        forced_retention_ms=3_600_000,
    )


def group(group_id: str) -> GroupReading:
    return GroupReading(group_id, GroupKind.CLASSIC, "Stable")


@dataclass
class Reading:
    """A snapshot by name instead of by position. A partition's ``topic`` is filled in by it."""

    cluster_id: str = "cluster-a"
    problems: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    topics: dict[str, TopicReading] = field(default_factory=dict)
    partitions: dict[TopicPartition, PartitionReading] = field(default_factory=dict)
    groups: dict[str, GroupReading] = field(default_factory=dict)
    commits: Commits = field(default_factory=dict)
    remembered: Commits = field(default_factory=dict)
    readers: set[tuple[str, str]] = field(default_factory=set)  # group, topic
    remembered_readers: set[tuple[str, str]] = field(default_factory=set)
    epochs: Epochs = field(default_factory=dict)
    changelogs: set[tuple[str, str]] = field(default_factory=set)  # group, topic
    stale: set[tuple[str, TopicPartition]] = field(default_factory=set)

    def change_topic(self, name: str, **changes: object) -> None:
        self.topics[name] = replace(self.topics[name], **changes)  # type: ignore[arg-type]  # any field

    def change_partition(self, at: TopicPartition, **changes: object) -> None:
        self.partitions[at] = replace(self.partitions[at], **changes)  # type: ignore[arg-type]  # any field

    def add_group(self, group_id: str) -> None:
        self.groups[group_id] = group(group_id)

    def drop_group(self, group_id: str) -> None:
        """As if the cluster had never heard of it."""
        del self.groups[group_id]
        self.commits = {key: offset for key, offset in self.commits.items() if key[0] != group_id}
        self.epochs = {key: epochs for key, epochs in self.epochs.items() if key[0] != group_id}
        self.stale = {key for key in self.stale if key[0] != group_id}

    def snapshot(self) -> Snapshot:
        topics, groups = sorted(self.topics), sorted(self.groups)
        partitions = sorted(self.partitions)

        def pairs(readers: set[tuple[str, str]]) -> frozenset[GroupTopic]:
            return frozenset(
                GroupTopic(groups.index(group_id), topics.index(name)) for group_id, name in readers
            )

        return Snapshot(
            cluster_id=self.cluster_id,
            taken_at_ms=1_000_000,
            topics=tuple(self.topics[name] for name in topics),
            partitions=tuple(
                replace(self.partitions[at], topic=topics.index(at.topic)) for at in partitions
            ),
            groups=tuple(self.groups[group_id] for group_id in groups),
            commits=pa.Table.from_pylist(
                [
                    {
                        "group_id": groups.index(group_id),
                        "partition_id": partitions.index(at),
                        **self._commit(group_id, at),
                    }
                    for group_id, at in sorted({*self.commits, *self.remembered})
                ],
                schema=COMMIT_SCHEMA,
            ),
            readers=pairs(self.readers),
            problems=self.problems,
            hidden=self.hidden,
            remembered_readers=pairs(self.remembered_readers),
            changelogs=pairs(self.changelogs),
            epoch_ends={
                (partitions.index(at), committed): EpochEnd(known, end)
                for (_, at), (committed, known, end) in self.epochs.items()
            },
        )

    def _commit(self, group_id: str, at: TopicPartition) -> dict[str, object]:
        key = (group_id, at)
        offset = self.commits.get(key)
        epoch, known, end = self.epochs.get(key, (None, None, None))
        is_replaced = offset is not None and epoch is not None
        if is_replaced:
            is_share = self.groups[group_id].kind is GroupKind.SHARE
            told = [-1 if each is None else each for each in (offset, epoch, known, end)]
            is_replaced = not are_kept(*(np.array([each]) for each in (*told, is_share)))[0]
        return {
            "is_committed": key in self.commits,
            "offset": offset,
            "leader_epoch": epoch,
            "is_replaced": is_replaced,
            "is_stale": offset is not None and key in self.stale,
            "remembered_offset": self.remembered.get(key),
        }


def partition(number: int) -> PartitionReading:
    """Offsets 10 to 200; those from 150 on are young, those from 180 on undecided."""
    return PartitionReading(
        topic=0,
        partition=number,
        log_start_offset=10,
        high_watermark=200,
        last_stable_offset=180,
        retention_offset=150,
    )


ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)
CLICKS_0 = TopicPartition("clicks", 0)
PARTITIONS = (CLICKS_0, ORDERS_0, ORDERS_1)


def healthy() -> Reading:
    """Two groups that have committed 120 on every partition, and nothing amiss."""
    reading = Reading(
        topics={name: topic(name) for name in ("clicks", "orders")},
        partitions={at: partition(at.partition) for at in PARTITIONS},
    )
    for group_id in ("billing", "search"):
        reading.add_group(group_id)
        reading.commits |= {(group_id, at): 120 for at in PARTITIONS}
    return reading


def changed(*changes: Callable[[Reading], object]) -> Reading:
    reading = healthy()
    for change in changes:
        change(reading)
    return reading


# Changes of a reading, for `changed`

Change = Callable[[Reading], object]


def orders(**changes: object) -> Change:
    return lambda reading: reading.change_topic("orders", **changes)


def policy(**changes: object) -> Change:
    return orders(policy=replace(POLICY, **changes))  # type: ignore[arg-type]  # any field


def offsets(**changes: object) -> Change:
    return lambda reading: reading.change_partition(ORDERS_0, **changes)


def no_commit(group: str) -> Change:
    return lambda reading: reading.commits.pop((group, ORDERS_0))


def epoch(
    group: str, known: int | None, end: int | None, kind: GroupKind = GroupKind.CLASSIC
) -> Change:
    """The group has committed in epoch 3; the leader leads in a later one, and knows that much."""

    def change(reading: Reading) -> None:
        reading.epochs[group, ORDERS_0] = (3, known, end)
        reading.groups[group] = replace(reading.groups[group], kind=kind)

    return change


def deletion(at: TopicPartition, cutoff: int | None = 100, log_start_offset: int = 10) -> PlanRow:
    """What a plan says about a partition of `healthy` up to the cutoff."""
    return replace(
        row(at.topic, at.partition),
        log_start_offset=log_start_offset,
        min_committed_offset=120,
        binding_committed_offset=120,
        cutoff=cutoff,
        records=0 if cutoff is None else cutoff - log_start_offset,
        consumed_retention_ms=POLICY.consumed_retention_ms,
    )


def deletions(partitions: Iterable[TopicPartition] = PARTITIONS) -> tuple[PlanRow, ...]:
    return tuple(deletion(at) for at in partitions)
