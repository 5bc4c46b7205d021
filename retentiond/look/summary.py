"""A plan by topic, and for the whole cluster: what would go, and who keeps the rest."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

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


@dataclass(frozen=True, slots=True)
class TopicLook:
    """One topic of a plan.

    ``records`` are there and ``freed_records`` of them would go; ``freed_bytes`` of
    ``size_bytes``, None where a disk is unread. ``kept`` counts records by who keeps them, the
    most first. ``unread``: partitions whose offsets are not known. ``owner``: the system whose
    topic it is, if it is one's.
    """

    topic: str
    rows: tuple[PlanRow, ...]
    records: int
    freed_records: int
    kept: tuple[tuple[Keeper, int], ...]
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

    def kept_bytes(self, records: int) -> int | None:
        """About what so many of its records take on the disks, by their share."""
        if self.size_bytes is None or not self.records:
            return None
        return self.size_bytes * records // self.records


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
    def kept(self) -> tuple[tuple[Keeper, int, int | None], ...]:
        """Records and about how many bytes each keeper keeps in the cluster, the most first."""
        records: Counter[Keeper] = Counter()
        on_disk: defaultdict[Keeper, list[int | None]] = defaultdict(list)
        for topic in self.topics:
            for keeper, count in topic.kept:
                records[keeper] += count
                on_disk[keeper].append(topic.kept_bytes(count))
        found = [(keeper, count, _total(on_disk[keeper])) for keeper, count in records.items()]
        return tuple(sorted(found, key=lambda each: (-(each[2] or 0), -each[1], str(each[0]))))


def look_at(rows: Iterable[PlanRow], disk: Disk = UNREAD_DISK) -> ClusterLook:
    """``rows`` of any plan."""
    by_topic: defaultdict[str, list[PlanRow]] = defaultdict(list)
    for row in rows:
        by_topic[row.topic].append(row)
    topics = (_topic(topic, of_topic, disk) for topic, of_topic in by_topic.items())
    return ClusterLook(tuple(sorted(topics, key=lambda topic: topic.order)), disk)


def _topic(topic: str, rows: Sequence[PlanRow], disk: Disk) -> TopicLook:
    kept: Counter[Keeper] = Counter()
    for row in rows:
        kept.update(kept_records(row))
    keys = [TopicPartition(row.topic, row.partition) for row in rows]
    doomed = [key for key, row in zip(keys, rows, strict=True) if row.verdict is Verdict.DELETE]
    size_bytes = _total(disk.sizes.get(key) for key in keys)
    return TopicLook(
        topic=topic,
        rows=tuple(rows),
        records=sum(map(_records, rows)),
        freed_records=sum(row.records for row in rows),
        kept=tuple(sorted(kept.items(), key=lambda each: (-each[1], str(each[0])))),
        unread=sum(row.log_start_offset is None or row.high_watermark is None for row in rows),
        size_bytes=size_bytes,
        freed_bytes=None if size_bytes is None else _total(disk.freed.get(key) for key in doomed),
        owner=owner(topic),
    )


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
