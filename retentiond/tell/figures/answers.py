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

from retentiond.decide.kept_records import (
    KeptRecords,
    kept_of,
    most_records_first,
    summed_by_keeper,
)
from retentiond.disks.broker_disks import DiskReport
from retentiond.disks.stuck import Stuck
from retentiond.fields import (
    API,
    BYTES,
    COUNTS,
    FIRST_LOOK,
    FIRST_LOOK_OF_RECORDS,
    FLAG,
    GROUPS,
    NUMBER,
    PAGE,
    PARTITIONS,
    PLAN,
    RECORDS,
    TEXT,
    FiguresOf,
    described,
    figure,
    rows_of,
    said,
)
from retentiond.formatting import say_many, say_names
from retentiond.model import DeletionOutcome, Outcome, PlanRow, TopicPartition, Verdict
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
        return kept_of(self.row, self.size_bytes)

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
        return tuple(partition.row.partition for partition in self.partitions)

    @property
    def records(self) -> int:
        return sum(partition.records for partition in self.partitions)

    @property
    def deleted(self) -> int:
        """How many of the partitions are deleted from."""
        return sum(partition.is_deleted for partition in self.partitions)

    @property
    def binding_groups(self) -> tuple[str, ...]:
        """The groups that bind any of the partitions, sorted by name."""
        groups = {partition.row.binding_group for partition in self.partitions}
        return tuple(sorted(group for group in groups if group is not None))


OF_PARTITIONS = FiguresOf("partitions")


@described
class TopicAnswer:
    """The figures of a topic, each with what it means and where it is shown. ``partitions``: at
    least one, ascending."""

    topic: str = said(
        TEXT, "the topic", columns={FIRST_LOOK: "TOPIC", FIRST_LOOK_OF_RECORDS: "TOPIC"}
    )
    partitions: tuple[PartitionAnswer, ...]

    owner = OF_PARTITIONS.first(
        TEXT,
        "who is asked about the topic: the `owner` of its policy file; null: the main file does",
        (API, PLAN),
        of="row.owner",
    )
    fence = OF_PARTITIONS.first(
        TEXT, "the policy file whose fence the topic is in; null: none", (API, PLAN), of="row.fence"
    )
    dry_run = OF_PARTITIONS.first(
        FLAG,
        "whether its policy has it on trial, or the whole daemon is dry",
        (API,),
        of="row.dry_run",
    )

    @figure(PARTITIONS, "how many partitions it has", (FIRST_LOOK,), name="partitions")
    def partition_count(self) -> int:
        return len(self.partitions)

    @figure(COUNTS, "how many partitions have each verdict", (API,))
    def verdicts(self) -> Counter[Verdict]:
        return Counter(partition.row.verdict for partition in self.partitions)

    @figure(GROUPS, "how many groups count on the topic", (FIRST_LOOK,), name="groups")
    def group_count(self) -> int:
        return max(partition.row.groups for partition in self.partitions)

    size_bytes = OF_PARTITIONS.total(
        BYTES,
        "bytes that the topic takes on the disks of all replicas; null if they are not known",
        metric="retentiond_log_size_bytes",
        columns={FIRST_LOOK: "ON DISK", PAGE: "On disk"},
        sort="bytes",
    )
    predicted_bytes = OF_PARTITIONS.total(
        BYTES,
        "estimated bytes that the last plan's deletions free on the disks of all replicas; null if "
        "they are not known",
        (API, PLAN),
        metric="retentiond_predicted_bytes",
    )

    @figure(
        BYTES,
        "as above, and null too if the size is not known",
        (FIRST_LOOK,),
        name="predicted_bytes",
        columns={FIRST_LOOK: "FREES"},
        is_dash=True,
    )
    def predicted_of_size(self) -> int | None:
        """What the deletions free, to be compared with the size: None unless both are known."""
        return None if self.size_bytes is None else self.predicted_bytes

    known_log_records = OF_PARTITIONS.known(
        RECORDS,
        "records from log start offset to high watermark, over the partitions whose offsets are "
        "known; null if there are none",
        (),
        of="log_records",
        metric="retentiond_log_records",
        columns={FIRST_LOOK_OF_RECORDS: "RECORDS"},
    )
    records = OF_PARTITIONS.sum(
        RECORDS,
        "records that the plan's deletions delete",
        columns={FIRST_LOOK: "RECORDS", FIRST_LOOK_OF_RECORDS: "WOULD GO"},
        is_dash=True,
    )

    @figure(
        BYTES,
        "what brokers have freed since the last cycle, because of earlier deletions",
        (API, PLAN),
    )
    def freed_bytes(self) -> int:
        return self.partitions[0].disk.freed_bytes.get(self.topic, 0)

    @figure(
        RECORDS,
        "records that can be deleted and are still there after the last cycle",
        (API,),
        metric="retentiond_reclaimable_records",
    )
    def reclaimable_records(self) -> int:
        return sum(partition.records for partition in self.partitions if not partition.is_deleted)

    @figure(
        RECORDS,
        "records from log start offset to high watermark, where the offsets are known",
        (API, FIRST_LOOK),
        name="records_on_disk",
    )
    def log_records(self) -> int:
        return self.known_log_records or 0

    slowest_group_lag = OF_PARTITIONS.known(
        RECORDS,
        "records from the smallest committed offset to the high watermark, over the partitions "
        "whose offsets are known; null if there are none",
        (API,),
        name="slowest_group_lag_records",
        metric="retentiond_slowest_group_lag_records",
    )

    @figure(
        PARTITIONS,
        "how many partitions have offsets that can't be read",
        (API, FIRST_LOOK),
        name="unreadable_partitions",
    )
    def unreadable(self) -> int:
        return sum(partition.log_records is None for partition in self.partitions)

    @figure(
        TEXT,
        "the system that the topic belongs to, by its name; null: none is known",
        (API, FIRST_LOOK),
    )
    def belongs_to(self) -> str | None:
        return None if self.system is None else self.system.short

    @figure(
        rows_of(KeptRecords),
        "the records that stay, by cause, the most records first",
        (API, FIRST_LOOK),
        name="kept_by",
    )
    def kept(self) -> tuple[KeptRecords, ...]:
        parts = (kept for partition in self.partitions for kept in partition.kept)
        return tuple(sorted(summed_by_keeper(parts), key=most_records_first))

    @property
    def is_compacted(self) -> bool:
        return self.partitions[0].row.is_compacted

    @cached_property
    def system(self) -> KnownSystem | None:
        return system_of(self.topic)

    def alike(self, key: Callable[[PlanRow], Hashable]) -> tuple[SimilarPartitions, ...]:
        """The partitions, grouped by a key of their rows, the largest group first."""
        by_key: defaultdict[Hashable, list[PartitionAnswer]] = defaultdict(list)
        for partition in self.partitions:
            by_key[key(partition.row)].append(partition)
        alike = [SimilarPartitions(tuple(partitions)) for partitions in by_key.values()]

        def order(similar: SimilarPartitions) -> tuple[int, str, str]:
            return -len(similar.partitions), similar.first.reason, similar.first.binding_group or ""

        return tuple(sorted(alike, key=order))


