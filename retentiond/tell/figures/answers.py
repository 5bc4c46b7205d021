"""Every figure about a plan, computed once and named once.

In come the rows of a plan, their outcomes, and what is known of the disks; out go answers by
partition, by topic and for the cluster (`group_answers` has those by group). Table, JSON, page,
explanation, first look, metrics and log line only show them.

Two words mean the same everywhere. *Records* are the records that a plan deletes, as in `PlanRow`.
*Log records* are all offsets between log start offset and high watermark; a compacted topic has
fewer records than that.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from retentiond.disks.broker_disks import DiskReport
from retentiond.disks.stuck import Stuck
from retentiond.formatting import say_many, say_names
from retentiond.model import DeletionOutcome, Outcome, PlanRow, TopicPartition, Verdict
from retentiond.tell.figures.kept_records import (
    KeptRecords,
    kept_records,
    known_total,
    most_records_first,
    summed_by_keeper,
    total,
)
from retentiond.tell.reasons import MOST_TOPICS, say_compacted, say_groups_only, short
from retentiond.tell.unseen_readers import KnownSystem, system_of


@dataclass(frozen=True, slots=True)
class PartitionAnswer:
    """The figures of one row of a plan. ``outcome``: None if the guard did not approve the row."""

    row: PlanRow
    disk: DiskReport
    outcome: DeletionOutcome | None = None

    @property
    def at(self) -> TopicPartition:
        return self.row.topic_partition

    @property
    def is_deleted(self) -> bool:
        """Whether the row's records are gone, by this deletion or another one."""
        return self.outcome is not None and self.outcome.outcome is Outcome.DELETED

    @property
    def is_deleted_by_us(self) -> bool:
        return self.outcome is not None and self.outcome.is_ours

    @property
    def records(self) -> int:
        """What the row's deletion deletes; none while it waits until it is worthwhile."""
        return self.row.records if self.row.verdict is Verdict.DELETE else 0

    @property
    def log_records(self) -> int | None:
        """How many log records the partition has; None if its offsets are unreadable."""
        start, end = self.row.log_start_offset, self.row.high_watermark
        return None if start is None or end is None else max(0, end - start)

    @property
    def slowest_group_lag(self) -> int | None:
        """Records from the smallest commit to the high watermark; None if one is not known."""
        committed, end = self.row.min_committed_offset, self.row.high_watermark
        return None if committed is None or end is None else max(0, end - committed)

    @property
    def size_bytes(self) -> int | None:
        """On the disks of all replicas; None if it is not known."""
        return self.disk.size_bytes.get(self.at)

    @property
    def predicted_bytes(self) -> int | None:
        """What the row's deletion frees; 0 if the row is no deletion."""
        return self.row.predicted_bytes if self.row.verdict is Verdict.DELETE else 0

    @property
    def kept(self) -> tuple[KeptRecords, ...]:
        size_bytes, log_records = self.size_bytes, self.log_records
        if not log_records:
            return ()
        return tuple(
            KeptRecords(
                keeper, records, None if size_bytes is None else size_bytes * records // log_records
            )
            for keeper, records in kept_records(self.row).items()
        )

    @property
    def stuck(self) -> tuple[Stuck, ...]:
        return self.disk.stuck_at(self.at)

    @property
    def why(self) -> str:
        return self.row.detail or short(self.row.reason, self.row.binding_group)


@dataclass(frozen=True, slots=True)
class SimilarPartitions:
    """Partitions with something in common. Sentences about them describe the first one."""

    partitions: tuple[PartitionAnswer, ...]

    @property
    def first(self) -> PlanRow:
        return self.partitions[0].row

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(each.row.partition for each in self.partitions)

    @property
    def records(self) -> int:
        return sum(each.records for each in self.partitions)

    @property
    def deleted(self) -> int:
        """How many of the partitions are deleted from."""
        return sum(each.is_deleted for each in self.partitions)

    @property
    def binding_groups(self) -> tuple[str, ...]:
        """The groups that bind any of the partitions, sorted by name."""
        groups = {each.row.binding_group for each in self.partitions}
        return tuple(sorted(group for group in groups if group is not None))


