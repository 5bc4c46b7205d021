"""The bytes that deletions are expected to free, followed until the brokers have freed them.

A broker removes segments at its next retention check (``log.retention.check.interval.ms``), at a
time of its own, and only then reports a smaller size. So the size before a deletion is kept and
compared with the size in each later reading. What was written in between is added (records times
the average bytes per record); the bytes that are missing then were freed. All awaited deletions
of the replica share these bytes, in proportion to the records that each deleted. If the log start
offset has passed their cutoffs meanwhile, Kafka's own retention freed a part, which is left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from retentiond.disks.log_dirs import DiskReading, ReplicaKey
from retentiond.formatting import MINUTE_MS
from retentiond.model import TopicPartition
from retentiond.snapshot import Snapshot, partitions_of

GIVE_UP_MS = 15 * MINUTE_MS
"""Three of a broker's retention checks by default. Bytes that are still on disk after that lie in
segments that stay, because they hold other records too."""

GIVE_UP_READINGS = 3

MIN_FREED_PER_WRITTEN = 0.5
"""Fewer missing bytes than this part of the estimated writes prove nothing: the new records may be
half as large as the old ones."""


class PendingFree(NamedTuple):
    """What one deletion is expected to free of one replica.

    ``size_bytes`` and ``end_offset`` are from the last reading; at first, from the one before the
    deletion. ``readings`` counts the readings since the deletion. ``freed_bytes`` is None until the
    broker has freed something, or until no more is expected.
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
    topic_id: str
    log_start_offset: int
    end_offset: int


def offsets_of(snapshot: Snapshot) -> Mapping[TopicPartition, PartitionOffsets]:
    """The partitions whose topic id and offsets are all known."""
    offsets: dict[TopicPartition, PartitionOffsets] = {}
    for at, partition in zip(partitions_of(snapshot), snapshot.partitions, strict=True):
        topic_id = snapshot.topics[partition.topic].topic_id
        start, end = partition.log_start_offset, partition.high_watermark
        if topic_id is not None and start is not None and end is not None:
            offsets[at] = PartitionOffsets(topic_id, start, end)
    return offsets


class Freed(NamedTuple):
    """The bytes that a deletion freed on all replicas together, once no more are expected."""

    cycle_id: str
    at: TopicPartition
    freed_bytes: int


@dataclass(frozen=True, slots=True)
class FreedProgress:
    """``freed``: bytes that this reading found freed. ``settled``: deletions of which no more bytes
    are expected."""

    awaited: tuple[PendingFree, ...] = ()
    freed: Mapping[ReplicaKey, int] = field(default_factory=dict)
    settled: tuple[Freed, ...] = ()

    @property
    def freed_by_topic(self) -> Mapping[str, int]:
        freed_by_topic: defaultdict[str, int] = defaultdict(int)
        for replica, freed_bytes in self.freed.items():
            freed_by_topic[replica.at.topic] += freed_bytes
        return dict(freed_by_topic)

    @property
    def awaited_bytes(self) -> dict[ReplicaKey, int]:
        """What each replica's broker has yet to free."""
        awaited_bytes: defaultdict[ReplicaKey, int] = defaultdict(int)
        for pending in self.awaited:
            if pending.freed_bytes is None:
                awaited_bytes[pending.replica] += pending.predicted_bytes
        return awaited_bytes


def follow(
    awaited: Sequence[PendingFree],
    reading: DiskReading,
    partitions: Mapping[TopicPartition, PartitionOffsets],
    now_ms: int,
) -> FreedProgress:
    """Compares the awaited deletions with this reading.

    A deletion is dropped if its topic was deleted or one of its replicas has moved: what it freed
    will never be known. If the disks or the offsets could not be read this time, the deletion
    stays as it was, for as long as a broker may take to free it: a topic that is gone or no longer
    enabled is never read again.
    """
    open_by_replica: defaultdict[ReplicaKey, list[PendingFree]] = defaultdict(list)
    for pending in awaited:
        if pending.freed_bytes is None:
            open_by_replica[pending.replica].append(pending)
    changed: dict[tuple[str, ReplicaKey], PendingFree] = {}
    lost: set[tuple[str, TopicPartition]] = set()
    freed: defaultdict[ReplicaKey, int] = defaultdict(int)
    for replica, waiting in open_by_replica.items():
        offsets = partitions.get(replica.at)
        if offsets is None or reading.replicas(replica.at) is None:
            lost |= {row.deletion for row in waiting if now_ms - row.asked_at_ms >= GIVE_UP_MS}
            continue
        size = reading.size_of(replica)
        if size is None or offsets.topic_id != waiting[0].topic_id:
            lost |= {pending.deletion for pending in waiting}
            continue
        for pending in _after_reading(waiting, size, offsets, now_ms):
            changed[pending.cycle_id, replica] = pending
            freed[replica] += pending.freed_bytes or 0
    current = [
        changed.get((pending.cycle_id, pending.replica), pending)
        for pending in awaited
        if pending.deletion not in lost
    ]
    return _without_settled(current, freed)


