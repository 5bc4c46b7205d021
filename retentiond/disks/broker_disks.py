"""The brokers' disks over the cycles of one process: what they hold, when they are full, what is
stuck."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from retentiond.clock import uptime
from retentiond.config.disk_pressure import DiskPressure
from retentiond.disks.freed import FreedProgress, PendingFree, follow, offsets_of
from retentiond.disks.log_dirs import (
    DiskReader,
    DiskReading,
    LogDirCapacity,
    Orphans,
    disk_reading,
    no_disk_reading,
)
from retentiond.disks.predictions import Remote, record_bytes, remote_logs
from retentiond.disks.pressure import (
    LogDirKey,
    LogDirRelief,
    Pressure,
    RemovedSegments,
    pressure,
    sizes_by_log_dir,
)
from retentiond.disks.stuck import (
    DiskHistory,
    Patience,
    ReadingTime,
    Stuck,
    overdue_records,
    overdue_retention,
    stuck_moves,
    uneven_replicas,
    unmoved_log_starts,
)
from retentiond.formatting import DAY_MS, HOUR_MS, MINUTE_MS
from retentiond.kafka.interface import Kafka, LogDirs
from retentiond.model import Failure, TopicPartition
from retentiond.snapshot import Snapshot, partitions_of

CHECK_INTERVAL_MS = 5 * MINUTE_MS
"""``log.retention.check.interval.ms`` by default: records older than the forced retention may
stay for that long."""

STALE_MS = MINUTE_MS
"""A reading that began longer ago, as the process stood still for one, does not tell how full a
disk is."""

SPACING_MS = 10 * MINUTE_MS
"""No more readings are remembered than one in this time."""


@dataclass(slots=True)
class SpaceHistory:
    """What the readings of the last day saw, of one process: usable bytes by broker and directory,
    and when a directory is full if it goes on like that.

    Retention frees many segments at once, so free space is a sawtooth whose teeth say nothing. The
    trend is the median of all slopes between readings of the first and of the second half of the
    time (Theil and Sen's, by halves); less than an hour is no answer.
    """

    _seen: dict[tuple[int, str], list[tuple[int, int]]] = field(default_factory=dict)

    def seconds_until_full(
        self, space: Sequence[LogDirCapacity], now_ms: int
    ) -> dict[tuple[int, str], float]:
        """Seconds, of those that fill. ``now_ms``: on a clock that nobody sets."""
        full: dict[tuple[int, str], float] = {}
        for each in space:
            key = (each.broker, each.log_dir)
            seen = [at for at in self._seen.get(key, []) if at[0] >= now_ms - DAY_MS]
            if seen and now_ms - seen[0][0] >= HOUR_MS:
                taken_per_ms = -trend([*seen, (now_ms, each.usable_bytes)])
                if taken_per_ms > 0:
                    full[key] = each.usable_bytes / taken_per_ms / 1000
            if not seen or now_ms - seen[-1][0] >= SPACING_MS:
                seen.append((now_ms, each.usable_bytes))
            self._seen[key] = seen
        known = {(each.broker, each.log_dir) for each in space}
        self._seen = {key: seen for key, seen in self._seen.items() if key in known or not space}
        return full


def trend(points: Sequence[tuple[int, float]]) -> float:
    """The slope of points in the order of their times, two of them at least."""
    half = len(points) // 2
    times, values = np.array(points, np.float64).T
    passed = times[half:, None] - times[:half]
    gone = values[half:, None] - values[:half]
    slopes = gone[passed > 0] / passed[passed > 0]
    return float(np.median(slopes)) if len(slopes) else 0.0


class BrokerDisks:
    """One for each process; a cycle calls `begin`, `reading` and `stuck`, in that order."""

    def __init__(
        self, patience: Patience | None = None, check_interval_ms: int = CHECK_INTERVAL_MS
    ) -> None:
        self._reader = DiskReader()
        self._begun_ms = 0  # when, by the uptime
        self._read: tuple[LogDirs, DiskReading] | None = None
        self._patience = patience or Patience()
        self._check_interval_ms = check_interval_ms
        self._history = DiskHistory()
        self._first: ReadingTime | None = None
        self._record_bytes: dict[str, float] = {}
        self._space_history = SpaceHistory()
        self._removed = RemovedSegments()

    @property
    def can_tell(self) -> bool:
        """Whether it has looked for so long that what is not found stuck is not."""
        first = self._first
        return first is not None and self._patience.is_over(first, self._history.now)

    def begin(self, kafka: Kafka) -> None:
        """Starts reading on the side."""
        self._begun_ms = uptime().ms
        self._reader.begin(kafka.log_dirs)

    def reading(self, snapshot: Snapshot) -> DiskReading:
        """What was found about the snapshot's partitions; it waits a moment at most."""
        found = self._reader.result()
        if isinstance(found, Failure):
            return no_disk_reading(found)
        if self._read is None or self._read[0] is not found:  # a cycle asks twice under pressure
            self._read = (found, disk_reading(found, partitions_of(snapshot)))
        return self._read[1]

    def pressure(
        self,
        snapshot: Snapshot,
        rules: DiskPressure,
        before: Collection[LogDirKey],
        awaited: Sequence[PendingFree],
    ) -> Pressure:
        """Which log directories are under pressure by this cycle's reading; what is not known in a
        moment is not, nor what was read long ago. ``before``: those that were; ``awaited``: of
        earlier deletions."""
        found, reading, now_ms = self._reader.result(), self.reading(snapshot), uptime().ms
        if isinstance(found, Failure) or now_ms - self._begun_ms > STALE_MS:
            return pressure(DiskReading(), rules, before, FreedProgress(), {})
        followed = follow(awaited, reading, offsets_of(snapshot), snapshot.taken_at_ms)
        sizes = sizes_by_log_dir(found)
        removed = self._removed.bytes_by_log_dir(reading.space, sizes, now_ms)
        return pressure(reading, rules, before, followed, removed)

    def remote(
        self, snapshot: Snapshot, reading: DiskReading
    ) -> Mapping[TopicPartition, Remote | None]:
        """About what lies in remote storage. A record's size is remembered, for when the disks hold
        none any more."""
        ids = {topic.topic_id for topic in snapshot.topics}
        known = {topic: size for topic, size in self._record_bytes.items() if topic in ids}
        self._record_bytes = known | record_bytes(snapshot, reading)
        return remote_logs(snapshot, reading, self._record_bytes)

    def full_s(self, reading: DiskReading) -> Mapping[tuple[int, str], float]:
        """See `DiskReport`, with what this reading adds."""
        return self._space_history.seconds_until_full(reading.space, uptime().ms)

    def stuck(self, kafka: Kafka, snapshot: Snapshot, reading: DiskReading) -> tuple[Stuck, ...]:
        """By partition and cause, with what this reading adds. It asks Kafka only about
        partitions whose log start has stood for long."""
        if reading.orphans:  # else no directory was read
            self._history = self._history.with_reading(
                reading, _log_starts(snapshot), snapshot.taken_at_ms
            )
            self._first = self._first or self._history.now
        compacted = {topic.name for topic in snapshot.topics if "compact" in topic.cleanup_policy}
        suspects = unmoved_log_starts(self._history, self._patience)
        overdue = overdue_records(kafka, snapshot, reading, suspects, self._check_interval_ms)
        found = [
            *stuck_moves(self._history, self._patience),
            *(
                each  # the cleaner compacts each replica at its own time
                for each in uneven_replicas(self._history, self._patience)
                if each.at.topic not in compacted
            ),
            *overdue_retention(overdue),
        ]
        return tuple(sorted(found))


def _log_starts(snapshot: Snapshot) -> dict[TopicPartition, int]:
    return {
        at: each.log_start_offset
        for at, each in zip(partitions_of(snapshot), snapshot.partitions, strict=True)
        if each.log_start_offset is not None
    }


@dataclass(frozen=True, slots=True)
class DiskReport:
    """Whatever is not known is absent.

    - ``size_bytes``: of each partition on all its replicas.
    - ``log_dirs``: by partition, the log directories of all its replicas in use, sorted.
    - ``remote_bytes``: of each partition of a tiered topic, about what it has in remote storage;
      None where that is not known.
    - ``freed_bytes``: by topic, what earlier deletions turned out to have freed since the last
      cycle.
    - ``stuck``: partitions whose retention stands still, in a plan's order.
    - ``orphans``: one for each log directory that was read.
    - ``log_bytes``: of all logs in the cluster, Kafka's own too.
    - ``space``: of each log directory where the broker tells it.
    - ``full_s``: in how many seconds such a directory is full, if it goes on as in the last day;
      only those that fill.
    - ``relief``: of each log directory under pressure, what the plan does for it; None where the
      policy does not say what pressure is.
    - ``problems``: what could not be read or written, a sentence each.
    """

    size_bytes: Mapping[TopicPartition, int] = field(default_factory=dict)
    freed_bytes: Mapping[str, int] = field(default_factory=dict)
    stuck: tuple[Stuck, ...] = ()
    orphans: tuple[Orphans, ...] = ()
    log_bytes: int | None = None
    problems: tuple[str, ...] = ()
    remote_bytes: Mapping[TopicPartition, int | None] = field(default_factory=dict)
    space: tuple[LogDirCapacity, ...] = ()
    full_s: Mapping[tuple[int, str], float] = field(default_factory=dict)
    relief: tuple[LogDirRelief, ...] | None = None
    log_dirs: Mapping[TopicPartition, tuple[LogDirKey, ...]] = field(default_factory=dict)

    def stuck_at(self, at: TopicPartition) -> tuple[Stuck, ...]:
        """Each cause once, as far as there is one."""
        return tuple(each for each in self.stuck if each.at == at)


NO_DISKS = DiskReport()
