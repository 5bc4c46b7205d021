"""A plan by topic, and for the whole cluster: what would go, and who keeps the rest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from retentiond.explain.keepers import Keeper, kept_records
from retentiond.look.special import Owner, owner
from retentiond.model import PlanRow, TopicPartition, Verdict


@dataclass(frozen=True, slots=True)
class Disk:
    """What is known of the brokers' disks, in bytes over all replicas.

    ``sizes``: of the partitions that were read; ``freed``: what deletions are foretold to free.
    ``total``: of all logs on all disks, None where one is unread.
    """

    sizes: Mapping[TopicPartition, int] = field(default_factory=dict)
    freed: Mapping[TopicPartition, int] = field(default_factory=dict)
    total: int | None = None


UNREAD_DISK = Disk()


class Kept(NamedTuple):
    """What stays on one account. ``size_bytes`` is about what that takes on the disks, by its
    share of each partition's records; None where a size is unread."""

    keeper: Keeper
    records: int
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class TopicLook:
    """One topic of a plan.

    ``records`` are there and ``freed_records`` of them would go; ``freed_bytes`` of
    ``size_bytes``, None where a disk is unread. ``kept``: by who keeps it, the most records
    first. ``unread``: partitions whose offsets are not known. ``owner``: the system whose
    topic it is, if it is one's.
    """

    topic: str
    rows: tuple[PlanRow, ...]
    records: int
    freed_records: int
    kept: tuple[Kept, ...]
    unread: int
    size_bytes: int | None
    freed_bytes: int | None
    owner: Owner | None

    @property
    def order(self) -> tuple[int, int, int, int, str]:
        """By what would go, then by what is there; first by bytes, then by records."""
        return (
            -(self.freed_bytes or 0),
            -self.freed_records,
            -(self.size_bytes or 0),
            -self.records,
            self.topic,
        )


@dataclass(frozen=True, slots=True)
class ClusterLook:
    """All of it. ``topics`` are sorted by what they would free."""

    topics: tuple[TopicLook, ...]
    disk: Disk

    @property
    def freed_records(self) -> int:
        return sum(topic.freed_records for topic in self.topics)

    @property
    def records(self) -> int:
        return sum(topic.records for topic in self.topics)

    @property
    def freed_bytes(self) -> int | None:
        """As far as it is known; None where nothing is."""
        known = [topic.freed_bytes for topic in self.topics if topic.freed_bytes is not None]
        return sum(known) if known else None

    @property
    def is_bytes_known(self) -> bool:
        """Whether the bytes are known of every topic."""
        return all(topic.freed_bytes is not None for topic in self.topics)

    @property
    def kept(self) -> tuple[Kept, ...]:
        """What each keeper keeps in the cluster, the most bytes first."""
        found = _added(each for topic in self.topics for each in topic.kept)
        return tuple(sorted(found, key=lambda each: (-(each.size_bytes or 0), *_by_records(each))))


def look_at(rows: Iterable[PlanRow], disk: Disk = UNREAD_DISK) -> ClusterLook:
    """``rows`` of any plan."""
    by_topic: defaultdict[str, list[PlanRow]] = defaultdict(list)
    for row in rows:
        by_topic[row.topic].append(row)
    topics = (_topic(topic, of_topic, disk) for topic, of_topic in by_topic.items())
    return ClusterLook(tuple(sorted(topics, key=lambda topic: topic.order)), disk)


def _topic(topic: str, rows: Sequence[PlanRow], disk: Disk) -> TopicLook:
    keys = [TopicPartition(row.topic, row.partition) for row in rows]
    doomed = [key for key, row in zip(keys, rows, strict=True) if row.verdict is Verdict.DELETE]
    size_bytes = _total(disk.sizes.get(key) for key in keys)
    return TopicLook(
        topic=topic,
        rows=tuple(rows),
        records=sum(map(_records, rows)),
        freed_records=sum(row.records for row in rows),
        kept=tuple(sorted(_added(_kept(rows, disk)), key=_by_records)),
        unread=sum(row.log_start_offset is None or row.high_watermark is None for row in rows),
        size_bytes=size_bytes,
        freed_bytes=None if size_bytes is None else _total(disk.freed.get(key) for key in doomed),
        owner=owner(topic),
    )


def _kept(rows: Iterable[PlanRow], disk: Disk) -> Iterator[Kept]:
    """Of each partition."""
    for row in rows:
        size_bytes, there = disk.sizes.get(TopicPartition(row.topic, row.partition)), _records(row)
        for keeper, records in kept_records(row).items():
            share = None if size_bytes is None else size_bytes * records // there
            yield Kept(keeper, records, share)


def _added(parts: Iterable[Kept]) -> Iterator[Kept]:
    """One for each keeper."""
    by_keeper: defaultdict[Keeper, list[Kept]] = defaultdict(list)
    for part in parts:
        by_keeper[part.keeper].append(part)
    for keeper, each in by_keeper.items():
        records = sum(part.records for part in each)
        yield Kept(keeper, records, _total(part.size_bytes for part in each))


def _by_records(kept: Kept) -> tuple[int, str]:
    return -kept.records, str(kept.keeper)


def _records(row: PlanRow) -> int:
    """Offsets between log start and end: of a compacted topic that is more than there are."""
    if row.log_start_offset is None or row.high_watermark is None:
        return 0
    return max(0, row.high_watermark - row.log_start_offset)


def _total(parts: Iterable[int | None]) -> int | None:
    """The sum; None if a part is not known."""
    total = 0
    for part in parts:
        if part is None:
            return None
        total += part
    return total
