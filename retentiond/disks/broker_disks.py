"""The brokers' disks over the cycles of one process: what they hold, and whose retention is
stuck."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace

from retentiond.clock import uptime
from retentiond.config.disks import DiskPressure
from retentiond.disks.freed import FreedProgress, PendingFree, follow, offsets_of
from retentiond.disks.log_dirs import (
    DiskReader,
    DiskReading,
    LogDirCapacity,
    LogDirKey,
    Orphans,
    disk_reading,
    no_disk_reading,
)
from retentiond.disks.pressure import LogDirRelief, Pressure, pressure
from retentiond.disks.recent import RecentDisks, sizes_by_log_dir
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
from retentiond.fields import TEXTS, described, figure, rows_of, said
from retentiond.formatting import MINUTE_MS
from retentiond.kafka.interface import Kafka, LogDirs
from retentiond.model import Failure, TopicPartition
from retentiond.snapshot import Snapshot, partitions_of

CHECK_INTERVAL_MS = 5 * MINUTE_MS
"""Kafka's default ``log.retention.check.interval.ms``: records older than the forced retention may
stay for that long."""

MAX_READING_AGE_MS = MINUTE_MS
"""A reading that began longer ago (the process was suspended, say) no longer tells how full a disk
is."""

TOO_OLD = (
    f"the disks were read more than {MAX_READING_AGE_MS // 1000} s before the plan, so no disk "
    "counts as under pressure in this cycle; the next cycle asks again"
)


class BrokerDisks:
    """The disks as this process has seen them. A cycle calls `begin`, `reading` and `stuck`, in
    that order."""

    def __init__(
        self, patience: Patience | None = None, check_interval_ms: int = CHECK_INTERVAL_MS
    ) -> None:
        self._reader = DiskReader()
        self._begun_ms = 0  # uptime at which the reading under way began
        self._last: tuple[LogDirs, DiskReading] | None = None  # the last answer and its reading
        self._patience = patience or Patience()
        self._check_interval_ms = check_interval_ms
        self._history = DiskHistory()
        self._first_reading: ReadingTime | None = None

    @property
    def can_tell(self) -> bool:
        """Whether the readings reach back far enough to say that nothing else is stuck."""
        first = self._first_reading
        return first is not None and self._patience.is_over(first, self._history.now)

    def begin(self, kafka: Kafka) -> None:
        self._begun_ms = uptime().ms
        self._reader.begin(kafka.log_dirs)

    def reading(self, snapshot: Snapshot) -> DiskReading:
        """The disks of the snapshot's partitions, the same for the whole cycle. It waits a second
        for the brokers; the disks of one that is slower are not known."""
        log_dirs = self._reader.result()
        if isinstance(log_dirs, Failure):
            return no_disk_reading(log_dirs)
        if self._last is None or self._last[0] is not log_dirs:  # under pressure a cycle asks twice
            self._last = (log_dirs, disk_reading(log_dirs, partitions_of(snapshot)))
        return self._last[1]

    def pressure(
        self,
        snapshot: Snapshot,
        rules: DiskPressure,
        before: Collection[LogDirKey],
        awaited: Sequence[PendingFree],
        recent: RecentDisks,
    ) -> Pressure:
        """The log directories that are under pressure by this cycle's reading, which is the one of
        `reading`, too. Without a reading, or with one that is too old, none is.

        ``before``: the directories that were under pressure before. ``awaited``: bytes of earlier
        deletions that the brokers have yet to free. ``recent``: the readings of earlier cycles.
        """
        log_dirs, now = self._reader.result(), uptime()
        is_too_old = now.ms - self._begun_ms > MAX_READING_AGE_MS
        if isinstance(log_dirs, Failure) or is_too_old:
            unknown = pressure(DiskReading(), rules, before, FreedProgress())
            return replace(unknown, problem=TOO_OLD) if is_too_old else unknown
        reading = self.reading(snapshot)
        followed = follow(awaited, reading, offsets_of(snapshot), snapshot.taken_at_ms)
        sizes = sizes_by_log_dir(log_dirs)
        recent = recent.with_reading(reading.space, sizes, now, followed.freed)
        return pressure(reading, rules, before, followed, recent)

    def stuck(self, kafka: Kafka, snapshot: Snapshot, reading: DiskReading) -> tuple[Stuck, ...]:
        """Adds this reading to the history of the disks, and returns what is stuck, sorted by
        partition and cause. It asks Kafka only about partitions whose log start offset has not
        moved for long."""
        if reading.orphans:  # has an entry for each directory that was read
            log_starts = {
                at: partition.log_start_offset
                for at, partition in zip(partitions_of(snapshot), snapshot.partitions, strict=True)
                if partition.log_start_offset is not None
            }
            self._history = self._history.with_reading(reading, log_starts, snapshot.taken_at_ms)
            self._first_reading = self._first_reading or self._history.now
        compacted = {topic.name for topic in snapshot.topics if "compact" in topic.cleanup_policy}
        suspects = unmoved_log_starts(self._history, self._patience)
        overdue = overdue_records(kafka, snapshot, reading, suspects, self._check_interval_ms)
        partitions = [
            *stuck_moves(self._history, self._patience),
            *(
                stuck  # not of a compacted topic: each broker compacts its replica at its own time
                for stuck in uneven_replicas(self._history, self._patience)
                if stuck.at.topic not in compacted
            ),
            *overdue_retention(overdue),
        ]
        return tuple(sorted(partitions, key=lambda stuck: (stuck.at, stuck.cause)))


@described
class DiskReport:
    """What a cycle says about the disks. A partition, topic or directory that is not known is
    absent.

    - ``size_bytes``: all replicas together.
    - ``log_dirs``: of all replicas in use, sorted.
    - ``freed_bytes``: by topic, the bytes of earlier deletions that the brokers have freed since
      the last cycle.
    - ``stuck``: in a plan's order.
    - ``orphans``, ``log_bytes``, ``topic_bytes``, ``space``: see `DiskReading`.
    - ``relief``: None if no ``disk_pressure`` is configured.
    """

    size_bytes: Mapping[TopicPartition, int] = field(default_factory=dict)
    freed_bytes: Mapping[str, int] = field(default_factory=dict)
    stuck: tuple[Stuck, ...] = said(
        rows_of(Stuck),
        "the partitions whose retention is stuck on a broker",
        default=(),
        name="stuck_retention",
    )
    orphans: tuple[Orphans, ...] = ()
    log_bytes: int | None = None
    topic_bytes: Mapping[str, int] | None = None

    @figure(rows_of(Orphans), "the log directories with orphan partitions", name="orphans")
    def with_orphans(self) -> tuple[Orphans, ...]:
        return tuple(orphans for orphans in self.orphans if orphans.partitions)

    @figure(rows_of(LogDirRelief), "what the plan frees in log directories under pressure")
    def under_pressure(self) -> tuple[LogDirRelief, ...]:
        return self.relief or ()

    problems: tuple[str, ...] = said(
        TEXTS, "what can't be told of the disks, and why", default=(), name="disk_problems"
    )
    space: tuple[LogDirCapacity, ...] = ()
    relief: tuple[LogDirRelief, ...] | None = None
    log_dirs: Mapping[TopicPartition, tuple[LogDirKey, ...]] = field(default_factory=dict)

    @property
    def fullest_first(self) -> list[LogDirCapacity]:
        return sorted(self.space, key=lambda log_dir: log_dir.usable_share)

    def stuck_at(self, at: TopicPartition) -> tuple[Stuck, ...]:
        return tuple(stuck for stuck in self.stuck if stuck.at == at)


NO_DISKS = DiskReport()