@dataclass(frozen=True)
class TopicAnswer:
    """The figures of a topic. ``partitions``: at least one, ascending. ``freed_bytes``: what the
    brokers have freed since the last cycle, because of earlier deletions."""

    topic: str
    partitions: tuple[PartitionAnswer, ...]
    freed_bytes: int = 0

    @property
    def records(self) -> int:
        return sum(each.records for each in self.partitions)

    @property
    def reclaimable_records(self) -> int:
        """The records that can be deleted and are not gone yet."""
        return sum(each.records for each in self.partitions if not each.is_deleted)

    @cached_property
    def log_records(self) -> int:
        """The log records of the partitions whose offsets are readable."""
        return sum(each.log_records or 0 for each in self.partitions)

    @property
    def known_log_records(self) -> int | None:
        """`log_records`; None if the offsets of all partitions are unreadable."""
        return self.log_records if self.unreadable < len(self.partitions) else None

    @property
    def slowest_group_lag(self) -> int | None:
        """Records above the smallest commit, over the partitions where it is known; None if it is
        known of none."""
        return known_total(each.slowest_group_lag for each in self.partitions)

    @property
    def unreadable(self) -> int:
        """How many partitions have unreadable offsets."""
        return sum(each.log_records is None for each in self.partitions)

    @cached_property
    def size_bytes(self) -> int | None:
        return total(each.size_bytes for each in self.partitions)

    @cached_property
    def predicted_bytes(self) -> int | None:
        return total(each.predicted_bytes for each in self.partitions)

    @property
    def predicted_of_size(self) -> int | None:
        """What the deletions free, to be compared with the size: None unless both are known."""
        return None if self.size_bytes is None else self.predicted_bytes

    @cached_property
    def kept(self) -> tuple[KeptRecords, ...]:
        """The records that stay, by cause, the most records first."""
        parts = (kept for each in self.partitions for kept in each.kept)
        return tuple(sorted(summed_by_keeper(parts), key=most_records_first))

    @property
    def verdicts(self) -> Counter[Verdict]:
        return Counter(each.row.verdict for each in self.partitions)

    # As in `PlanRow`; all partitions have the same.

    @property
    def is_compacted(self) -> bool:
        return self.partitions[0].row.is_compacted

    @property
    def owner(self) -> str | None:
        return self.partitions[0].row.owner

    @property
    def fence(self) -> str | None:
        return self.partitions[0].row.fence

    @property
    def dry_run(self) -> bool:
        return self.partitions[0].row.dry_run

    @property
    def system(self) -> KnownSystem | None:
        return system_of(self.topic)

    def alike(self, key: Callable[[PlanRow], Hashable]) -> tuple[SimilarPartitions, ...]:
        """The partitions, grouped by a key of their rows, the largest group first."""
        by_key: defaultdict[Hashable, list[PartitionAnswer]] = defaultdict(list)
        for each in self.partitions:
            by_key[key(each.row)].append(each)
        alike = [SimilarPartitions(tuple(partitions)) for partitions in by_key.values()]

        def order(each: SimilarPartitions) -> tuple[int, str, str]:
            return -len(each.partitions), each.first.reason, each.first.binding_group or ""

        return tuple(sorted(alike, key=order))


def say_trials(topics: Sequence[TopicAnswer]) -> str:
    records = sum(each.records for each in topics)
    names = say_names([each.topic for each in topics], MOST_TOPICS)
    return (
        f"On trial (dry_run): {names}. {say_many(records, 'record')} could be deleted there, "
        "but nothing is deleted from these topics."
        if len(topics) > 1
        else f"{names} is on trial (dry_run): {say_many(records, 'record')} could be deleted, "
        "but nothing is deleted."
    )


