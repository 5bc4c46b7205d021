"""What deletions were to free, followed until the brokers have freed it.

A broker removes segments at its next look (``log.retention.check.interval.ms``), each broker at
its own time, and the size that it shows drops then. So the size before a deletion is kept, and
compared with that of each later reading: what was written in between is added, by the average
bytes per record, and what is missing then was freed. All the deletions that were awaited at that
moment have a part in it, by the records that each deleted. Where the log start has meanwhile
gone beyond their cutoffs, Kafka's own retention had its part too, and that is left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from retentiond.disks.log_dirs import DiskReading, ReplicaKey
from retentiond.model import TopicPartition
from retentiond.snapshot import Snapshot, partitions_of

GIVE_UP_MS = 15 * 60_000
"""Three of a broker's looks by default: what has not gone by then lay in segments that stay."""

GIVE_UP_READINGS = 3

NOISE = 0.5
"""Of what was written meanwhile, by the average: new records may be half as large as the old."""


class PendingFree(NamedTuple):
    """One replica's part in one deletion.

    ``size_bytes`` and ``end_offset`` are of the last reading, from before the deletion at first;
    ``readings`` counts those since. ``freed_bytes`` is None until the broker has freed something,
    or until nothing is to be expected any more.
    """

    cycle_id: str
    replica: ReplicaKey
    topic_id: str
    log_start_offset: int
    cutoff: int
    predicted_bytes: int
    size_bytes: int
    end_offset: int
    asked_at_ms: int
    readings: int = 0
    freed_bytes: int | None = None

    @property
    def deletion(self) -> tuple[str, TopicPartition]:
        return self.cycle_id, self.replica.at


class PartitionOffsets(NamedTuple):
    """A partition's offsets, as this cycle read them."""

    topic_id: str
    log_start_offset: int
    end_offset: int


def offsets_of(snapshot: Snapshot) -> Mapping[TopicPartition, PartitionOffsets]:
    """Those that are known."""
    found: dict[TopicPartition, PartitionOffsets] = {}
    for at, each in zip(partitions_of(snapshot), snapshot.partitions, strict=True):
        topic_id = snapshot.topics[each.topic].topic_id
        start, end = each.log_start_offset, each.high_watermark
        if topic_id is not None and start is not None and end is not None:
            found[at] = PartitionOffsets(topic_id, start, end)
    return found


class Freed(NamedTuple):
    """What a deletion freed of all replicas, once nothing of it is awaited any more."""

    cycle_id: str
    at: TopicPartition
    freed_bytes: int


@dataclass(frozen=True, slots=True)
class FreedProgress:
    """``freed_by_topic``: what this reading found freed; ``settled``: deletions that are done."""

    awaited: tuple[PendingFree, ...] = ()
    freed_by_topic: Mapping[str, int] = field(default_factory=dict)
    settled: tuple[Freed, ...] = ()

    @property
    def awaited_bytes(self) -> dict[ReplicaKey, int]:
        found: defaultdict[ReplicaKey, int] = defaultdict(int)
        for each in self.awaited:
            if each.freed_bytes is None:
                found[each.replica] += each.predicted_bytes
        return found


def follow(
    awaited: Sequence[PendingFree],
    reading: DiskReading,
    partitions: Mapping[TopicPartition, PartitionOffsets],
    now_ms: int,
) -> FreedProgress:
    """What has become of it by this reading.

    A deletion whose topic was deleted, or one of whose replicas has moved, is dropped: what it
    freed will never be known. Where the disks or offsets could not be read this time, it is
    awaited as before.
    """
    open_by_replica: defaultdict[ReplicaKey, list[PendingFree]] = defaultdict(list)
    for each in awaited:
        if each.freed_bytes is None:
            open_by_replica[each.replica].append(each)
    changed: dict[tuple[str, ReplicaKey], PendingFree] = {}
    lost: set[tuple[str, TopicPartition]] = set()
    freed_by_topic: defaultdict[str, int] = defaultdict(int)
    for replica, waiting in open_by_replica.items():
        offsets = partitions.get(replica.at)
        if offsets is None or reading.replicas(replica.at) is None:
            continue
        size = reading.size_of(replica)
        if size is None or offsets.topic_id != waiting[0].topic_id:
            lost |= {each.deletion for each in waiting}
            continue
        for each in _after_reading(waiting, size, offsets, now_ms):
            changed[each.cycle_id, replica] = each
            freed_by_topic[replica.at.topic] += each.freed_bytes or 0
    current = [
        changed.get((each.cycle_id, each.replica), each)
        for each in awaited
        if each.deletion not in lost
    ]
    return _without_settled(current, freed_by_topic)


