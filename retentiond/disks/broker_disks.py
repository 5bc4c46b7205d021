"""The brokers' disks over the cycles of one process: what they hold, and what is stuck."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from retentiond.clock import uptime
from retentiond.disks.filling import Filling
from retentiond.disks.log_dirs import DiskReader, DiskReading, Orphans, Space, sorted_out, unread
from retentiond.disks.predictions import Remote, record_bytes, remote_logs
from retentiond.disks.stuck import (
    DiskHistory,
    Moment,
    Patience,
    Stuck,
    look_up,
    overdue_retention,
    standing,
    stuck_moves,
    uneven_replicas,
)
from retentiond.kafka.port import Kafka
from retentiond.model import Failure, TopicPartition
from retentiond.snapshot import Snapshot, partitions_of

CHECK_INTERVAL_MS = 5 * 60_000
"""``log.retention.check.interval.ms`` by default: records older than the forced retention may
stay for that long."""


class BrokerDisks:
    """One for each process; a cycle calls `begin`, `reading` and `stuck`, in that order."""

    def __init__(
        self, patience: Patience | None = None, check_interval_ms: int = CHECK_INTERVAL_MS
    ) -> None:
        self._reader = DiskReader()
        self._patience = patience or Patience()
        self._check_interval_ms = check_interval_ms
        self._history = DiskHistory()
        self._first: Moment | None = None
        self._record_bytes: dict[str, float] = {}
        self._filling = Filling()

    @property
    def can_tell(self) -> bool:
        """Whether it has looked for so long that what is not found stuck is not."""
        first = self._first
        return first is not None and self._patience.is_over(first, self._history.now)

    def begin(self, kafka: Kafka) -> None:
        """Starts reading on the side."""
        self._reader.begin(kafka.log_dirs)

    def reading(self, snapshot: Snapshot) -> DiskReading:
        """What was found about the snapshot's partitions; it waits a moment at most."""
        found = self._reader.result()
        if isinstance(found, Failure):
            return unread(found)
        return sorted_out(found, partitions_of(snapshot))

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
        return self._filling.look(reading.space, uptime().ms)

    def stuck(self, kafka: Kafka, snapshot: Snapshot, reading: DiskReading) -> tuple[Stuck, ...]:
        """By partition and cause, with what this reading adds. It asks Kafka only about
        partitions whose log start has stood for long."""
        if reading.orphans:  # else no directory was read
            self._history = self._history.with_reading(
                reading, _log_starts(snapshot), snapshot.taken_at_ms
            )
            self._first = self._first or self._history.now
        compacted = {topic.name for topic in snapshot.topics if "compact" in topic.cleanup_policy}
        suspects = standing(self._history, self._patience)
        overdue = look_up(kafka, snapshot, reading, suspects, self._check_interval_ms)
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
    - ``problems``: what could not be read or written, a sentence each.
    """

    size_bytes: Mapping[TopicPartition, int] = field(default_factory=dict)
    freed_bytes: Mapping[str, int] = field(default_factory=dict)
    stuck: tuple[Stuck, ...] = ()
    orphans: tuple[Orphans, ...] = ()
    log_bytes: int | None = None
    problems: tuple[str, ...] = ()
    remote_bytes: Mapping[TopicPartition, int | None] = field(default_factory=dict)
    space: tuple[Space, ...] = ()
    full_s: Mapping[tuple[int, str], float] = field(default_factory=dict)

    def stuck_at(self, at: TopicPartition) -> tuple[Stuck, ...]:
        """Each cause once, as far as there is one."""
        return tuple(each for each in self.stuck if each.at == at)


NO_DISKS = DiskReport()