class Caveat(NamedTuple):
    """What figures of topics don't say: a heading and a sentence."""

    heading: str
    sentence: str


def caveats(topics: Iterable[TopicAnswer]) -> Iterator[Caveat]:
    """About compacted topics, whose records are counted as offsets, and about topics where not
    every group counts."""
    compacted: list[str] = []
    by_pattern: defaultdict[str, list[str]] = defaultdict(list)
    for each in topics:
        if each.is_compacted and each.log_records:
            compacted.append(each.topic)
        if (pattern := each.partitions[0].row.only_groups) is not None:
            by_pattern[pattern].append(each.topic)
    if compacted:
        yield Caveat("Compacted topics", say_compacted(compacted))
    for pattern, names in by_pattern.items():
        yield Caveat("Not every group counts", say_groups_only(pattern, names))


@dataclass(frozen=True)
class ClusterAnswer:
    """The figures of a whole plan. ``topics``: in the plan's order. ``log_bytes``: the size of all
    logs on all disks, Kafka's own included; None if a disk is unreadable."""

    topics: tuple[TopicAnswer, ...] = ()
    log_bytes: int | None = None

    @property
    def partitions(self) -> tuple[PartitionAnswer, ...]:
        return tuple(each for topic in self.topics for each in topic.partitions)

    @cached_property
    def by_frees(self) -> tuple[TopicAnswer, ...]:
        """The topics: those that free most come first, then the largest ones; bytes count before
        records."""
        return tuple(
            sorted(
                self.topics,
                key=lambda each: (
                    -(each.predicted_of_size or 0),
                    -each.records,
                    -(each.size_bytes or 0),
                    -each.log_records,
                    each.topic,
                ),
            )
        )

    @cached_property
    def owners(self) -> tuple[str, ...]:
        return tuple(sorted({each.owner for each in self.topics if each.owner is not None}))

    @cached_property
    def by_size(self) -> tuple[TopicAnswer, ...]:
        """The topics, the largest first; bytes count before records."""
        return tuple(
            sorted(
                self.topics,
                key=lambda each: (-(each.size_bytes or 0), -each.log_records, each.topic),
            )
        )

    @property
    def records(self) -> int:
        return sum(topic.records for topic in self.topics)

    @property
    def log_records(self) -> int:
        return sum(topic.log_records for topic in self.topics)

    @cached_property
    def predicted_bytes(self) -> int | None:
        return total(topic.predicted_bytes for topic in self.topics)

    @cached_property
    def known_predicted_bytes(self) -> int | None:
        """What the deletions free on the topics whose bytes are known; None if they are known of no
        topic."""
        return known_total(topic.predicted_of_size for topic in self.topics)

    @property
    def is_bytes_known(self) -> bool:
        """Whether it is known of every topic how many bytes its deletions free."""
        return all(topic.predicted_of_size is not None for topic in self.topics)

    @cached_property
    def kept(self) -> tuple[KeptRecords, ...]:
        """The records that stay in the cluster, by cause, the most bytes first."""
        kept = summed_by_keeper(each for topic in self.topics for each in topic.kept)
        return tuple(
            sorted(kept, key=lambda each: (-(each.size_bytes or 0), *most_records_first(each)))
        )


def cluster_answer(partitions: Iterable[PartitionAnswer], disk: DiskReport) -> ClusterAnswer:
    """The answers for a whole plan. ``partitions``: in the plan's order."""
    by_topic: defaultdict[str, list[PartitionAnswer]] = defaultdict(list)
    for each in partitions:
        by_topic[each.row.topic].append(each)
    topics = (
        TopicAnswer(topic, tuple(of_topic), disk.freed_bytes.get(topic, 0))
        for topic, of_topic in by_topic.items()
    )
    return ClusterAnswer(tuple(topics), disk.log_bytes)