def with_new_deletions(followed: FreedProgress, new: Sequence[PendingFree]) -> FreedProgress:
    """With the deletions of this cycle.

    One that was to free nothing, as its records lay in a segment that stays, is done with when
    another follows on the same replica: what goes from now on is counted as the later one's.
    Otherwise small deletions, one a cycle, would pile up for as long as a segment lasts. The
    first of a replica is awaited on: it knows where the log began.
    """
    replicas = {each.replica for each in new}
    begun: set[ReplicaKey] = set()
    current = []
    for each in followed.awaited:
        is_done = each.replica in replicas and each.replica in begun and not each.predicted_bytes
        if each.freed_bytes is None:
            begun.add(each.replica)
            current.append(each._replace(freed_bytes=0) if is_done else each)
        else:
            current.append(each)
    done = _without_settled(current, followed.freed_by_topic)
    return FreedProgress(
        (*done.awaited, *new), done.freed_by_topic, followed.settled + done.settled
    )


def _after_reading(
    waiting: Sequence[PendingFree], size_bytes: int, now: PartitionOffsets, now_ms: int
) -> Iterable[PendingFree]:
    """The same, with this reading's figures, and freed where something is gone."""
    freed = _freed(waiting, size_bytes, now)
    shares = _shares(freed, [each.cutoff - each.log_start_offset for each in waiting])
    for each, share in zip(waiting, shares, strict=True):
        readings = each.readings + 1
        is_over = readings >= GIVE_UP_READINGS and now_ms - each.asked_at_ms >= GIVE_UP_MS
        yield each._replace(
            size_bytes=size_bytes,
            end_offset=now.end_offset,
            readings=readings,
            freed_bytes=share if freed or is_over else None,
        )


def _freed(waiting: Sequence[PendingFree], size_bytes: int, now: PartitionOffsets) -> int:
    """Bytes that are gone since the last reading, on account of these deletions."""
    last = waiting[-1]
    begin = min(each.log_start_offset for each in waiting)
    cutoff = max(each.cutoff for each in waiting)
    bytes_per_record = last.size_bytes / max(1, last.end_offset - begin)
    written = max(0, now.end_offset - last.end_offset) * bytes_per_record
    gone = last.size_bytes + written - size_bytes
    if gone <= written * NOISE:
        return 0
    if now.log_start_offset > cutoff:
        gone *= (cutoff - begin) / (now.log_start_offset - begin)
    return int(gone)


def _shares(total: int, weights: Sequence[int]) -> list[int]:
    """Whole parts of the total, in proportion; together they are the total."""
    whole, before, parts = sum(weights), 0, []
    for weight in weights:
        parts.append(total * (before + weight) // whole - total * before // whole)
        before += weight
    return parts


def _without_settled(
    current: Sequence[PendingFree], freed_by_topic: Mapping[str, int]
) -> FreedProgress:
    """Deletions of which nothing is awaited any more leave the list."""
    by_deletion: defaultdict[tuple[str, TopicPartition], list[int | None]] = defaultdict(list)
    for each in current:
        by_deletion[each.deletion].append(each.freed_bytes)
    settled = {
        deletion: Freed(*deletion, sum(filter(None, parts)))
        for deletion, parts in by_deletion.items()
        if None not in parts
    }
    return FreedProgress(
        awaited=tuple(each for each in current if each.deletion not in settled),
        freed_by_topic={topic: freed for topic, freed in freed_by_topic.items() if freed},
        settled=tuple(settled.values()),
    )