def say_trials(topics: Sequence[TopicAnswer]) -> str:
    records = sum(topic.records for topic in topics)
    names = say_names([topic.topic for topic in topics], MOST_TOPICS)
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
    for topic in topics:
        if topic.is_compacted and topic.log_records:
            compacted.append(topic.topic)
        if (pattern := topic.partitions[0].row.only_groups) is not None:
            by_pattern[pattern].append(topic.topic)
    if compacted:
        yield Caveat("Compacted topics", say_compacted(compacted))
    for pattern, names in by_pattern.items():
        yield Caveat("Not every group counts", say_groups_only(pattern, names))


OF_TOPICS = FiguresOf("topics")


@described
class ClusterAnswer:
    """The figures of a whole plan. ``topics``: in the plan's order."""

    topics: tuple[TopicAnswer, ...] = ()
    log_bytes: int | None = said(
        BYTES,
        "the size of all logs on all disks, Kafka's own included; null if a disk can't be read",
        default=None,
    )

    @figure(NUMBER, "how many topics", name="topics")
    def topic_count(self) -> int:
        return len(self.topics)

    @figure(PARTITIONS, "how many partitions", name="partitions")
    def partition_count(self) -> int:
        return len(self.partitions)

    @cached_property
    def partitions(self) -> tuple[PartitionAnswer, ...]:
        return tuple(partition for topic in self.topics for partition in topic.partitions)

    @cached_property
    def by_frees(self) -> tuple[TopicAnswer, ...]:
        """The topics: those that free most come first, then the largest ones; bytes count before
        records."""
        return tuple(
            sorted(
                self.topics,
                key=lambda topic: (
                    -(topic.predicted_of_size or 0),
                    -topic.records,
                    *_largest_first(topic),
                ),
            )
        )

    @cached_property
    def owners(self) -> tuple[str, ...]:
        return tuple(sorted({topic.owner for topic in self.topics if topic.owner is not None}))

    @cached_property
    def by_size(self) -> tuple[TopicAnswer, ...]:
        """The topics, the largest first; bytes count before records."""
        return tuple(sorted(self.topics, key=_largest_first))

    records = OF_TOPICS.sum(RECORDS, "records that the plan's deletions delete")
    log_records = OF_TOPICS.sum(
        RECORDS,
        "records from log start offset to high watermark, where the offsets are known",
        name="records_on_disk",
    )
    predicted_bytes = OF_TOPICS.total(
        BYTES, "what the deletions free; null if it is not known of all topics", ()
    )
    known_predicted_bytes = OF_TOPICS.known(
        BYTES,
        "what the deletions free on the topics whose bytes are known; null if they are known of no "
        "topic",
        of="predicted_of_size",
        name="predicted_bytes",
    )

    @figure(
        FLAG,
        "whether it is known of every topic how many bytes its deletions free",
        name="is_bytes_known_of_all",
    )
    def is_bytes_known(self) -> bool:
        return all(topic.predicted_of_size is not None for topic in self.topics)

    @figure(
        rows_of(KeptRecords),
        "the records that stay in the cluster, by cause, the most bytes first",
        name="kept_by",
    )
    def kept(self) -> tuple[KeptRecords, ...]:
        kept = summed_by_keeper(part for topic in self.topics for part in topic.kept)
        return tuple(
            sorted(kept, key=lambda part: (-(part.size_bytes or 0), *most_records_first(part)))
        )


def _largest_first(topic: TopicAnswer) -> tuple[int, int, str]:
    return -(topic.size_bytes or 0), -topic.log_records, topic.topic


def cluster_answer(partitions: Iterable[PartitionAnswer], disk: DiskReport) -> ClusterAnswer:
    """The answers for a whole plan. ``partitions``: in the plan's order."""
    by_topic: defaultdict[str, list[PartitionAnswer]] = defaultdict(list)
    for partition in partitions:
        by_topic[partition.row.topic].append(partition)
    topics = (TopicAnswer(topic, tuple(of_topic)) for topic, of_topic in by_topic.items())
    return ClusterAnswer(tuple(topics), disk.log_bytes)