def with_new_deletions(followed: FreedProgress, new: Sequence[PendingFree]) -> FreedProgress:
    """Adds the deletions of this cycle.

    An earlier deletion that was expected to free nothing (its records lie in a segment that stays)
    is settled when a new one follows on the same replica; later bytes count for the new one.
    Otherwise small deletions, one a cycle, would pile up for as long as a segment lasts. The
    first deletion of a replica stays awaited, because it knows where the log began.
    """
    replicas = {pending.replica for pending in new}
    has_first: set[ReplicaKey] = set()
    current = []
    for pending in followed.awaited:
        replica = pending.replica
        is_done = replica in replicas and replica in has_first and not pending.predicted_bytes
        if pending.freed_bytes is None:
            has_first.add(replica)
            current.append(pending._replace(freed_bytes=0) if is_done else pending)
        else:
            current.append(pending)
    progress = _without_settled(current, followed.freed)
    return FreedProgress(
        (*progress.awaited, *new), progress.freed, followed.settled + progress.settled
    )


def _after_reading(
    waiting: Sequence[PendingFree], size_bytes: int, now: PartitionOffsets, now_ms: int
) -> Iterable[PendingFree]:
    """The waiting deletions of one replica with this reading's figures, and with ``freed_bytes`` if
    bytes are gone or no more are expected."""
    freed = _freed(waiting, size_bytes, now)
    shares = _shares(freed, [pending.cutoff - pending.log_start_offset for pending in waiting])
    for pending, share in zip(waiting, shares, strict=True):
        readings = pending.readings + 1
        is_over = readings >= GIVE_UP_READINGS and now_ms - pending.asked_at_ms >= GIVE_UP_MS
        yield pending._replace(
            size_bytes=size_bytes,
            end_offset=now.end_offset,
            readings=readings,
            freed_bytes=share if freed or is_over else None,
        )


def _freed(waiting: Sequence[PendingFree], size_bytes: int, now: PartitionOffsets) -> int:
    """Since the last reading, of one replica."""
    last = waiting[-1]
    begin = min(pending.log_start_offset for pending in waiting)
    cutoff = max(pending.cutoff for pending in waiting)
    bytes_per_record = last.size_bytes / max(1, last.end_offset - begin)
    written = max(0, now.end_offset - last.end_offset) * bytes_per_record
    gone = last.size_bytes + written - size_bytes
    if gone <= written * MIN_FREED_PER_WRITTEN:
        return 0
    if now.log_start_offset > cutoff:
        gone *= (cutoff - begin) / (now.log_start_offset - begin)
    return int(gone)


def _shares(total: int, weights: Sequence[int]) -> list[int]:
    """The total split in proportion to the weights, into whole numbers that add up to it."""
    all_weights, weights_before, shares = sum(weights), 0, []
    for weight in weights:
        up_to_this = total * (weights_before + weight) // all_weights
        shares.append(up_to_this - total * weights_before // all_weights)
        weights_before += weight
    return shares


def _without_settled(
    current: Sequence[PendingFree], freed: Mapping[ReplicaKey, int]
) -> FreedProgress:
    freed_by_deletion: defaultdict[tuple[str, TopicPartition], list[int | None]] = defaultdict(list)
    for pending in current:
        freed_by_deletion[pending.deletion].append(pending.freed_bytes)
    settled = {
        deletion: Freed(*deletion, sum(filter(None, by_replica)))
        for deletion, by_replica in freed_by_deletion.items()
        if None not in by_replica
    }
    return FreedProgress(
        awaited=tuple(pending for pending in current if pending.deletion not in settled),
        freed={replica: freed_bytes for replica, freed_bytes in freed.items() if freed_bytes},
        settled=tuple(settled.values()),
    )
